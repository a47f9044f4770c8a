"""Which offsets ``secor restore offsets set`` takes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from secor.cli.restore.commands import offsets
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange
from secor.jobs.restore.control import check_offset, not_started
from secor.restore.model import SourceExtent, SourcePartition

EXTENT = SourceExtent(SourcePartition("archive", "seg", 0), OffsetRange(0, 1800))


@pytest.mark.parametrize("offset", ["99999999999999999999", str(2**63), "-1"])
def test_an_offset_that_kafka_cannot_have_is_refused(tmp_path: Path, offset: str) -> None:
    job = tmp_path / "job.toml"
    job.write_text("")
    told = CliRunner().invoke(offsets, ["set", str(job), "seg", "0", "--", offset])
    assert told.exit_code == 2
    assert "is not in the range" in told.output


def test_an_offset_beyond_the_archive_is_refused_unless_it_is_meant() -> None:
    check_offset(EXTENT, 1800, beyond=False)
    with pytest.raises(ConfigurationError, match=r"seg/0: the archive has \[0, 1800\), and 1801"):
        check_offset(EXTENT, 1801, beyond=False)
    check_offset(EXTENT, 999_999, beyond=True)


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ([], "job j was not started: see secor restore run"),
        (["secor:j::"], "job j was not started"),
        (["secor:j:seg:0"], r"secor-restore-j is gone, and job j has written before \(the brokers"),
    ],
)
def test_a_job_that_lost_its_offsets_topic_has_begun(ids: list[str], what: str) -> None:
    admin = SimpleNamespace(transactional_ids=lambda _prefix: ids)
    job: Any = SimpleNamespace(name="j", transactional=True, admin=admin)
    assert re.search(what, not_started(job))
