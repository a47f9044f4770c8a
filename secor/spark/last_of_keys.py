"""Finds, in the driver, the last change of each key.

Spark would shuffle and sort whole rows for that.  This module holds only keys and positions in
Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import Unavailable
from secor.tables.staged_rows import ROW

Numbers = npt.NDArray[np.int64]

PARTITION_BITS = 32


@dataclass(frozen=True, slots=True)
class LastOfKeys:
    """``rows`` are the numbers of the changes to keep, in ascending order.

    ``unordered`` keys were changed in several topic partitions.
    """

    rows: Numbers
    unordered: int


class ChangeOrder:
    """Keys of changes, and what orders them; changes are numbered as they are added."""

    def __init__(self, key: Sequence[str], order: str | None = None) -> None:
        """``key`` and ``order`` are as in ``last_changes``."""
        self._key = tuple(key)
        self._order = order
        self._columns: dict[str, list[pa.Array]] = {name: [] for name in (*key, order) if name}
        self._topics: dict[str, int] = {}
        self._sources: list[Numbers] = []
        self._offsets: list[pa.Array] = []
        self._times: list[pa.Array] = []
        self.nbytes = 0

    def add(self, changes: pa.RecordBatch) -> None:
        """Add changes.  Raises ``Unavailable`` where the column ``order`` orders nothing."""
        if not changes.num_rows:
            return
        rows = changes.column(ROW)
        for name, arrays in self._columns.items():
            at = rows.type.get_field_index(name)
            if at < 0 or pa.types.is_nested(rows.type.field(at).type):
                raise Unavailable(f"the table has no column {name} whose values can be compared")
            arrays.append(pc.struct_field(rows, [at]))
            self.nbytes += arrays[-1].nbytes
        self._sources.append(self._source_numbers(changes))
        self._offsets.append(changes.column("offset"))
        self._times.append(pc.fill_null(changes.column("timestamp"), -1))
        self.nbytes += 3 * self._sources[-1].nbytes

    def _source_numbers(self, changes: pa.RecordBatch) -> Numbers:
        """Return a number of each change's topic partition."""
        topics = changes.column("topic").dictionary_encode()
        names = topics.dictionary.to_pylist()
        numbers = [self._topics.setdefault(name, len(self._topics)) for name in names]
        of_rows = np.array(numbers, np.int64)[topics.indices.to_numpy()]
        return (of_rows << PARTITION_BITS) + changes.column("partition").to_numpy()

    def last(self) -> LastOfKeys:
        """Return the last change of each key: see ``last_changes``, with which a test compares."""
        if not self._sources:
            return LastOfKeys(np.array([], np.int64), 0)
        keys = _codes([self._columns[name] for name in self._key])
        if int(keys.max()) + 1 == len(keys):  # each key is there once
            return LastOfKeys(np.arange(len(keys)), 0)
        sources = self._ordered_sources()
        offsets = pa.chunked_array(self._offsets).to_numpy()
        times = pa.chunked_array(self._times).to_numpy()
        if self._order is None:
            values = np.zeros(len(keys), np.int64)
        else:
            ranks = _ranks(self._columns[self._order])
            values = _values(ranks, keys, sources, offsets)
        in_order = np.lexsort((offsets, values, sources, keys))
        of_partitions = in_order[_ends(keys[in_order], sources[in_order])]
        ends = _ends(keys[of_partitions])
        if ends.all():
            return LastOfKeys(np.sort(of_partitions), 0)
        by = [column[of_partitions] for column in (offsets, sources, times, values, keys)]
        of_keys = np.flatnonzero(ends)
        unordered = int((np.diff(of_keys, prepend=-1) > 1).sum())
        return LastOfKeys(np.sort(of_partitions[np.lexsort(by)][of_keys]), unordered)

    def _ordered_sources(self) -> Numbers:
        """Return the numbers of topic partitions, ordered as topics and partitions are."""
        names = sorted(self._topics)
        ranks = np.array([names.index(name) for name in self._topics], np.int64)
        sources = np.concatenate(self._sources)
        partitions = sources & ((1 << PARTITION_BITS) - 1)
        return (ranks[sources >> PARTITION_BITS] << PARTITION_BITS) + partitions


def _ends(*columns: Numbers) -> npt.NDArray[np.bool_]:
    """Return a mask of sorted rows: the last row of each run of equal values in ``columns``."""
    ends = np.zeros(len(columns[0]), bool)
    ends[-1] = True
    for column in columns:
        ends[:-1] |= column[1:] != column[:-1]
    return ends


def _codes(columns: Sequence[Sequence[pa.Array]]) -> Numbers:
    """Return numbers from 0 on, without gaps, that are equal where all values are, or null."""
    codes = np.zeros(sum(map(len, columns[0])), np.int64)
    for number, column in enumerate(columns):
        encoded = pa.concat_arrays(column).dictionary_encode("encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        if number:  # else the next column could lead beyond 64 bits
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


def _ranks(column: Sequence[pa.Array]) -> Numbers:
    """Return numbers that are ordered as the values are; 0 for null."""
    encoded = pa.concat_arrays(column).dictionary_encode()
    ranks = np.zeros(len(encoded.dictionary) + 1, np.int64)
    ranks[pc.array_sort_indices(encoded.dictionary).to_numpy() + 1] = np.arange(1, len(ranks))
    return ranks[pc.fill_null(encoded.indices, -1).to_numpy() + 1]


def _values(ranks: Numbers, keys: Numbers, sources: Numbers, offsets: Numbers) -> Numbers:
    """Return ``ranks``; a 0 becomes the greatest rank before it in its topic partition."""
    in_order = np.lexsort((offsets, sources, keys))
    groups = np.concatenate([[0], np.cumsum(_ends(keys[in_order], sources[in_order]))[:-1]])
    base = groups * (int(ranks.max()) + 1)
    values = np.empty_like(ranks)
    values[in_order] = np.maximum.accumulate(base + ranks[in_order]) - base
    return np.where(ranks > 0, ranks, values)
