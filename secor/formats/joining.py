"""Files of one format joined to one: each message and each row stays as it is.

The new file has the codec, the schema and the settings of the first, unless a ``Target`` says
others.  Text and JSON lines are joined as bytes, Avro as blocks, the others as columns, in new row
groups of the usual size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.ports import FileWriter, LogFormat, Sink

if TYPE_CHECKING:
    from secor.formats.sequencefile import SequenceFileFormat

Opened = Callable[[str], BinaryIO]
"""Opens the object of a key.  Raises ``NotFound``."""

ROWS_READ = 8192


@dataclass(slots=True)
class NumberedLines:
    """Reads files of text one after the other; their lines are the messages from an offset on."""

    lines: LogFormat
    offset: int

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give the messages: offset and value, all else is null.  Raises ``CorruptFile``."""
        for records in self.lines.read(file, name):
            end = self.offset + records.num_rows
            offsets = pa.array(np.arange(self.offset, end, dtype=np.int64))
            place = records.schema.get_field_index("offset")
            yield records.set_column(place, records.schema.field(place), offsets)
            self.offset = end


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files to join, by their keys, in order.

    ``numbered`` reads text whose lines have all offsets of a range: it is needed where text becomes
    messages.
    """

    keys: Sequence[str]
    open: Opened
    numbered: NumberedLines | None = None

    def each(self) -> Iterator[tuple[str, BinaryIO]]:
        """Give each file, open while it is the current one."""
        for key in self.keys:
            with self.open(key) as file:
                yield key, file


_WHOLE = {"sequencefile": ".seq", "parquet": ".parquet"}
"""Formats of whole messages, and their extensions."""

_LINES = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""Codecs of text and JSON lines, and what they add to the extension."""


@dataclass(frozen=True, slots=True)
class Target:
    """The ``format`` of whole messages and the codec of a new file; None: as the first input."""

    format: str | None = None
    codec: str | None = None

    def extension(self, source: str) -> str:
        """Return the extension of what is made of files with the extension ``source``.

        Raises ``ConfigurationError`` for a format or a codec that cannot be made of them.
        """
        if source not in JOINED:
            raise ConfigurationError(f"files that end with {source!r} cannot be joined")
        if self.format is not None:
            is_text = source.startswith(".txt") and self.format == "parquet"
            if (source not in _WHOLE.values() and not is_text) or self.format not in _WHOLE:
                raise ConfigurationError(
                    f"{source} does not become {self.format}: only whole messages change their"
                    f" format ({', '.join(_WHOLE)}), and text becomes parquet; rows keep it"
                )
            source = _WHOLE[self.format]
        kind = source.split(".")[1]
        codecs: Collection[str] = _LINES if kind in ("txt", "json") else _codecs(source)
        if self.codec is not None and self.codec not in codecs:
            raise ConfigurationError(
                f"{source} has no codec {self.codec!r}: use one of {', '.join(codecs)}"
            )
        return source if codecs is not _LINES or not self.codec else f".{kind}{_LINES[self.codec]}"


AS_THEY_ARE = Target()


def _codecs(extension: str) -> Collection[str]:
    if extension == ".seq":
        from secor.formats.sequencefile.codecs import CODECS as SEQUENCEFILE

        return ("none", *SEQUENCEFILE)
    if extension == ".parquet":
        from secor.formats.parquet import CODECS as PARQUET

        return PARQUET
    if extension == ".orc":
        from secor.formats.typed.orc import CODECS as ORC

        return ORC
    from secor.formats.typed.avro import CODECS as AVRO

    return AVRO


def extension_of(key: str) -> str:
    """Return the extension of an object that can be joined; "" for others."""
    return max((member for member in JOINED if key.endswith(member)), key=len, default="")


def join(
    inputs: Inputs, extension: str, sink: Sink, seed: bytes, target: Target = AS_THEY_ARE
) -> None:
    """Write the files' content, one after the other, as one file, which ``target`` describes.

    ``extension`` is that of the inputs; ``seed`` names the new object (for sync markers).  Raises
    ``ConfigurationError`` for an extension that ``JOINED`` has not, and for files that cannot be
    one; ``CorruptFile``, ``NotFound``, ``LocalFilesExhausted``.
    """
    if extension not in JOINED:
        raise ConfigurationError(f"{inputs.keys[0]}: files of this format cannot be joined")
    if target.extension(extension) != extension and target.format is not None:
        _converted(inputs, extension, sink, seed, target)
    else:
        JOINED[extension](inputs, sink, seed, target.codec)


def _converted(inputs: Inputs, extension: str, sink: Sink, seed: bytes, target: Target) -> None:
    """Write whole messages in another format.  Raises ``ConfigurationError`` for rows."""
    from secor.formats import make_format

    source = inputs.numbered or _whole_messages(inputs, extension)
    settings = {} if target.codec is None else {"codec": target.codec}
    new = make_format(target.format or "", **settings)
    writer: FileWriter = new.create(sink, seed)
    for key, file in inputs.each():
        for records in source.read(file, key):
            writer.append(records)
    writer.close()


def _whole_messages(inputs: Inputs, extension: str) -> LogFormat:
    """Return the format of files of whole messages.  Raises ``ConfigurationError`` for others."""
    log_format: LogFormat | None = None
    if extension == ".seq":
        log_format = _sequencefile_format(inputs)
    elif extension == ".parquet":
        log_format = _parquet_of_messages(inputs)
    if log_format is None:
        raise ConfigurationError(
            f"{inputs.keys[0]}: files of this format do not hold whole messages"
        )
    return log_format


Change = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Gives what is left of messages in ``SCHEMA``."""


def write_changed(inputs: Inputs, extension: str, sink: Sink, seed: bytes, change: Change) -> None:
    """Write what ``change`` leaves of the files' messages as one file, under the first's settings.

    Raises as ``join``; ``ConfigurationError`` also for files that do not hold whole messages.
    """
    log_format = _whole_messages(inputs, extension)
    _messages(log_format, inputs, sink, seed, change)


Joined = Callable[[Inputs, Sink, bytes, str | None], None]
"""Joins files of one extension; the codec is None for that of the first."""


def _lines(codec: str) -> Joined:
    def joined(inputs: Inputs, sink: Sink, seed: bytes, new_codec: str | None) -> None:
        from secor.formats.streams import BLOCK, DecompressingReader, compressing

        del seed
        stream = compressing(sink, new_codec or codec)
        for key, file in inputs.each():
            plain = DecompressingReader(file, codec, key)
            while data := plain.read(4 * BLOCK):
                stream.write(data)
        stream.close()

    return joined


def _sequencefiles(inputs: Inputs, sink: Sink, seed: bytes, codec: str | None) -> None:
    log_format = _sequencefile_format(inputs)
    _messages(log_format if codec is None else log_format.with_codec(codec), inputs, sink, seed)


def _sequencefile_format(inputs: Inputs) -> SequenceFileFormat:
    from secor.formats.sequencefile import SequenceFileFormat

    with inputs.open(inputs.keys[0]) as first:
        return SequenceFileFormat.of_file(first, inputs.keys[0])


def _messages(
    log_format: LogFormat,
    inputs: Inputs,
    sink: Sink,
    seed: bytes,
    change: Change = lambda records: records,
) -> None:
    writer: FileWriter = log_format.create(sink, seed)
    for key, file in inputs.each():
        for records in log_format.read(file, key):
            writer.append(change(records))
    writer.close()


def _parquet_of_messages(inputs: Inputs) -> LogFormat | None:
    """Return the format of Parquet files with whole messages; None for others."""
    from pyarrow import parquet as pq

    from secor.formats.parquet import ParquetFormat, holds_messages

    key = inputs.keys[0]
    with inputs.open(key) as first, _whole(key):
        whole = holds_messages(pq.ParquetFile(first).schema_arrow)
    return ParquetFormat(_parquet_codec(inputs)) if whole else None


def _parquet_codec(inputs: Inputs) -> str:
    """Return the codec of the first file that has rows: a file without rows does not show it."""
    from pyarrow import parquet as pq

    for key, file in inputs.each():
        with _whole(key):
            metadata = pq.ParquetFile(file).metadata
            if metadata.num_row_groups:
                codec: str = metadata.row_group(0).column(0).compression.lower()
                return "none" if codec == "uncompressed" else codec
    return "zstd"


def _parquet(inputs: Inputs, sink: Sink, seed: bytes, codec: str | None) -> None:
    from pyarrow import parquet as pq

    from secor.formats.parquet import ParquetFormat
    from secor.formats.typed.parquet import MARK, ParquetFileWriter, TypedParquetFormat

    key = inputs.keys[0]
    with inputs.open(key) as first, _whole(key):
        schema = pq.ParquetFile(first).schema_arrow
    mark = (schema.metadata or {}).get(MARK)
    whole = _parquet_of_messages(inputs) if mark is None else None
    if whole is not None:
        _messages(whole if codec is None else ParquetFormat(codec), inputs, sink, seed)
        return
    codec = codec or _parquet_codec(inputs)
    columns = tuple(json.loads(mark)["metadata_columns"]) if mark is not None else ()
    typed = TypedParquetFormat(codec, metadata_columns=columns)

    def rows(key: str, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        # Damage must not get into the new file, which has fresh checksums over it.
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        _check_schema(inputs, key, parquet.schema_arrow, schema)
        yield from parquet.iter_batches(ROWS_READ)

    _groups(inputs, rows, ParquetFileWriter(sink, typed, schema), typed.row_group_rows)


def _orc(inputs: Inputs, sink: Sink, seed: bytes, codec: str | None) -> None:
    from pyarrow import orc

    from secor.core.model import rows_in_blocks
    from secor.formats.typed.orc import CODECS, OrcFileWriter, OrcFormat

    del seed
    key = inputs.keys[0]
    with inputs.open(key) as first, _whole(key):
        stripes = orc.ORCFile(first)
        schema, present = stripes.schema, stripes.compression.lower()
    names = {theirs: ours for ours, theirs in CODECS.items()}
    typed = OrcFormat(codec or names[present])

    def rows(key: str, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        stripes = orc.ORCFile(file)
        _check_schema(inputs, key, stripes.schema, schema)
        for stripe in range(stripes.nstripes):
            yield from rows_in_blocks(stripes.read_stripe(stripe), ROWS_READ)

    _groups(inputs, rows, OrcFileWriter(sink, typed), typed.stripe_rows)


def _avro(inputs: Inputs, sink: Sink, seed: bytes, codec: str | None) -> None:
    import fastavro
    import fastavro.write

    from secor.core.foreign_avro import UNREADABLE
    from secor.formats.python_file import SinkFile
    from secor.formats.typed.avro import CODECS

    output = SinkFile(sink)
    writer: Any = None
    schema: Any = None
    for key, file in inputs.each():
        try:
            blocks: Any = fastavro.block_reader(file)
            if writer is None:
                schema = blocks.writer_schema
                writer = fastavro.write.Writer(
                    cast("Any", output),
                    schema,
                    codec=CODECS[codec] if codec else blocks.codec,
                    # By the seed, not by chance: a second attempt writes the same bytes.
                    sync_marker=hashlib.sha256(b"avro" + seed).digest()[:16],
                )
            # Blocks are taken over as bytes, so all of them must be readable under the first file's
            # schema.
            if blocks.writer_schema != schema:
                raise _other_columns(inputs, key)
            for block in blocks:
                writer.write_block(block)
        except UNREADABLE as error:
            raise CorruptFile(f"{key}: is no whole Avro file: {error!r}") from error


def _groups(
    inputs: Inputs,
    rows: Callable[[str, BinaryIO], Iterator[pa.RecordBatch]],
    file: Any,
    group_rows: int,
) -> None:
    """Write the rows of all files in groups of a number of rows."""
    from secor.formats.row_groups import RowGroups

    groups = RowGroups(group_rows)
    for key, source in inputs.each():
        with _whole(key):
            for batch in rows(key, source):
                for group in groups.add(batch):
                    file.write(group)
    if len(groups):
        file.write(groups.rest())
    file.close()


def _check_schema(inputs: Inputs, key: str, schema: pa.Schema, first: pa.Schema) -> None:
    if not schema.equals(first, check_metadata=True):
        raise _other_columns(inputs, key)


def _other_columns(inputs: Inputs, key: str) -> ConfigurationError:
    return ConfigurationError(
        f"{key}: its columns are not those of {inputs.keys[0]}, under the same settings: leave"
        " both as they are"
    )


@contextmanager
def _whole(key: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"{key}: is no whole file of its format: {error}") from error


JOINED: Mapping[str, Joined] = MappingProxyType(
    {
        ".seq": _sequencefiles,
        ".parquet": _parquet,
        ".orc": _orc,
        ".avro": _avro,
        ".txt": _lines("none"),
        ".txt.gz": _lines("gzip"),
        ".txt.zst": _lines("zstd"),
        ".json": _lines("none"),
        ".json.gz": _lines("gzip"),
        ".json.zst": _lines("zstd"),
    }
)
"""By extension."""


def differ(first: Iterator[pa.RecordBatch], second: Iterator[pa.RecordBatch]) -> int | None:
    """Compare messages that come in other pieces; return the first row that is not the same.

    None if all are.
    """
    row = 0
    left, right = _next(first), _next(second)
    while left is not None and right is not None:
        rows = min(left.num_rows, right.num_rows)
        if not left.slice(0, rows).equals(right.slice(0, rows)):
            return row
        row += rows
        left = left.slice(rows) if rows < left.num_rows else _next(first)
        right = right.slice(rows) if rows < right.num_rows else _next(second)
    return None if left is None and right is None else row


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)
