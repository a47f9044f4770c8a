"""A selection that names nothing, and what ranges select."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from secor.config.restore import Target
from secor.core.model import OffsetRange
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.preflight import Severity
from secor.restore.selection import selected_offsets, selection_findings

FIRST, SECOND = (SourcePartition("archive", "seg", number) for number in range(2))
EXTENT = SourceExtent(FIRST, OffsetRange(0, 1800))


def found(**selection: object) -> list[tuple[Severity, str, str]]:
    known = {"topics": (), "partitions": (), "ranges": {}, **selection}
    findings = selection_findings([FIRST, SECOND], **known)  # type: ignore[arg-type]
    return [(it.severity, it.topic, it.what.split(",")[0]) for it in findings]


def test_a_range_that_names_nothing_is_refused() -> None:
    part = [OffsetRange(0, 10)]
    assert found(ranges={("seg", 1): part}) == []
    refused = found(ranges={("segg", 0): part, ("seg", 7): part})
    assert refused == [
        (Severity.REFUSE, "source.ranges", "names segg/0"),
        (Severity.REFUSE, "source.ranges", "names seg/7"),
    ]


def test_topics_and_partitions_that_name_nothing_are_a_warning() -> None:
    assert found(topics=["seg"], partitions=[0, 1]) == []
    assert found(topics=["seg", "nosuch"], partitions=[0, 9]) == [
        (Severity.WARN, "source.topics", "names nosuch"),
        (Severity.WARN, "source.partitions", "names 9"),
    ]


@pytest.mark.parametrize(
    ("ranges", "selected"),
    [
        ([], [(0, 1800)]),
        ([(100, 200)], [(100, 200)]),
        ([(1700, 2**62), (100, 200), (150, 300)], [(100, 200), (200, 300), (1700, 1800)]),
        ([(5000, 6000)], []),
        ([(10, 10)], []),
    ],
)
def test_what_ranges_select(ranges: list[tuple[int, int]], selected: list[tuple[int, int]]) -> None:
    wanted = {("seg", 0): [OffsetRange(*it) for it in ranges]} if ranges else {}
    assert [(it.start, it.end) for it in selected_offsets(EXTENT, wanted)] == selected


@pytest.mark.parametrize("mapping", [{-1: 3}, {1: -3}, {"-1": 3}])
def test_a_mapping_has_no_negative_partition(mapping: object) -> None:
    with pytest.raises(ValidationError):
        Target.model_validate({"partitioning": "mapping", "mapping": mapping})
