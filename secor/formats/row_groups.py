"""Row groups of an exact number of rows, whatever pieces the rows come in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

COLUMN = 1024
"""Bytes that a column of a piece costs in objects and rounding, without rows; measured."""

SCATTERED = 32 * 1024
"""Bytes that small pieces may cost, without rows, before they are put together."""

FEWEST = 4
"""Small pieces that are put together: fewer would cost more than they hold, in a wide schema."""


class Pieces:
    """Rows put aside, in order; all of one schema.

    A piece of few rows costs many times their bytes, so small ones are put together.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.buffered = 0
        """Bytes in memory, with the overhead of each piece."""
        self._large: list[pa.RecordBatch] = []
        self._small: list[pa.RecordBatch] = []
        self._small_bytes = 0
        self._overhead = 0

    def add(self, part: pa.RecordBatch) -> None:
        """Put rows aside."""
        size = part.get_total_buffer_size()
        if size > 2 * part.nbytes + 4096:
            # A few rows would keep a whole fetched batch in memory.
            part = part.take(pa.array(np.arange(part.num_rows)))
            size = part.get_total_buffer_size()
        self._overhead = self._overhead or COLUMN * sum(
            _columns(field.type) for field in part.schema
        )
        self.rows += part.num_rows
        self.buffered += size + self._overhead
        self._small.append(part)
        self._small_bytes += size
        overhead = len(self._small) * self._overhead
        if size >= self._overhead or (
            len(self._small) >= FEWEST and overhead > SCATTERED + self._small_bytes
        ):
            self._join()

    def take(self) -> pa.RecordBatch:
        """Return all rows, at least one, as one batch, and forget them.

        Pages are cut along the pieces of a column: in one they depend on the rows alone.
        """
        pieces = [*self._large, *self._small]
        self._large, self._small, self._small_bytes = [], [], 0
        self.rows, self.buffered = 0, 0
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    def _join(self) -> None:
        """Make one of the small pieces; it stays among them as long as it is small, too."""
        joined = self._small[0]
        if len(self._small) > 1:
            joined = pa.concat_batches(self._small)
            size = joined.get_total_buffer_size()
            self.buffered += size - self._small_bytes - (len(self._small) - 1) * self._overhead
            self._small, self._small_bytes = [joined], size
        if self._small_bytes >= self._overhead:
            self._large.append(joined)
            self._small, self._small_bytes = [], 0


class RowGroups:
    """Holds rows until there are ``rows`` of them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._held = Pieces()

    def add(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; give every group that is full."""
        start = 0
        while start < records.num_rows:
            # Exactly as many as are missing: where groups end depends on the rows alone, never on
            # how they came.
            part = records.slice(start, self._rows - len(self))
            start += part.num_rows
            self._held.add(part)
            if len(self) == self._rows:
                yield self.rest()

    def rest(self) -> pa.RecordBatch:
        """Return the remaining rows, at least one."""
        return self._held.take()

    @property
    def buffered(self) -> int:
        """Bytes in memory."""
        return self._held.buffered

    def __len__(self) -> int:
        return self._held.rows


def _columns(kind: pa.DataType) -> int:
    return 1 + sum(_columns(kind.field(index).type) for index in range(kind.num_fields))
