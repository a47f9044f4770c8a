"""Reports of drills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secor.cli.recover.drill_report import DrillReport, shown
from secor.config.stores import Store
from secor.core.clock import SystemClock
from secor.core.model import TopicPartition
from secor.restore.recovery import KindState
from secor.service.monitoring.last_run import LastRun
from secor.verify.finding import Finding, FindingKind
from secor.verify.restore import PartitionResult

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def report() -> DrillReport:
    store = Store.model_validate({"kind": "local", "local": {"directory": "/srv/archive"}})
    done = DrillReport("lost", store, began=2_000_000.0)
    done.cluster, done.last_message = "old", 1_999_940.0
    done.looked_at = {"groups": "1970-01-24T03:32:00+00:00", "acls": None}
    return done


def test_a_drill_passes_when_all_is_equal_and_nothing_is_left(report: DrillReport) -> None:
    report.compared([PartitionResult(ORDERS, 70, None)])
    report.states = [KindState("groups", 2, 2), KindState("settings", 1, 1)]
    assert report.passed
    content = json.loads(report.encode())
    assert content["passed"] is True
    assert content["recovery_point"]["age_seconds"] == 60.0
    assert content["compared"] == {"messages": 70, "partitions": 1}
    assert content["archive"] == {"kind": "local", "local": {"directory": "/srv/archive"}}
    text = "\n".join(shown(report))
    assert "passed" in text
    assert "60 s before the drill" in text
    assert "recovery point of acls: nothing kept" in text


def test_a_difference_or_a_kind_that_is_not_complete_fails_it(report: DrillReport) -> None:
    report.states = [KindState("groups", 2, 2)]
    report.compared(
        [PartitionResult(ORDERS, 70, Finding(FindingKind.MISSING, "orders/0", "is missing"))]
    )
    assert not report.passed
    assert any(line.startswith("problem: ") for line in shown(report))
    report.problems.clear()
    report.states = [KindState("acls", 0, 0, ("nothing is kept",), is_kept=False)]
    assert not report.passed
    assert "FAILED" in next(shown(report))


def test_a_drill_that_has_not_ended_has_not_passed(report: DrillReport) -> None:
    assert not report.passed


def test_nothing_compared_is_no_proof(report: DrillReport) -> None:
    report.states = [KindState("groups", 0, 0)]
    report.compared([])
    assert not report.passed


def test_the_metrics_tell_of_failures_too(tmp_path: Path) -> None:
    path = tmp_path / "drill.prom"
    run = LastRun(path, SystemClock())
    run.drilling("lost")
    assert "secor_drill_begun_timestamp_seconds" in path.read_text()
    run.drilled("lost", succeeded=False, recovery=0.0, age=None, messages=0)
    text = path.read_text()
    assert 'secor_drill_succeeded{group="lost"} 0.0' in text
    assert "secor_drill_begun" not in text
    assert "secor_drill_recovery_point_seconds" not in text
    run.drilled("lost", succeeded=True, recovery=3.5, age=60.0, messages=70)
    assert 'secor_drill_recovery_point_seconds{group="lost"} 60.0' in path.read_text()
