"""The page of differences between the Iceberg sink and Secor, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.conformance.message_cases import cases
from tests.conformance.message_reasons import reason_for
from tests.conformance.messages import Difference

PAGE = Path(__file__).parents[2] / "docs" / "conformance-messages.md"

_HEAD = """\
# The Iceberg sink and Secor, message by message
`scripts/conformance messages` sends {count} cases, of a few messages and one table each, to the
Apache Iceberg sink 1.12 on Kafka Connect 4.3 and to a table group whose settings
`secor config import` made of the sink's: tables are made and grow, numbers of times are
milliseconds. The Iceberg library for Python reads both. In {equal} cases columns, types and rows
are equal; this page has the others, as the script writes it. A difference without a reason, or
another one than here, ends the script with exit code 1.

A cell has the columns that differ, with type and values, one a message; `–` means a message
that is no row. Each table also has the columns `t`, its own name, and `n`.
"""

_TABLE = ("| case | messages | the sink | Secor | why |", "|---|---|---|---|---|")


def page(differences: Sequence[Difference]) -> str:
    """Return the page."""
    count = len(cases())
    lines = [_HEAD.format(count=count, equal=count - len(differences))]
    for with_schema, title in (
        (False, "JSON without a schema"),
        (True, 'JSON with Connect\'s schema, `{"schema": …, "payload": …}`'),
    ):
        lines += [
            f"## {title}",
            "| case | messages | the sink | Secor | why |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(it) for it in differences if it.case.with_schema is with_schema]
        lines.append("")
    return "\n".join(lines)


def without_reason(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that nothing explains."""
    return [it for it in differences if not reason_for(it.case)]


def _row(difference: Difference) -> str:
    case = difference.case
    bodies = ", ".join(f"`{_short(body)}`" if body else "nothing" for body in case.bodies)
    texts = [case.name, bodies, difference.sink, difference.ours, reason_for(case)]
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in texts)} |"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}…"
