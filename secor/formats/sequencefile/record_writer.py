"""SequenceFile records, not compressed, with a sync marker about every 100 KiB."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from secor.core.errors import RecordRefused
from secor.core.ports import Sink
from secor.formats.sequencefile.fields import Longs, binaries, binary_sizes, content, fixed, join
from secor.formats.sequencefile.framing import frame_records
from secor.formats.sequencefile.header import ESCAPE, LARGEST
from secor.formats.sequencefile.layouts import SequenceFileLayout

LEAST_WRITE = 256 * 1024
MOST_WRITE = 1 << 20
"""Bytes of a call of the sink, but for the last one of a file."""


class BufferedOutput:
    """Gives the sink pieces of about 256 KiB to 1 MiB."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes | memoryview] = []
        self._size = 0

    def add(self, data: bytes | memoryview) -> None:
        """Take ``data``, which does not change any more."""
        if len(data) >= LEAST_WRITE:
            self.flush()
            self._write(memoryview(data))
            return
        # A view of a larger buffer would hold all of that.
        self._parts.append(bytes(data))
        self._size += len(data)
        if self._size >= LEAST_WRITE:
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
        for start in range(0, len(view), MOST_WRITE):
            self._sink.write(view[start : start + MOST_WRITE])


SYNC_INTERVAL = 100 * 1024
"""Bytes of records between sync markers in record mode."""


class RecordBody:
    """Records one after the other, not compressed, a sync marker about every 100 KiB."""

    def __init__(self, output: BufferedOutput, layout: SequenceFileLayout, sync: bytes) -> None:
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
        # A record's length counts the key, and the value with the four bytes of the value's own
        # length; the two lengths in front of them are not counted.
        sizes = keys.sizes + value_sizes + 4
        refuse_large(records, sizes)
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
            # As Hadoop's writer: before the first record that begins at least so many bytes after
            # the last marker.  Markers' own bytes do not count, so all of this is computed before
            # they are put in.
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


def refuse_large(records: pa.RecordBatch, sizes: Longs) -> None:
    """Raise ``RecordRefused`` where one of the ``sizes`` is above 1 GiB."""
    if sizes.max() > LARGEST:
        offset = records.column("offset")[int(sizes.argmax())]
        raise RecordRefused(
            f"the message at offset {offset} takes {sizes.max()} bytes; "
            f"a SequenceFile record holds at most {LARGEST}"
        )
