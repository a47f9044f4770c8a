"""SequenceFile blocks of records, each of four compressed buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from secor.formats.sequencefile.codecs import Codec
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
from secor.formats.sequencefile.header import ESCAPE, LARGEST, encode_vint
from secor.formats.sequencefile.layouts import Keys, SequenceFileLayout, join_keys
from secor.formats.sequencefile.record_writer import MOST_WRITE, BufferedOutput, refuse_large

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
