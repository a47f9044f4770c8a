from __future__ import annotations

from secor.core.model import OffsetRange
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import StoredOffset
from secor.restore.preflight import Severity
from secor.restore.sources.coverage import since, vanished_findings

CLICKS = SourcePartition("archive", "clicks", 1)
EXTENT = SourceExtent(CLICKS, OffsetRange(600, 1800), holes=(OffsetRange(700, 800),))


def test_a_job_that_stopped_below_the_first_object_has_a_hole() -> None:
    holes = since(EXTENT, StoredOffset(400, "spec")).holes
    assert holes == (OffsetRange(400, 600), OffsetRange(700, 800))


def test_a_job_that_has_not_begun_or_is_behind_the_first_offset_has_none() -> None:
    for stored in (None, StoredOffset(0, "spec"), StoredOffset(600, "spec")):
        assert since(EXTENT, stored) is EXTENT


def test_source_partitions_without_objects_are_refused_unless_holes_are_accepted() -> None:
    (finding,) = vanished_findings({CLICKS: 6000}, holes=False)
    assert finding.severity is Severity.REFUSE
    assert finding.what.startswith("clicks/1: the job has written it up to offset 6000")
    assert "source.holes = true" in finding.what
    (accepted,) = vanished_findings({CLICKS: 6000}, holes=True)
    assert accepted.severity is Severity.WARN
