"""Finds, in the driver, the last change of each key.

Spark would shuffle and sort whole rows for that.  This module holds only keys and positions in
Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import Unavailable
from secor.tables.rows.row_changes import DELETE
from secor.tables.rows.staged_rows import KEPT, ROW

Numbers = npt.NDArray[np.int64]

PARTITION_BITS = 32


@dataclass(frozen=True, slots=True)
class KnownValues:
    """The places of the values that the last changes of keys leave out, by column.

    By the column's number: ``fills`` has the numbers of changes and of those whose value each one
    takes, ``kept`` the numbers of changes for which the table's row has it.  ``unknown`` values
    came after a deletion: nobody knows them.
    """

    fills: Mapping[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    kept: Mapping[int, Numbers] = field(default_factory=dict)
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class LastOfKeys:
    """``rows`` are the numbers of the changes to keep, in ascending order.

    ``unordered`` keys were changed in several topic partitions.
    """

    rows: Numbers
    unordered: int
    known: KnownValues = field(default_factory=KnownValues)


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
        self._left_out = _LeftOut()
        self.nbytes = 0

    def add(self, changes: pa.RecordBatch) -> None:
        """Add changes.  Raises ``Unavailable`` where the column ``order`` orders nothing."""
        if not changes.num_rows:
            return
        rows = changes.column(ROW)
        for name, arrays in self._columns.items():
            index = rows.type.get_field_index(name)
            if index < 0 or pa.types.is_nested(rows.type.field(index).type):
                raise Unavailable(
                    f"the table has no column {name} with values that can be compared"
                )
            arrays.append(pc.struct_field(rows, [index]))
            self.nbytes += arrays[-1].nbytes
        self._sources.append(self._source_numbers(changes))
        self._offsets.append(changes.column("offset"))
        self._times.append(pc.fill_null(changes.column("timestamp"), -1))
        self.nbytes += 3 * self._sources[-1].nbytes + self._left_out.add(changes)

    @property
    def kept_columns(self) -> Sequence[int]:
        """The numbers of the columns that some change leaves out."""
        return self._left_out.columns

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
            rows = np.arange(len(keys))
            return LastOfKeys(rows, 0, self._left_out.known(rows, keys))
        sources = self._ordered_sources()
        offsets = pa.chunked_array(self._offsets).to_numpy()
        times = pa.chunked_array(self._times).to_numpy()
        if self._order is None:
            values = np.zeros(len(keys), np.int64)
        else:
            ranks = _ranks(self._columns[self._order])
            values = _values(ranks, keys, sources, offsets)
        # The last of the arrays sorts first: by key, then topic partition, then value, then offset.
        in_order = np.lexsort((offsets, values, sources, keys))
        ends_of_partitions = _ends(keys[in_order], sources[in_order])
        of_partitions = in_order[ends_of_partitions]
        ends = _ends(keys[of_partitions])
        if ends.all():
            known = self._left_out.known(in_order, keys)
            return LastOfKeys(np.sort(of_partitions), 0, known)
        by = [column[of_partitions] for column in (offsets, sources, times, values, keys)]
        by_time = np.lexsort(by)
        of_keys = np.flatnonzero(ends)
        unordered = int((np.diff(of_keys, prepend=-1) > 1).sum())
        # Each topic partition's changes of a key follow those of the ones that come before it.
        ranks = np.empty(len(by_time), np.int64)
        ranks[by_time] = np.arange(len(by_time))
        partition_numbers: Numbers = np.cumsum(ends_of_partitions) - ends_of_partitions
        in_order = in_order[np.argsort(ranks[partition_numbers], kind="stable")]
        known = self._left_out.known(in_order, keys)
        return LastOfKeys(np.sort(of_partitions[by_time][of_keys]), unordered, known)

    def _ordered_sources(self) -> Numbers:
        """Return the numbers of topic partitions, ordered as topics and partitions are."""
        names = sorted(self._topics)
        ranks = np.array([names.index(name) for name in self._topics], np.int64)
        sources = np.concatenate(self._sources)
        partitions = sources & ((1 << PARTITION_BITS) - 1)
        return (ranks[sources >> PARTITION_BITS] << PARTITION_BITS) + partitions


class _LeftOut:
    """The columns that changes leave out."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Numbers]] = {}
        self._deleted: list[npt.NDArray[np.bool_]] = []
        self._count = 0

    @property
    def columns(self) -> Sequence[int]:
        """The numbers of the columns that some change leaves out."""
        return sorted(self._rows)

    def add(self, changes: pa.RecordBatch) -> int:
        """Add changes; return how many bytes are held for them."""
        self._deleted.append(changes.column("operation").to_numpy() == DELETE)
        nbytes = self._deleted[-1].nbytes
        lists = changes.column(KEPT.name)
        if lists.null_count < len(lists):
            parents = pc.list_parent_indices(lists).to_numpy()
            numbers = pc.list_flatten(lists).to_numpy()
            for number in np.unique(numbers).tolist():
                rows = parents[numbers == number] + self._count
                self._rows.setdefault(number, []).append(rows)
                nbytes += rows.nbytes
        self._count += changes.num_rows
        return nbytes

    def known(self, in_order: Numbers, keys: Numbers) -> KnownValues:
        """Return where the last changes of keys have what they leave out.

        ``in_order`` are the numbers of all changes, key by key, each key's last one at its end.
        """
        if not self._rows:
            return KnownValues()
        places = np.arange(len(in_order))
        ends = _ends(keys[in_order])
        begins = np.concatenate([[True], ends[:-1]])
        starts = np.maximum.accumulate(np.where(begins, places, 0))
        deleted = np.concatenate(self._deleted)
        fills, kept, unknown = {}, {}, 0
        for number, pieces in self._rows.items():
            left_out = np.zeros(len(in_order), bool)
            left_out[np.concatenate(pieces)] = True
            left_out = left_out[in_order]
            targets = np.flatnonzero(ends & left_out)
            # The place of the last change before each one that brings a value; compared with where
            # its key begins, as it may be of the key before.
            last_known = np.maximum.accumulate(np.where(left_out, -1, places))[targets]
            known_here = last_known >= starts[targets]
            if not known_here.all():
                kept[number] = np.sort(in_order[targets[~known_here]])
            targets, sources = in_order[targets[known_here]], in_order[last_known[known_here]]
            unknown += int(deleted[sources].sum())
            targets, sources = targets[~deleted[sources]], sources[~deleted[sources]]
            if len(targets):
                fills[number] = targets, sources
        return KnownValues(fills, kept, unknown)


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
