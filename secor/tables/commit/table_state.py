"""The comparison of a table that is changed by key with the last state of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from secor.core.model import TopicPartition
from secor.core.text import how_many

Kind = Literal["missing", "twice", "different", "extra"]

KINDS: tuple[Kind, ...] = ("missing", "twice", "different", "extra")

EXAMPLES = 1000
"""Keys that are named of each table; all are counted."""


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """A difference in the row of one key.

    ``key`` is a JSON object.  The last message of the key is at ``offset`` of
    ``topic_partition``; no message of the log has a key that is ``extra`` without one.
    ``columns`` are those that differ.
    """

    kind: Kind
    key: str
    topic_partition: TopicPartition | None = None
    offset: int | None = None
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        message = "in no message"
        if self.topic_partition is not None:
            message = f"last changed by {self.topic_partition}, offset {self.offset}"
        columns = f", other values in {', '.join(self.columns)}" if self.columns else ""
        return f"{self.kind}: {self.key}, {message}{columns}"


@dataclass(frozen=True, slots=True)
class TableState:
    """``messages`` of the log have changed ``keys`` different keys; the table has ``rows``.

    ``wrong`` counts keys by kind, and ``examples`` shows some of them.  ``unordered`` keys are
    in several topic partitions: any of their last states there is right.  ``older`` rows have
    keys that the log does not show, and its beginning has been deleted.  ``unfit`` messages do
    not fit the table as it is now, and are not in quarantine.
    """

    table: str
    messages: int
    keys: int
    rows: int
    wrong: Mapping[Kind, int] = field(default_factory=dict)
    unfit: int = 0
    examples: Sequence[KeyFinding] = ()
    unordered: int = 0
    older: int = 0

    @property
    def remark(self) -> str:
        """One line of what was compared."""
        line = (
            f"{self.table}: {how_many(self.rows, 'row')} compared with the last state of each of"
            f" {how_many(self.keys, 'key')} in {how_many(self.messages, 'message')}"
        )
        if self.unordered:
            line += (
                f"; {how_many(self.unordered, 'key')} in several topic partitions, in unknown"
                " order: the last state in any of them counts as right"
            )
        if self.older:
            line += (
                f"; {how_many(self.older, 'row')} not compared: the log begins after their last"
                " message"
            )
        return line

    def lines(self, most: int) -> list[str]:
        """Return at most ``most`` findings, and how many more there are."""
        shown = [f"{self.table}: {finding}" for finding in self.examples[:most]]
        if self.unfit:
            messages = how_many(self.unfit, "message")
            shown.insert(
                0, f"{self.table}: missing: {messages}, which cannot be its rows as it is now"
            )
        more = sum(self.wrong.values()) - min(most, len(self.examples))
        if more > 0:
            shown.append(f"{self.table}: … and {how_many(more, 'more key')}")
        return shown

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "table": self.table,
            "messages": self.messages,
            "keys": self.keys,
            "rows": self.rows,
            "unordered": self.unordered,
            "older": self.older,
            "unfit": self.unfit,
            **{kind: self.wrong.get(kind, 0) for kind in KINDS},
            "examples": [str(finding) for finding in self.examples],
        }
