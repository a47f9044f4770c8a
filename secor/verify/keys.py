"""The comparison of a table that is changed by key with the last state of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secor.core.model import TopicPartition
from secor.core.text import how_many
from secor.verify.finding import LINES, Finding, FindingKind, first_lines

KINDS = (FindingKind.MISSING, FindingKind.TWICE, FindingKind.DIFFERENT, FindingKind.EXTRA)


def finding_of_key(
    table: str,
    kind: FindingKind,
    key: str,
    message: tuple[TopicPartition, int] | None = None,
    columns: Sequence[str] = (),
) -> Finding:
    """Return the finding that the row of a key, a JSON object, is not as it has to be.

    ``message`` is the last one of the key; no message of the log has a key that is ``extra``
    without one.  ``columns`` are those that differ.
    """
    changed = "in no message"
    if message is not None:
        changed = f"last changed by {message[0]}, offset {message[1]}"
    others = f", other values in {', '.join(columns)}" if columns else ""
    return Finding(kind, table, f"{kind}: {key}, {changed}{others}")


@dataclass(frozen=True, slots=True)
class TableState:
    """``messages`` of the log have changed ``keys`` different keys; the table has ``rows``.

    ``wrong`` counts keys by kind, and ``examples`` are the first ``LISTED`` of them.  ``unordered``
    keys are in several topic partitions: any of their last states there is right.  ``older`` rows
    have keys that the log does not show, and its beginning has been deleted.  ``unfit`` messages
    do not fit the table as it is now, and are not in quarantine.  ``erased`` keys have no row
    because ``secor tables erase`` has deleted it.
    """

    table: str
    messages: int
    keys: int
    rows: int
    wrong: Mapping[FindingKind, int] = field(default_factory=dict)
    unfit: int = 0
    examples: Sequence[Finding] = ()
    unordered: int = 0
    older: int = 0
    erased: int = 0

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
        if self.erased:
            line += f"; {how_many(self.erased, 'row')} erased"
        return line

    def lines(self, most: int = LINES) -> Iterator[str]:
        """Give at most ``most`` findings, and how many more there are."""
        if self.unfit:
            messages = how_many(self.unfit, "message")
            yield f"{self.table}: missing: {messages}, which cannot be its rows as it is now"
        yield from first_lines(self.table, self.examples, sum(self.wrong.values()), "key", most)

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
            "erased": self.erased,
            **{kind: self.wrong.get(kind, 0) for kind in KINDS},
            "examples": [finding.text for finding in self.examples],
        }
