from __future__ import annotations

import os
from pathlib import Path

import pytest

from secor.core.errors import ConfigurationError
from secor.service.monitoring.last_run import LastRun
from tests.fakes.clock import FakeClock


def test_a_run_leaves_when_it_succeeded_how_long_it_took_and_its_counts(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "secor.prom"
    run = LastRun(path, clock)
    clock.sleep(7)
    run.finalized("logs", {"marked": 2, "waiting": 1, "late": 0})
    samples = {line for line in path.read_text().splitlines() if not line.startswith("#")}
    assert samples == {
        'secor_finalize_last_success_timestamp_seconds{group="logs"} 1.790000007e+09',
        'secor_finalize_duration_seconds{group="logs"} 7.0',
        'secor_finalize_partitions{group="logs",state="marked"} 2.0',
        'secor_finalize_partitions{group="logs",state="waiting"} 1.0',
        'secor_finalize_partitions{group="logs",state="late"} 0.0',
    }


def test_a_compaction_leaves_when_it_succeeded_and_what_it_joined(tmp_path: Path) -> None:
    path = tmp_path / "secor.prom"
    LastRun(path, FakeClock()).compacting("logs")
    assert 'secor_compact_begun_timestamp_seconds{group="logs"} 1.79e+09' in path.read_text()
    LastRun(path, FakeClock()).compacted("logs", replaced=9, made=2, size=1000)
    text = path.read_text()
    assert 'secor_compact_objects{group="logs",state="replaced"} 9.0' in text
    assert 'secor_compact_objects{group="logs",state="made"} 2.0' in text
    assert "begun" not in text


def test_before_the_first_success_it_tells_since_when_there_was_none(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "secor.prom"
    for _ in range(2):
        LastRun(path, clock).finalizing("logs")
        clock.sleep(600)
    begun = 'secor_finalize_begun_timestamp_seconds{group="logs"} 1.79e+09'
    assert begun in path.read_text().splitlines()
    LastRun(path, clock).finalized("logs", {})
    succeeded = path.read_text()
    assert "begun" not in succeeded
    LastRun(path, clock).finalizing("logs")
    assert path.read_text() == succeeded


def test_a_later_step_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "secor.prom"
    for step in ("run", "publish"):
        LastRun(path, FakeClock()).backfilled("logs", "clicks", step, batches=5, replaced=3)
    text = path.read_text()
    assert 'step="run"' not in text
    where = 'group="logs",step="publish",topic="clicks"'
    assert f"secor_backfill_batches{{{where}}} 5.0" in text
    assert f"secor_backfill_replaced_objects{{{where}}} 3.0" in text
    assert [path.name for path in tmp_path.iterdir()] == ["secor.prom"]


def test_others_may_read_it_under_any_mask(tmp_path: Path) -> None:
    path = tmp_path / "secor.prom"
    before = os.umask(0o077)
    try:
        LastRun(path, FakeClock()).finalized("logs", {})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = LastRun(None, FakeClock())
    run.finalizing("logs")
    run.finalized("logs", {"marked": 1})
    run.backfilled("logs", "clicks", "run", batches=1, replaced=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [("secor.txt", "only reads files named"), ("absent/secor.prom", "folder is missing")],
)
def test_a_file_that_would_not_be_read_is_refused_before_the_work(
    tmp_path: Path, name: str, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        LastRun(tmp_path / name, FakeClock())


def test_a_file_that_cannot_be_written_any_more_says_that_the_work_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "textfile"
    folder.mkdir()
    run = LastRun(folder / "secor.prom", FakeClock())
    folder.rmdir()
    with pytest.raises(ConfigurationError, match="is done"):
        run.finalized("logs", {})
