"""The comparison of tables with the log: each message once, by its ``_offset``; the report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.model import Offsets, Part, TopicPartition, next_offset
from secor.core.text import how_many, withheld_text
from secor.parsing.placement import Work
from secor.tables.rows.routing import Route, route_rows
from secor.tables.rows.table_rows import ORIGIN
from secor.verify.engine_filters import FilterCheck
from secor.verify.finding import Finding, FindingKind
from secor.verify.keys import TableState
from secor.verify.metadata import ComparedMetadata

COLUMNS = ORIGIN
"""Columns that rows need to be compared one by one."""

AGAIN = ", erased and there again: run 'secor tables erase' again"

_NONE: Offsets = np.array([], np.int64)


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


def repeated(table: str, offsets: Mapping[TopicPartition, Offsets]) -> Iterator[Finding]:
    """Give what a table has more than once."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        # They are sorted, so what is there again is next to its like.
        twice = np.unique(rows[1:][rows[1:] == rows[:-1]])
        if len(twice):
            yield _finding(FindingKind.TWICE, key, twice, table)


def beyond(
    table: str, offsets: Mapping[TopicPartition, Offsets], reached: Mapping[TopicPartition, int]
) -> Iterator[Finding]:
    """Give what a table has at or above what it has ``reached``: nobody committed that."""
    for key, rows in sorted(offsets.items(), key=lambda item: item[0]):
        if key in reached:
            extra = rows[rows >= reached[key]]
            if len(extra):
                yield _finding(FindingKind.EXTRA, key, extra, table)


@dataclass(frozen=True, slots=True)
class RoutedMessages:
    """Messages of one topic partition by offset: all of the ``log`` (sorted), those that the
    routes send to ``tables``, and the ``bad`` ones that belong into quarantine.
    """

    log: Offsets
    tables: Mapping[str, Offsets]
    bad: Offsets


class RoutedOffsets:
    """The last stage of a parser that makes no rows: it notes which table each message is for."""

    def __init__(self, routes: Sequence[Route], *, skip_unrouted: bool) -> None:
        self._routes = tuple(routes)
        self._skip_unrouted = skip_unrouted
        self._tables: dict[str, list[Offsets]] = {}

    @property
    def identity(self) -> str:
        """Nothing that is stored depends on it."""
        return "routed-offsets"

    @property
    def takes_tombstones(self) -> bool:
        """Messages without a value come to it where some route deletes rows by them."""
        return any(route.deletes_rows for route in self._routes)

    def parts(self, works: Sequence[Work]) -> list[Part]:
        """Note the offsets of live rows; there are no parts."""
        for work in works:
            offsets = work.chunk.records.column("offset").to_numpy()
            routed = route_rows(self._routes, work, skip_unrouted=self._skip_unrouted)
            for name, (_, rows) in routed.items():
                self._tables.setdefault(name, []).append(offsets[rows[work.live[rows]]])
        return []

    def take(self) -> dict[str, Offsets]:
        """Return the offsets for each table since the last call, sorted."""
        tables, self._tables = self._tables, {}
        return {name: np.unique(np.concatenate(parts)) for name, parts in tables.items()}


@dataclass(frozen=True, slots=True)
class TableComparison:
    """``left_out`` messages are filtered or not routed, as the configuration says now;
    ``unknown`` may be in tables that do not have the offsets of their rows.  ``erased`` counts by
    table those whose rows were deleted.
    """

    findings: tuple[Finding, ...]
    left_out: int
    unknown: int
    erased: Mapping[str, int]


def compare(
    topic_partition: TopicPartition,
    routed: RoutedMessages,
    stored: Mapping[str, Offsets],
    quarantined: Offsets,
    silent: Collection[str] = (),
    by_key: Collection[str] = (),
    set_aside: Mapping[str, Offsets] = MappingProxyType({}),
    erased: Mapping[str, Offsets] = MappingProxyType({}),
) -> TableComparison:
    """Compare what is ``stored``, by table, and in quarantine with where messages belong.

    A message belongs into each table that a route sends it to, or into quarantine and no table.
    Those that were ``set_aside`` are in quarantine for one table each, and in the others.
    ``silent`` are tables that do not have the offsets of their rows, and the rows of those
    ``by_key`` are compared in another way.  The rows of messages that were ``erased`` are absent
    from that table, and from no other.
    """
    findings = []
    in_tables = _union(stored.values())
    in_quarantine = _union([quarantined, *set_aside.values()])
    gone = {}
    for name, offsets in sorted(erased.items()):
        own = stored.get(name, _NONE)
        again = np.intersect1d(offsets, own)
        if len(again):
            findings.append(_finding(FindingKind.EXTRA, topic_partition, again, name, AGAIN))
        # Only what would be in the table, and is not: an erasure's range has many messages of other
        # keys.
        gone[name] = np.setdiff1d(np.intersect1d(offsets, routed.tables.get(name, _NONE)), own)
    nowhere = np.setdiff1d(routed.log, _union([in_tables, in_quarantine, *gone.values()]))
    expected = np.intersect1d(nowhere, _union([routed.bad, *routed.tables.values()]))
    unknown = _union(of_table for name, of_table in routed.tables.items() if name in silent)
    # Their rows are compared key by key: a message that was overwritten since is rightly in none.
    elsewhere = _union(of_table for name, of_table in routed.tables.items() if name in by_key)
    lost = np.setdiff1d(expected, np.union1d(unknown, elsewhere))
    if len(lost):
        findings.append(_finding(FindingKind.MISSING, topic_partition, lost, None))
    for name, offsets in sorted(routed.tables.items()):
        if name in silent or name in by_key:
            continue
        own = _union([quarantined, set_aside.get(name, _NONE), gone.get(name, _NONE)])
        accounted = np.union1d(own, np.setdiff1d(nowhere, elsewhere))
        absent = np.setdiff1d(np.setdiff1d(offsets, stored.get(name, _NONE)), accounted)
        if len(absent):
            findings.append(_finding(FindingKind.MISSING, topic_partition, absent, name))
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
        findings.append(_finding(FindingKind.SET_ASIDE, topic_partition, in_both, "a table"))
    left_out = len(nowhere) - len(expected)
    counts = {name: len(offsets) for name, offsets in gone.items() if len(offsets)}
    return TableComparison(
        tuple(findings), left_out, len(np.intersect1d(expected, unknown)), counts
    )


def _union(parts: Iterable[Offsets]) -> Offsets:
    return np.unique(np.concatenate([_NONE, *parts]))


def _finding(
    kind: FindingKind, key: TopicPartition, offsets: Offsets, table: str | None, why: str = ""
) -> Finding:
    """Return the finding for sorted offsets; ``table`` is None for what no table has."""
    first, last = int(offsets.min()), int(offsets.max())
    where = f" in {table}" if table is not None else " in every table"
    messages = how_many(len(offsets), "message")
    text = f"{kind}{where}: [{first}, {next_offset(last)}), {messages}{why}"
    return Finding(kind, str(key), text)


@dataclass(frozen=True, slots=True)
class NothingCompared:
    """The reason why no message was compared; ``is_right`` where there is none."""

    why: str
    is_right: bool


@dataclass
class TableReport:
    """The result of comparing the tables of a group with their topics.

    ``stopped`` says of tables why they are not compared; ``quarantined`` counts messages;
    ``unknown`` ones may be in tables without offsets; ``withheld`` counts offsets behind open
    transactions; ``erased`` counts rows by table; ``metadata`` is that of files.
    """

    partitions: int
    stopped: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    states: list[TableState] = field(default_factory=list)
    metadata: list[ComparedMetadata] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    quarantined: dict[TopicPartition, int] = field(default_factory=dict)
    withheld: dict[TopicPartition, int] = field(default_factory=dict)
    compared: int = 0
    unknown: int = 0
    erased: dict[str, int] = field(default_factory=dict)
    nothing: NothingCompared | None = None
    filters: FilterCheck | None = None

    @property
    def wrong(self) -> int:
        """The number of findings."""
        of_tables = sum(sum(state.wrong.values()) + state.unfit for state in self.states)
        of_files = sum(compared.findings for compared in self.metadata)
        unfound = 0 if self.filters is None else len(self.filters.unfound)
        return len(self.stopped) + len(self.findings) + of_tables + of_files + unfound

    @property
    def is_right(self) -> bool:
        """Return whether nothing is wrong: a comparison of nothing is right only of empty logs."""
        return not self.wrong and (self.nothing is None or self.nothing.is_right)

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        yield from (f"not compared: {why}" for why in self.stopped.values())
        yield from map(str, self.findings)
        for state in self.states:
            yield from state.lines()
        for compared in self.metadata:
            yield from compared.lines()
        yield from () if self.filters is None else self.filters.lines()
        yield from self.remarks
        yield from (f"{key}: {count:,} in quarantine" for key, count in self.quarantined.items())
        for table, rows in sorted(self.erased.items()):
            yield f"{table}: {how_many(rows, 'row')} erased"
        yield from (state.remark for state in self.states)
        verdict = "each is there once"
        if self.states:
            verdict += ", and each key in its last state"
        if self.unknown:
            verdict = f"nothing is wrong but, perhaps, of the {self.unknown} above"
        if self.nothing is not None:
            verdict = f"nothing was compared: {self.nothing.why}"
        if self.wrong:
            verdict = how_many(self.wrong, "finding")
        where = how_many(self.partitions, "topic partition")
        verdict += withheld_text(sum(self.withheld.values()))
        yield f"{how_many(self.compared, 'message')} of {where} compared: {verdict}"

    def as_json(self) -> Mapping[str, Any]:
        """Return all of it."""
        return {
            "compared": self.compared,
            "findings": [*self.stopped.values(), *map(str, self.findings)],
            "remarks": self.remarks,
            "quarantined": {str(key): count for key, count in self.quarantined.items()},
            "erased": dict(sorted(self.erased.items())),
            "withheld": {str(key): count for key, count in self.withheld.items()},
            "states": [state.as_json() for state in self.states],
            "metadata": [compared.as_json() for compared in self.metadata],
            "filters": None if self.filters is None else self.filters.as_json(),
        }
