"""The SequenceFile writer: frames columns of messages as records or blocks.

Everything that decides where bytes go (sync markers, block ends) counts records' bytes, so
that the same records give the same file however they were handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.errors import RecordRefused
from secor.core.ports import Sink
from secor.formats.row_groups import Pieces
from secor.formats.sequencefile.codecs import Codec
from secor.formats.sequencefile.fields import (
    Longs,
    assemble,
    binaries,
    binary_sizes,
    content,
    fixed,
    join,
    vints,
)
from secor.formats.sequencefile.framing import Blocks, frame_blocks, frame_records
from secor.formats.sequencefile.header import ESCAPE, LARGEST, encode_vint
from secor.formats.sequencefile.layouts import Keys, Layout, join_keys

SYNC_INTERVAL = 100 * 1024
"""Bytes of records between sync markers in record mode."""

BLOCK_SIZE = 1_000_000
"""Bytes of keys and values that end a block: Hadoop's ``io.seqfile.compress.blocksize``."""

_PENDING = 512 * 1024  # small appends are gathered to this size: framing has a fixed price
_SLICE_BYTES = 4 << 20
_SLICE_ROWS = 32_768
_LEAST_WRITE = 256 * 1024
_MOST_WRITE = 1 << 20


class Body(Protocol):
    """What follows the header: records or blocks."""

    def frame(self, records: pa.RecordBatch) -> None:
        """Add rows, at least one."""

    def buffered(self) -> int:
        """Return the bytes held here."""

    def finish(self) -> None:
        """Put out what is left."""


class Output:
    """Gives the sink pieces of about 256 KiB to 1 MiB."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes | memoryview] = []
        self._size = 0

    def add(self, data: bytes | memoryview) -> None:
        """Take ``data``, which does not change any more."""
        if len(data) >= _LEAST_WRITE:
            self.flush()
            self._write(memoryview(data))
            return
        # A view of a larger buffer would hold all of that.
        self._parts.append(bytes(data))
        self._size += len(data)
        if self._size >= _LEAST_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if self._parts:
            self._write(memoryview(b"".join(self._parts)))
            self._parts.clear()
            self._size = 0

    def buffered(self) -> int:
        """Return the bytes held here."""
        return self._size

    def _write(self, view: memoryview) -> None:
        for at in range(0, len(view), _MOST_WRITE):
            self._sink.write(view[at : at + _MOST_WRITE])


class RecordBody:
    """Records one after the other, not compressed, a sync marker about every 100 KiB."""

    def __init__(self, output: Output, layout: Layout, sync: bytes) -> None:
        self._output = output
        self._layout = layout
        self._marker = ESCAPE + sync
        self._since_sync = 0

    def frame(self, records: pa.RecordBatch) -> None:
        """Add rows, at least one."""
        framed = frame_records(
            records,
            legacy=self._layout.name == "legacy",
            largest=LARGEST,
            interval=SYNC_INTERVAL,
            marker=self._marker,
            since=self._since_sync,
        )
        if framed is not None:
            data, self._since_sync = framed
            self._output.add(data)
            return
        self._frame_by_numpy(records)

    def _frame_by_numpy(self, records: pa.RecordBatch) -> None:
        values = records.column("value")
        keys = self._layout.keys(records)
        value_sizes = binary_sizes(values)
        sizes = keys.sizes + value_sizes + 4
        _refuse_large(records, sizes)
        before = [fixed(sizes, 4), fixed(keys.sizes, 4)]
        pieces = [*keys.pieces(before, [fixed(value_sizes, 4)]), values]
        synced = self._sync_before(sizes + 8)
        if len(synced):
            pieces.insert(0, self._markers(synced, keys.rows))
        offsets, data = content(join(pieces))
        self._output.add(data[: offsets[-1]])

    def buffered(self) -> int:
        """Return the bytes held here: none."""
        return 0

    def finish(self) -> None:
        """Nothing is left."""

    def _sync_before(self, sizes: Longs) -> Longs:
        """Return the rows that a sync marker precedes."""
        ends = np.cumsum(sizes)
        starts = ends - sizes
        origin = -self._since_sync
        rows = []
        while True:
            row = int(np.searchsorted(starts, origin + SYNC_INTERVAL, "left"))
            if row == len(starts):
                break
            rows.append(row)
            origin = int(starts[row])
        self._since_sync = int(ends[-1]) - origin
        return np.array(rows, np.int64)

    def _markers(self, synced: Longs, rows: int) -> pa.Array:
        sizes = np.zeros(rows, np.int32)
        sizes[synced] = len(self._marker)
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return binaries(offsets, self._marker * len(synced))


class BlockBody:
    """Blocks of records: a sync marker, the count, and four compressed buffers."""

    def __init__(self, output: Output, layout: Layout, sync: bytes, codec: Codec) -> None:
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
        _refuse_large(records, sizes)
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
        if sum(map(len, parts)) > _MOST_WRITE:
            for part in parts:
                self._output.add(part)
        else:
            self._output.add(b"".join(parts))
        self._rows = 0
        self._size = 0


class SequenceFileWriter:
    """One file in the making (see ``ports.FileWriter``)."""

    def __init__(self, output: Output, body: Body) -> None:
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


def _refuse_large(records: pa.RecordBatch, sizes: npt.NDArray[np.int64]) -> None:
    if sizes.max() > LARGEST:
        offset = records.column("offset")[int(sizes.argmax())]
        raise RecordRefused(
            f"the message at offset {offset} takes {sizes.max()} bytes; "
            f"a SequenceFile record holds at most {LARGEST}"
        )
