"""The report of a comparison of a table with its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from secor.core.text import how_many

Kind = Literal["missing", "surplus", "twice", "different"]
KINDS: tuple[Kind, ...] = ("missing", "surplus", "twice", "different")

EXAMPLES = 1000
"""Differences that are kept for the report; all are counted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose row is not the same; ``columns`` has the source's value and the table's."""

    kind: Kind
    key: str
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"missing: {self.key}: the source has this row, the table does not"
        if self.kind == "surplus":
            return f"surplus: {self.key}: the table has this row, the source does not"
        if self.kind == "twice":
            return f"twice: {self.key}: the table has several rows of this key"
        values = (
            f"{name} is {source} in the source, {table} in the table"
            for name, (source, table) in self.columns.items()
        )
        return f"different: {self.key}: {'; '.join(values)}"

    def as_json(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        columns = {
            name: {"source": source, "table": table}
            for name, (source, table) in self.columns.items()
        }
        return {"kind": self.kind, "key": self.key, "columns": columns}


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
    wrong: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
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

    def add(self, difference: Difference) -> None:
        """Count a difference."""
        self.wrong[difference.kind] += 1
        if len(self.differences) < EXAMPLES:
            self.differences.append(difference)

    def lines(self, most: int) -> Iterator[str]:
        """Give what is printed, with ``most`` differences."""
        for name, why in self.unlike.items():
            yield f"{self.table}: column {name} is not compared: {why}"
        for difference in self.differences[:most]:
            yield f"{self.table}: {difference}"
        more = sum(self.wrong.values()) + self.unread - min(most, len(self.differences))
        if more > 0:
            yield f"{self.table}: … and {how_many(more, 'more row')}"
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


def lsn_text(position: int) -> str:
    """Return a position of PostgreSQL's log as PostgreSQL writes it."""
    return f"LSN {position >> 32:X}/{position & 0xFFFFFFFF:X}"
