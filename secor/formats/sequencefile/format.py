"""The SequenceFile format: its settings, block writer, reader and identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Literal, Protocol, cast

import numpy as np
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.ports import Sink
from secor.formats.row_groups import Pieces
from secor.formats.sequencefile.codecs import CODECS, Codec, codec_of_class
from secor.formats.sequencefile.fields import (
    Longs,
    assemble,
    binary_sizes,
    content,
    fixed,
    join,
    vints,
)
from secor.formats.sequencefile.framing import Blocks, frame_blocks
from secor.formats.sequencefile.header import (
    BYTES_WRITABLE,
    ESCAPE,
    LARGEST,
    FileHeader,
    encode_vint,
    sync_of,
)
from secor.formats.sequencefile.layouts import LAYOUTS, Keys, SequenceFileLayout, join_keys
from secor.formats.sequencefile.reader import header_of, read_file, read_split
from secor.formats.sequencefile.record_writer import (
    MOST_WRITE,
    BufferedOutput,
    RecordBody,
    refuse_large,
)

BLOCK_SIZE = 1_000_000
"""Bytes of keys and values that end a block: Hadoop's ``io.seqfile.compress.blocksize``."""


class BlockBody:
    """Blocks of records: a sync marker, the count, and four compressed buffers."""

    def __init__(
        self, output: BufferedOutput, layout: SequenceFileLayout, sync: bytes, codec: Codec
    ) -> None:
        self._output = output
        self._layout = layout
        self._marker = ESCAPE + sync
        self._codec = codec
        self._rows = 0
        self._size = 0
        # Sizes of keys, keys, sizes of values, values: the order in the file.
        self._buffers = tuple(bytearray() for _ in range(4))

    def frame(self, records: pa.RecordBatch) -> None:
        """Add rows, at least one."""
        framed = frame_blocks(
            records,
            legacy=self._layout.name == "legacy",
            largest=LARGEST,
            most=BLOCK_SIZE,
            size=self._size,
        )
        if framed is not None:
            self._take(framed)
            return
        self._frame_by_numpy(records)

    def _take(self, framed: Blocks) -> None:
        """Take what the extension framed; its last end is that of the rows."""
        *columns, ends, size = framed
        views = [memoryview(column) for column in columns]
        start = (0, 0, 0, 0, 0)
        for end in ends:
            parts = [
                view[begin:after]
                for view, begin, after in zip(views, start[1:], end[1:], strict=True)
            ]
            whole = end is not ends[-1]
            # A block that is here from its first row on is compressed where it is.
            if not whole or self._rows:
                for buffer, part in zip(self._buffers, parts, strict=True):
                    buffer += part
            block = self._buffers if self._rows else parts
            self._rows += end[0] - start[0]
            if whole:
                self._put_block(block)
            start = end
        self._size = size

    def _frame_by_numpy(self, records: pa.RecordBatch) -> None:
        values = records.column("value")
        keys = self._layout.keys(records)
        value_sizes = binary_sizes(values) + 4
        sizes = keys.sizes + value_sizes
        refuse_large(records, sizes)
        columns = [content(array) for array in self._columns(keys, values, value_sizes)]
        start = 0
        for end in self._block_ends(sizes):
            self._gather(columns, start, end)
            self._put_block(self._buffers)
            start = end
        self._gather(columns, start, keys.rows)
        self._size += int(sizes[start:].sum())

    def buffered(self) -> int:
        """Return the bytes of the block in the making."""
        return sum(map(len, self._buffers))

    def finish(self) -> None:
        """Put out the last block."""
        if self._rows:
            self._put_block(self._buffers)

    def _columns(self, keys: Keys, values: pa.Array, value_sizes: Longs) -> list[pa.Array]:
        return [
            assemble(vints(keys.sizes), keys.rows),
            join_keys(keys),
            assemble(vints(value_sizes), keys.rows),
            join([assemble([fixed(value_sizes - 4, 4)], keys.rows), values]),
        ]

    def _block_ends(self, sizes: Longs) -> Iterator[int]:
        """Yield the rows after which a block is full."""
        ends = np.cumsum(sizes)
        origin = -self._size
        while True:
            row = int(np.searchsorted(ends, origin + BLOCK_SIZE, "left"))
            if row == len(ends):
                return
            yield row + 1
            origin = int(ends[row])

    def _gather(self, columns: list[tuple[Longs, memoryview]], start: int, end: int) -> None:
        for buffer, (offsets, data) in zip(self._buffers, columns, strict=True):
            buffer += data[offsets[start] : offsets[end]]
        self._rows += end - start

    def _put_block(self, columns: Sequence[bytearray | memoryview]) -> None:
        parts = [self._marker, encode_vint(self._rows)]
        for column in columns:
            compressed = self._codec.compress_to_parts(column)
            parts += [encode_vint(sum(map(len, compressed))), *compressed]
            if isinstance(column, bytearray):
                column.clear()
        if sum(map(len, parts)) > MOST_WRITE:
            for part in parts:
                self._output.add(part)
        else:
            self._output.add(b"".join(parts))
        self._rows = 0
        self._size = 0


_PENDING = 512 * 1024  # small appends are gathered to this size: framing has a fixed price
_SLICE_BYTES = 4 << 20
_SLICE_ROWS = 32_768


class Body(Protocol):
    """The part after the header: records or blocks."""

    def frame(self, records: pa.RecordBatch) -> None:
        """Add rows, at least one."""

    def buffered(self) -> int:
        """Return the bytes held here."""

    def finish(self) -> None:
        """Put out what is left."""


class SequenceFileWriter:
    """One file in the making (see ``ports.FileWriter``)."""

    def __init__(self, output: BufferedOutput, body: Body) -> None:
        self._output = output
        self._body = body
        self._pending = Pieces()
        self._pending_size = 0

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows of ``SCHEMA``.  Raises ``RecordRefused`` for one above 1 GiB."""
        if not records.num_rows:
            return
        size = records.nbytes
        if self._pending_size + size < _PENDING:
            self._pending.add(records)
            self._pending_size += size
            return
        self._frame_pending()
        self._frame(records)

    def buffered(self) -> int:
        """Return the bytes held in memory, not yet given to the sink."""
        return self._pending.buffered + self._body.buffered() + self._output.buffered()

    def close(self) -> None:
        """Write the rest; the sink itself stays open."""
        self._frame_pending()
        self._body.finish()
        self._output.flush()

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Nothing to free but memory."""

    def _frame_pending(self) -> None:
        if self._pending.rows:
            self._frame(self._pending.take())
            self._pending_size = 0

    def _frame(self, records: pa.RecordBatch) -> None:
        for part in _slices(records):
            self._body.frame(part)


def _slices(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve until a part is small, so that working memory is bounded and stays in caches."""
    rows = records.num_rows
    if rows == 1 or (rows <= _SLICE_ROWS and records.nbytes <= _SLICE_BYTES):
        yield records
        return
    yield from _slices(records.slice(0, rows // 2))
    yield from _slices(records.slice(rows // 2))


KeyLayout = Literal["messagepack", "legacy"]
CodecName = Literal["none", "gzip", "default", "snappy", "lz4", "bzip2", "zstd"]

_VERSION = 1
"""Goes up when the same records and settings would give other bytes."""


class SequenceFileFormat:
    """Messages as records of a SequenceFile (see ``ports.LogFormat``).

    ``keys`` is ``messagepack`` (lossless; a null timestamp type reads back as 0, null headers
    as none) or ``legacy`` (offset and value only).  ``codec`` ``none`` writes plain records,
    any other one BLOCK mode; ``zstd`` needs native Hadoop where the JVM reads it.
    Reading takes both settings from the file.
    """

    def __init__(self, keys: KeyLayout = "messagepack", codec: CodecName = "none") -> None:
        if keys not in LAYOUTS:
            raise ConfigurationError(f"SequenceFile keys {keys!r}: use one of {', '.join(LAYOUTS)}")
        if codec != "none" and codec not in CODECS:
            raise ConfigurationError(
                f"SequenceFile codec {codec!r}: use one of none, {', '.join(CODECS)}"
            )
        self._layout = LAYOUTS[keys]
        self._codec = None if codec == "none" else CODECS[codec]

    @classmethod
    def of_file(cls, file: BinaryIO, name: str) -> SequenceFileFormat:
        """Return the format with the settings of a file.  Raises ``CorruptFile``."""
        header = header_of(file, name)
        made = cls()
        made._layout = next(
            layout for layout in LAYOUTS.values() if layout.java_class == header.key_class
        )
        made._codec = None if header.codec is None else codec_of_class(header.codec)
        return made

    def with_codec(self, codec: str) -> SequenceFileFormat:
        """Return the format with the same keys and another codec."""
        made = SequenceFileFormat(codec=cast("CodecName", codec))
        made._layout = self._layout
        return made

    @property
    def extension(self) -> str:
        """``.seq`` with every codec: tools take the codec from the header, and would expand
        a file of another extension (``.gz``) as a whole.
        """
        return ".seq"

    @property
    def identity(self) -> str:
        """All settings that change the bytes, and the writer's version."""
        codec = self._codec.identity if self._codec else "none"
        return f"sequencefile/{_VERSION} keys={self._layout.name} codec={codec}"

    def create(self, sink: Sink, seed: bytes) -> SequenceFileWriter:
        """Begin a file; its sync marker is a hash of ``seed``."""
        sync = sync_of(seed)
        output = BufferedOutput(sink)
        codec = self._codec
        header = FileHeader(
            key_class=self._layout.java_class,
            value_class=BYTES_WRITABLE,
            codec=codec.java_class if codec else None,
            block=codec is not None,
            sync=sync,
        )
        output.add(header.encode())
        body: Body
        if codec is None:
            body = RecordBody(output, self._layout, sync)
        else:
            body = BlockBody(output, self._layout, sync, codec)
        return SequenceFileWriter(output, body)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's records in ``SCHEMA``.  Raises ``CorruptFile`` naming ``name``."""
        return read_file(file, name)

    def read_split(
        self, file: BinaryIO, start: int, end: int, name: str
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that belong to the bytes ``[start, end)``, as Hadoop splits files.

        These are the records from the first sync marker in the range on, up to the first one
        at or after ``end``; the header's end counts as a marker.  ``file`` must be seekable.
        Splits that cover a file give each record exactly once.  Raises ``CorruptFile``.
        """
        return read_split(file, start, end, name)
