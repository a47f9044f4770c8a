"""Findings and reports: the same for every verification, and written the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from secor.core.text import how_many

LISTED = 1000
"""Findings kept of each place, for ``--json``; the counts go on."""

LINES = 20
"""Findings printed of each place; ``--json`` has more."""


class FindingKind(StrEnum):
    """Kinds of findings, in the words of reports."""

    MISSING = "missing"
    """Should be there, and is not."""
    TWICE = "twice"
    DIFFERENT = "different"
    EXTRA = "extra"
    """Is there, and nothing says why."""
    SURPLUS = "surplus"
    """A row that the source database does not have."""
    CORRUPT = "corrupt"
    """Cannot be read: counted by objects."""
    LEDGER = "ledger"
    """An entry of the ledger that cannot be read: counted by entries."""
    SET_ASIDE = "in quarantine and"
    """In quarantine, and in a table nevertheless."""
    NOT_COMPARED = "not compared"
    HIDDEN = "hidden"
    """A row that is there, and that a reader with a filter does not get."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something at one place that is not as it has to be.

    ``place`` is where a person looks first: a topic partition, a table or a file, and ``text`` says
    what is wrong there; together they are the line that is printed.  ``details`` are what scripts
    get; without them they get the line.
    """

    kind: FindingKind
    place: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"

    def as_json(self) -> str | Mapping[str, Any]:
        """Return it as ``--json`` prints it."""
        return self.details or str(self)


class Report(Protocol):
    """The result of a verification, for people and for scripts."""

    @property
    def is_right(self) -> bool:
        """Return whether nothing was found, and something was compared if there is something."""

    def lines(self) -> Iterator[str]:
        """Give what is printed: findings, remarks, and last the summary."""

    def as_json(self) -> Mapping[str, Any]:
        """Return all of it."""


def report_text(report: Report, *, as_json: bool) -> str:
    """Return a report as a command prints it."""
    return json.dumps(report.as_json(), indent=2) if as_json else "\n".join(report.lines())


def first_lines(
    place: str, findings: Sequence[Finding], count: int, what: str, most: int = LINES
) -> Iterator[str]:
    """Give the first ``most`` of ``count`` findings, and how many more ``what`` there are.

    ``findings`` are those that were kept.
    """
    yield from map(str, findings[:most])
    more = count - min(most, len(findings))
    if more > 0:
        yield f"{place}: … and {how_many(more, f'more {what}')}"
