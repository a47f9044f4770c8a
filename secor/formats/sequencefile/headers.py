"""Message headers inside MessagePack keys: where they are, then as a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.core.model import HEADERS_TYPE
from secor.formats.sequencefile.cursor import Bools, Cursor
from secor.formats.sequencefile.fields import Longs

_PAIR = 2


@dataclass(frozen=True, slots=True)
class HeaderPlaces:
    """Where headers are: ``counts`` of each row, and of each row's first, second, ... header
    the bounds of name and value, and whether the value is nil.
    """

    counts: Longs
    steps: list[tuple[Longs, Longs, Longs, Longs, Bools]]

    def sizes(self, rows: Bools) -> Longs:
        """Return how many headers each row has; none where ``rows`` is False."""
        return np.where(rows, self.counts, np.int64(0))

    def keys(self, rows: Bools) -> tuple[Longs, Longs]:
        """Return the bounds of the names of these rows' headers, row after row."""
        return self._flat(rows, 0), self._flat(rows, 1)

    def values(self, rows: Bools) -> tuple[Longs, Longs]:
        """Return the bounds of the values of these rows' headers, row after row."""
        return self._flat(rows, 2), self._flat(rows, 3)

    def nils(self, rows: Bools) -> Bools:
        """Tell which of these rows' headers have no value."""
        return self._flat(rows, 4) != 0

    def _flat(self, rows: Bools, which: int) -> Longs:
        if not self.steps:
            return np.empty(0, np.int64)
        table = np.stack([step[which] for step in self.steps], axis=1)
        return table[np.arange(len(self.steps)) < self.sizes(rows)[:, np.newaxis]].astype(np.int64)


def take_headers(cursor: Cursor, present: Bools) -> HeaderPlaces:
    """Take an array of pairs of a name and a value or nil, where present."""
    counts = cursor.array_head(present)
    steps = []
    for index in range(int(counts.max(initial=0))):
        here = counts > index
        pair = cursor.array_head(here) == _PAIR
        key_starts, key_ends = cursor.text(here)
        nil = cursor.nil(here)
        value_starts, value_ends = cursor.binary(here & ~nil)
        cursor.demand(pair | ~here)
        steps.append((key_starts, key_ends, value_starts, value_ends, nil))
    return HeaderPlaces(counts, steps)


def header_column(sizes: Longs, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Return the headers of all rows, of which each takes the next ``sizes`` ones."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    items = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=HEADERS_TYPE)
