"""JSON lines: decoded rows written and read, one object a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from secor.arrow.counted import counted
from secor.arrow.nested_arrays import unmark
from secor.arrow.to_python import plain, write_out
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.model import rows_in_blocks
from secor.core.ports import Sink
from secor.formats.streams import BLOCK, DecompressingReader, codec_identity, compressing
from secor.formats.text import Splitter
from secor.formats.typed import metadata
from secor.formats.typed.metadata import ROW
from secor.formats.typed.writer import fit_or_refuse, flattened
from secor.schema.schema import RowSchema
from secor.schema.settings import check

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {"none": ".json", "gzip": ".json.gz", "zstd": ".json.zst"}
)

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""

TYPES = ("text", "connect", "connect-numeric")
"""How dates, times and decimals are written: as text; or as Connect's converter does, decimals in
base64 or as numbers.
"""

ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class JsonLinesFormat:
    """An object and a newline for each row; fields that are null are left out.

    Bytes are in base64, decimals are strings, dates and times ISO 8601; with another of
    ``TYPES`` dates, times and decimals of the messages are as Kafka Connect's JSON converter
    writes them (those of metadata columns stay), with ``milliseconds`` also timestamps of a finer
    unit.  With a declared
    schema the members come in its order and ``_extra`` is the object of what is not
    declared; otherwise they come by name, and doubles without fraction are written as
    integers: that a message came among others does not change its line.
    """

    codec: str = "none"
    schema: RowSchema = field(default_factory=RowSchema)
    metadata_columns: tuple[str, ...] = ()
    types: str = "text"
    milliseconds: bool = False

    def __post_init__(self) -> None:
        if self.types not in TYPES:
            raise ConfigurationError(f"no types {self.types!r}: use one of {', '.join(TYPES)}")
        check("JSON lines", self.codec, EXTENSIONS, 1, "rows")
        object.__setattr__(self, "metadata_columns", metadata.check_columns(self.metadata_columns))

    @property
    def extension(self) -> str:
        """``.json``, ``.json.gz`` or ``.json.zst``."""
        return EXTENSIONS[self.codec]

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        columns = ",".join(self.metadata_columns)
        text = f"jsonlines:{VERSION}:{codec_identity(self.codec)}:{self.schema.identity}:{columns}"
        if self.types == "text":
            return text
        return f"{text}:{self.types}{':milliseconds' if self.milliseconds else ''}"

    def create(self, sink: Sink, seed: bytes) -> JsonLinesWriter:
        """Begin a file; JSON lines have no markers that a seed could decide."""
        del seed
        return JsonLinesWriter(sink, self)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield rows as JSON messages, with the values of metadata columns.

        A line does not mark those: members with their names are taken for them.
        Raises ``CorruptFile``.
        """
        plain_file = DecompressingReader(file, self.codec, name)
        splitter = Splitter(b"\n", name)
        while data := plain_file.read(4 * BLOCK):
            if lines := splitter.split(data):
                yield _messages(lines, name)
        if splitter.rest:
            yield _last_message(bytes(splitter.rest), name)


class JsonLinesWriter:
    """One file of JSON lines in the making."""

    def __init__(self, sink: Sink, log_format: JsonLinesFormat) -> None:
        self._format = log_format
        self._sink = sink
        self._stream = compressing(sink, log_format.codec)
        self._empty = True
        declared = log_format.schema.declared
        self._encoder = msgspec.json.Encoder(
            # Without a declared order it would be that of the batch's columns, and so depend on the
            # messages around.
            order=None if declared else "sorted",
            decimal_format="number" if log_format.types == "connect-numeric" else "string",
        )

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows.  Raises ``RecordRefused`` for one that is not of the declared schema."""
        for rows in rows_in_blocks(records, ROWS_AT_ONCE):
            self._empty = False
            self._stream.write(self._lines(rows))

    def buffered(self) -> int:
        """Return the bytes of the block that is not yet compressed."""
        return self._stream.buffered()

    def close(self) -> None:
        """Write the rest; nothing at all if there were no rows."""
        if not self._empty:
            self._stream.close()

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Nothing to free but memory."""

    def _lines(self, records: pa.RecordBatch) -> bytes:
        schema, names = self._format.schema, self._format.metadata_columns
        row = unmark(records.column(ROW), records.schema.field(ROW))
        if schema.declared:
            row = fit_or_refuse(schema, records.column(ROW), records.column("offset"))
        if self._format.types != "text":
            row = counted(
                row,
                decimals=self._format.types == "connect",
                milliseconds=self._format.milliseconds,
            )
        columns = [*metadata.columns_of(records, names), row]
        group = pa.RecordBatch.from_arrays(columns, names=[*names, ROW])
        group = flattened(group, lambda leaf: leaf)
        if not group.num_columns:  # such a batch does not know how many rows it has
            return self._encoder.encode_lines([{}] * records.num_rows)
        struct = group.to_struct_array()
        rows = plain(write_out(struct), integral=not schema.declared, nulls=schema.declared)
        return self._encoder.encode_lines(rows)


def _last_message(line: bytes, name: str) -> pa.RecordBatch:
    """Return the message of a last line without an end, as Aiven's connector writes it.

    A whole JSON object is not the beginning of a longer one, so nothing of it was lost.
    """
    try:
        return _messages([line], name)
    except CorruptFile as error:
        raise CorruptFile(f"{name}: its last line has no end: it was cut short") from error


def _messages(lines: list[bytes], name: str) -> pa.RecordBatch:
    # Raw: numbers with more digits than a double keep all of them.
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    texts: list[str] = []
    values_of: dict[str, list[Any]] = {column: [] for column in metadata.COLUMNS}
    encoder = msgspec.json.Encoder()
    try:
        for line in lines:
            row = decoder.decode(line)
            for column, values in values_of.items():
                raw = row.pop(column, None)
                kind = metadata.PYTHON[column]
                values.append(None if raw is None else msgspec.json.decode(raw, type=kind))
            texts.append(encoder.encode(row).decode())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(f"{name}: a line is no JSON object of rows: {error}") from error
    known = {
        column: pa.array(values, metadata.COLUMNS[column][1])
        for column, values in values_of.items()
        if any(value is not None for value in values)
    }
    return metadata.messages(texts, known)
