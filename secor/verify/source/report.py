"""The report of a comparison of a table with its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from secor.core.text import how_many
from secor.verify.finding import LISTED, Finding, FindingKind, first_lines

KINDS = (FindingKind.MISSING, FindingKind.SURPLUS, FindingKind.TWICE, FindingKind.DIFFERENT)

_TEXTS = {
    FindingKind.MISSING: "the source has this row, the table does not",
    FindingKind.SURPLUS: "the table has this row, the source does not",
    FindingKind.TWICE: "the table has several rows of this key",
}

Columns = Mapping[str, tuple[str, str]]
"""Columns that differ, each with the source's value and the table's."""


def finding_of_row(
    table: str, kind: FindingKind, key: str, columns: Columns = MappingProxyType({})
) -> Finding:
    """Return the finding that the row of a key is not that of the source."""
    values = (
        f"{name} is {source} in the source, {stored} in the table"
        for name, (source, stored) in columns.items()
    )
    details = {
        name: {"source": source, "table": stored} for name, (source, stored) in columns.items()
    }
    return Finding(
        kind,
        table,
        f"{kind}: {key}: {_TEXTS.get(kind) or '; '.join(values)}",
        {"kind": kind.value, "key": key, "columns": details},
    )


@dataclass
class SourceComparison:
    """The outcome for one table.

    ``unlike`` has columns that cannot be compared, and why; ``left_out`` those that nobody
    wanted.  ``unsettled`` rows differ, and messages change them that the table does not have yet.
    ``unread`` keys differ, too, and their values were not read.  ``position`` is the source's.
    """

    table: str
    source: str
    columns: int = 0
    source_rows: int = 0
    table_rows: int = 0
    unlike: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    only_in_table: list[str] = field(default_factory=list)
    wrong: Counter[FindingKind] = field(default_factory=Counter)
    differences: list[Finding] = field(default_factory=list)
    unsettled: int = 0
    unread: int = 0
    position: int = 0
    position_text: Callable[[int], str] = field(default_factory=lambda: lsn_text)
    undelivered: bool = False

    @property
    def findings(self) -> int:
        """How many things are wrong."""
        return sum(self.wrong.values()) + len(self.unlike) + self.unread

    @property
    def proves_nothing(self) -> bool:
        """No row could be compared, though there are some."""
        return self.unsettled > 0 and self.unsettled >= max(self.source_rows, self.table_rows)

    def add(self, difference: Finding) -> None:
        """Count a difference."""
        self.wrong[difference.kind] += 1
        if len(self.differences) < LISTED:
            self.differences.append(difference)

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        for name, why in self.unlike.items():
            yield f"{self.table}: column {name} is not compared: {why}"
        count = sum(self.wrong.values()) + self.unread
        yield from first_lines(self.table, self.differences, count, "row")
        for text, names in (
            ("left out by --ignore-column", self.left_out),
            ("only in the table, not compared", self.only_in_table),
        ):
            if names:
                yield f"{self.table}: {text}: {', '.join(names)}"
        if self.unsettled:
            yield (
                f"{self.table}: {how_many(self.unsettled, 'row')} not compared: messages that the"
                " table does not have yet change them; a longer --wait waits for their commit"
            )
        if self.undelivered:
            yield (
                f"{self.table}: neither the log nor a replication slot shows that the connector"
                f" has delivered everything up to {self.position_text(self.position)}: if it is"
                " behind, some of these differences are its"
            )
        yield (
            f"{self.table}: {how_many(self.table_rows, 'row')} compared with"
            f" {how_many(self.source_rows, 'row')} of {self.source} in"
            f" {how_many(self.columns, 'column')}, at {self.position_text(self.position)}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "table": self.table,
            "source": self.source,
            "position": self.position_text(self.position),
            "columns": self.columns,
            "source_rows": self.source_rows,
            "table_rows": self.table_rows,
            **{kind: self.wrong.get(kind, 0) for kind in KINDS},
            "unread": self.unread,
            "unsettled": self.unsettled,
            "undelivered": self.undelivered,
            "not_compared": self.unlike,
            "ignored": self.left_out,
            "only_in_table": self.only_in_table,
            "examples": [difference.as_json() for difference in self.differences],
        }


@dataclass
class SourceReport:
    """The result of comparing tables with a source; ``stopped`` says why some are not compared."""

    comparisons: list[SourceComparison] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    @property
    def findings(self) -> int:
        """The number of findings."""
        return len(self.stopped) + sum(comparison.findings for comparison in self.comparisons)

    @property
    def is_right(self) -> bool:
        """Return whether nothing is wrong, and something is proven of each table."""
        return not self.findings and not any(
            comparison.proves_nothing for comparison in self.comparisons
        )

    def lines(self) -> Iterator[str]:
        """Give what is printed."""
        yield from (f"not compared: {why}" for why in self.stopped)
        for comparison in self.comparisons:
            yield from comparison.lines()
        rows = sum(comparison.source_rows for comparison in self.comparisons)
        verdict = "the tables have them, and no others"
        if not self.is_right:
            verdict = how_many(self.findings, "finding") if self.findings else "nothing is proven"
        elif any(comparison.unsettled for comparison in self.comparisons):
            verdict += ", but for those that were not compared"
        yield f"{how_many(rows, 'row')} of the source compared: {verdict}"

    def as_json(self) -> Mapping[str, Any]:
        """Return all of it."""
        tables = [comparison.as_json() for comparison in self.comparisons]
        return {"tables": tables, "stopped": self.stopped}


def lsn_text(position: int) -> str:
    """Return a position of PostgreSQL's log as PostgreSQL writes it."""
    return f"LSN {position >> 32:X}/{position & 0xFFFFFFFF:X}"
