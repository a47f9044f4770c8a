"""The SequenceFile writer: gathers small appends and frames them as records or blocks.

Everything that decides where bytes go (sync markers, block ends) counts records' bytes, so
that the same records give the same file however they were handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from secor.formats.row_groups import Pieces
from secor.formats.sequencefile.output import Output

_PENDING = 512 * 1024  # small appends are gathered to this size: framing has a fixed price
_SLICE_BYTES = 4 << 20
_SLICE_ROWS = 32_768


class Body(Protocol):
    """What follows the header: records or blocks."""

    def frame(self, records: pa.RecordBatch) -> None:
        """Add rows, at least one."""

    def buffered(self) -> int:
        """Return the bytes held here."""

    def finish(self) -> None:
        """Put out what is left."""


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
