"""Checks, by the rows' ``_offset``, that each offset of a topic partition is once in its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.model import Offsets, TopicPartition, next_offset
from secor.core.text import how_many

COLUMNS = ("_topic", "_kafka_partition", "_offset")
"""Columns that rows need to be compared one by one."""

_NONE: Offsets = np.array([], np.int64)


@dataclass(frozen=True, slots=True)
class TableFinding:
    """``count`` offsets of ``[start, end)`` are ``missing``, ``twice`` or ``extra``.

    ``table`` is None for what no table has.
    """

    kind: str
    topic_partition: TopicPartition
    start: int
    end: int
    count: int
    table: str | None = None

    def __str__(self) -> str:
        where = f" in {self.table}" if self.table is not None else " in every table"
        messages = how_many(self.count, "message")
        return f"{self.topic_partition}: {self.kind}{where}: [{self.start}, {self.end}), {messages}"


REPAIR = "'secor tables repair' records what is there"


@dataclass(frozen=True, slots=True)
class WrongMetadata:
    """One promise of a table's metadata that its file does not keep.

    ``column`` is empty for what is recorded of the whole file; ``cure`` says what to do.
    """

    path: str
    column: str
    what: str
    recorded: str
    found: str
    cure: str = REPAIR

    def __str__(self) -> str:
        where = f"{self.path}: " + (f"column {self.column}: " if self.column else "")
        return (
            f"{where}the recorded {self.what} is {self.recorded}, the file has {self.found};"
            f" readers may pass over rows: {self.cure}"
        )


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """One file of a table, or a manifest, compared with its metadata.

    ``damage`` says why it cannot be read.  ``corrections`` are what is to be recorded instead, by
    the names of the library's data file; None where nothing can be corrected without new files.
    """

    path: str
    records: int = 0
    wrong: tuple[WrongMetadata, ...] = ()
    remarks: tuple[str, ...] = ()
    damage: str | None = None
    corrections: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NothingCompared:
    """The reason why no message was compared; ``is_right`` where there is none."""

    why: str
    is_right: bool


def offsets_of(batches: Iterable[pa.RecordBatch]) -> dict[TopicPartition, Offsets]:
    """Return the offsets of rows by where they came from, sorted; rows of others have none."""
    parts: dict[TopicPartition, list[Offsets]] = {}
    for batch in batches:
        rows = pa.table([batch.column(name) for name in COLUMNS], names=list(COLUMNS))
        rows = rows.filter(pc.is_valid(rows.column("_offset")))
        pairs = rows.group_by(["_topic", "_kafka_partition"]).aggregate([("_offset", "list")])
        for row in pairs.to_pylist():
            key = TopicPartition(row["_topic"], row["_kafka_partition"])
            parts.setdefault(key, []).append(np.array(row["_offset_list"], np.int64))
    return {key: np.sort(np.concatenate(parts_of_key)) for key, parts_of_key in parts.items()}


def repeated(table: str, offsets: Mapping[TopicPartition, Offsets]) -> Iterator[TableFinding]:
    """Give what a table has more than once."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        twice = np.unique(rows[1:][rows[1:] == rows[:-1]])
        if len(twice):
            yield _finding("twice", key, twice, table)


def beyond(
    table: str, offsets: Mapping[TopicPartition, Offsets], reached: Mapping[TopicPartition, int]
) -> Iterator[TableFinding]:
    """Give what a table has at or above what it has ``reached``: nobody committed that."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        if key in reached:
            extra = rows[rows >= reached[key]]
            if len(extra):
                yield _finding("extra", key, extra, table)


@dataclass(frozen=True, slots=True)
class RoutedMessages:
    """Messages of one topic partition by offset: all of the ``log`` (sorted), those that the
    routes send to ``tables``, and the ``bad`` ones that belong into quarantine.
    """

    log: Offsets
    tables: Mapping[str, Offsets]
    bad: Offsets


@dataclass(frozen=True, slots=True)
class TableComparison:
    """``left_out`` messages are filtered or not routed, as the configuration says now;
    ``unknown`` may be in tables that do not have the offsets of their rows.
    """

    findings: tuple[TableFinding, ...]
    left_out: int
    unknown: int


def compare(
    topic_partition: TopicPartition,
    routed: RoutedMessages,
    stored: Mapping[str, Offsets],
    quarantined: Offsets,
    silent: Collection[str] = (),
    by_key: Collection[str] = (),
    set_aside: Mapping[str, Offsets] = MappingProxyType({}),
) -> TableComparison:
    """Compare what is ``stored``, by table, and in quarantine with where messages belong.

    A message belongs into each table that a route sends it to, or into quarantine and no table.
    Those that were ``set_aside`` are in quarantine for one table each, and in the others.
    ``silent`` are tables that do not have the offsets of their rows, and the rows of those
    ``by_key`` are compared in another way.
    """
    findings = []
    in_tables = _union(stored.values())
    in_quarantine = _union([quarantined, *set_aside.values()])
    nowhere = np.setdiff1d(routed.log, np.union1d(in_tables, in_quarantine))
    expected = np.intersect1d(nowhere, _union([routed.bad, *routed.tables.values()]))
    unknown = _union(of_table for name, of_table in routed.tables.items() if name in silent)
    elsewhere = _union(of_table for name, of_table in routed.tables.items() if name in by_key)
    lost = np.setdiff1d(expected, np.union1d(unknown, elsewhere))
    if len(lost):
        findings.append(_finding("missing", topic_partition, lost, None))
    for name, offsets in sorted(routed.tables.items()):
        if name in silent or name in by_key:
            continue
        own = _union([quarantined, set_aside.get(name, _NONE)])
        accounted = np.union1d(own, np.setdiff1d(nowhere, elsewhere))
        absent = np.setdiff1d(np.setdiff1d(offsets, stored.get(name, _NONE)), accounted)
        if len(absent):
            findings.append(_finding("missing", topic_partition, absent, name))
    in_both = _union(
        [
            np.intersect1d(in_tables, quarantined),
            *(
                np.intersect1d(stored.get(name, _NONE), of_table)
                for name, of_table in set_aside.items()
            ),
        ]
    )
    if len(in_both):
        findings.append(_finding("in quarantine and", topic_partition, in_both, "a table"))
    left_out = len(nowhere) - len(expected)
    return TableComparison(tuple(findings), left_out, len(np.intersect1d(expected, unknown)))


def _union(parts: Iterable[Offsets]) -> Offsets:
    return np.unique(np.concatenate([_NONE, *parts]))


def _finding(kind: str, key: TopicPartition, offsets: Offsets, table: str | None) -> TableFinding:
    first, last = int(offsets.min()), int(offsets.max())
    return TableFinding(kind, key, first, next_offset(last), len(offsets), table)
