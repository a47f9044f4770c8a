"""Findings of each verification: the line for people and the JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from secor.core.model import TopicPartition
from secor.verify.archive.report import PartitionReport, finding_of
from secor.verify.finding import Finding, FindingKind, first_lines, report_text
from secor.verify.keys import finding_of_key
from secor.verify.source.report import finding_of_row

CLICKS = TopicPartition("clicks", 0)
OBJECT = "clicks/1_0_00000000000000000010.parquet"


@pytest.mark.parametrize(
    ("finding", "line", "details"),
    [
        (
            finding_of(CLICKS, FindingKind.MISSING, 4, 9, 5, None, ""),
            "clicks/0: missing offsets [4, 9) (5 messages)",
            {"kind": "missing", "start": 4, "end": 9, "count": 5, "key": None, "text": ""},
        ),
        (
            finding_of(CLICKS, FindingKind.CORRUPT, 10, 11, 1, OBJECT, "ends early"),
            f"clicks/0: corrupt offset 10 in {OBJECT}: ends early",
            {
                "kind": "corrupt",
                "start": 10,
                "end": 11,
                "count": 1,
                "key": OBJECT,
                "text": "ends early",
            },
        ),
        (
            finding_of(CLICKS, FindingKind.LEDGER, 0, 0, 1, None, "no JSON"),
            "clicks/0: unreadable entry: no JSON",
            {"kind": "ledger", "start": 0, "end": 0, "count": 1, "key": None, "text": "no JSON"},
        ),
        (
            finding_of_row("db.t", FindingKind.DIFFERENT, "id=1", {"note": ("a", "b")}),
            "db.t: different: id=1: note is a in the source, b in the table",
            {
                "kind": "different",
                "key": "id=1",
                "columns": {"note": {"source": "a", "table": "b"}},
            },
        ),
        (
            finding_of_key("db.t", FindingKind.TWICE, '{"id":1}', (CLICKS, 7), ["a", "b"]),
            'db.t: twice: {"id":1}, last changed by clicks/0, offset 7, other values in a, b',
            'db.t: twice: {"id":1}, last changed by clicks/0, offset 7, other values in a, b',
        ),
    ],
)
def test_people_read_a_line_and_scripts_get_json(
    finding: Finding, line: str, details: object
) -> None:
    assert str(finding) == line
    assert json.loads(json.dumps(finding.as_json())) == details


def test_ranges_with_the_same_trouble_are_one_finding() -> None:
    report = PartitionReport(CLICKS)
    report.found_range(FindingKind.MISSING, 0, 5, count=5)
    report.found_range(FindingKind.EXTRA, 5, 6)
    report.found_range(FindingKind.MISSING, 5, 8, count=3)
    report.found_range(FindingKind.MISSING, 8, 9, text="of another cause")
    assert [str(finding) for finding in report.findings] == [
        "clicks/0: missing offsets [0, 8) (8 messages)",
        "clicks/0: extra offset 5",
        "clicks/0: missing offset 8: of another cause",
    ]
    assert report.counts == {FindingKind.MISSING: 9, FindingKind.EXTRA: 1}


def test_findings_that_are_not_printed_are_counted() -> None:
    findings = [Finding(FindingKind.MISSING, "db.t", f"row {number}") for number in range(3)]
    assert list(first_lines("db.t", findings, 1_002, "row", most=2)) == [
        *("db.t: row 0", "db.t: row 1", "db.t: … and 1,000 more rows"),
    ]
    assert list(first_lines("db.t", findings[:1], 1, "row")) == ["db.t: row 0"]


class Right:
    """A report of one line."""

    is_right = True

    def lines(self) -> Iterator[str]:
        yield "nothing is wrong"

    def as_json(self) -> Mapping[str, Any]:
        return {"findings": []}


def test_a_report_is_printed_as_text_or_as_json() -> None:
    assert report_text(Right(), as_json=False) == "nothing is wrong"
    assert report_text(Right(), as_json=True) == '{\n  "findings": []\n}'
