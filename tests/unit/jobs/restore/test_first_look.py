"""What the plan reads of an archive."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from secor.archive.objects import Archive
from secor.core.model import OffsetRange
from secor.formats import make_format
from secor.jobs.restore.job_findings import first_look
from secor.restore.model import SourcePartition
from secor.restore.preflight import Severity
from secor.restore.sources.archive import ArchiveSource
from tests.fakes.archive import Shelf, messages


@pytest.mark.parametrize(
    ("name", "lossy", "refused"),
    [("text", False, True), ("text", True, False), ("sequencefile", False, False)],
)
def test_an_archive_that_kept_a_part_of_each_message_is_refused_before_anything_is_made(
    tmp_path: Path, name: str, *, lossy: bool, refused: bool
) -> None:
    shelf = Shelf(tmp_path / "bucket", make_format(name))
    shelf.put(messages(range(5)), OffsetRange(0, 5))
    archive = Archive(shelf.store, shelf.prefix)
    source = ArchiveSource("archive", lambda _topic: archive, lambda: ["clicks"], lossy=lossy)
    job: Any = SimpleNamespace(
        source=source, config=SimpleNamespace(source=SimpleNamespace(lossy=lossy))
    )
    extent = source.extent(SourcePartition("archive", "clicks", 0))
    found = list(first_look(job, "clicks", [extent]))
    assert [finding.severity for finding in found] == [Severity.REFUSE] * refused
    assert all("set source.lossy = true" in finding.what for finding in found)
    assert list(first_look(job, "clicks", [])) == []
