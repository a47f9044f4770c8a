"""Rows in groups of one exact size, however they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

SMALL = 1024
"""Rows; smaller pieces are put together when there are ``MANY``."""

MANY = 64


class RowGroups:
    """Holds rows until there are ``rows`` of them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._held: list[pa.RecordBatch] = []
        self._small: list[pa.RecordBatch] = []
        self._count = 0
        self.buffered = 0

    def add(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; give every group that is full."""
        at = 0
        while at < records.num_rows:
            part = records.slice(at, self._rows - self._count)
            at += part.num_rows
            self._hold(part)
            if self._count == self._rows:
                yield self.rest()

    def rest(self) -> pa.RecordBatch:
        """Give what is held, at least one row."""
        pieces = [*self._held, *self._small]
        self._held, self._small, self._count, self.buffered = [], [], 0, 0
        return concatenated(pieces)

    def __len__(self) -> int:
        return self._count

    def _hold(self, part: pa.RecordBatch) -> None:
        size = part.get_total_buffer_size()
        if size > 2 * part.nbytes + 4096:
            # A few rows would keep a whole fetched batch in memory.
            part = part.take(pa.array(np.arange(part.num_rows)))
            size = part.get_total_buffer_size()
        self._count += part.num_rows
        self.buffered += size
        if part.num_rows >= SMALL:
            self._flush_small()
            self._held.append(part)
            return
        self._small.append(part)
        if len(self._small) == MANY:
            self._flush_small()

    def _flush_small(self) -> None:
        """Put small pieces together: each costs some kilobytes beside its rows."""
        if len(self._small) > 1:
            before = sum(piece.get_total_buffer_size() for piece in self._small)
            one = concatenated(self._small)
            self.buffered += one.get_total_buffer_size() - before
            self._held.append(one)
        else:
            self._held += self._small
        self._small = []


def concatenated(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of pieces of one schema.

    Pages are cut along the pieces of a column: in one they depend on the rows alone.
    """
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(list(pieces))
