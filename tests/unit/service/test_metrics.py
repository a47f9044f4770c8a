from __future__ import annotations

from pathlib import Path

import pytest

from secor.core.model import TopicPartition
from secor.service.metrics import Metrics
from secor.service.metrics_registry import MetricsRegistry
from secor.service.monitoring.last_run import BACKFILL, COMPACT, DRILL, EXPIRE, FINALIZE
from secor.service.restore_metrics import RestoreMetrics

CONFIG = Path(__file__).parents[3] / "config"
HERE, THERE = TopicPartition("clicks", 1), TopicPartition("clicks", 11)


def test_the_table_for_people_is_the_list_of_the_module() -> None:
    own = {it.name for it in Metrics().definitions}
    restoring = [it for it in RestoreMetrics().definitions if it.name not in own]
    rows = [
        f"| `{it.name}` | {it.kind} | {', '.join(it.labels)} | {it.help} |"
        for it in (
            *Metrics().definitions,
            *restoring,
            *FINALIZE,
            *COMPACT,
            *BACKFILL,
            *EXPIRE,
            *DRILL,
        )
    ]
    table = [line for line in (CONFIG / "METRICS.md").read_text().splitlines() if "`" in line]
    assert [line for line in table if line.startswith("|")] == rows


@pytest.mark.parametrize("kind", [Metrics, RestoreMetrics])
def test_the_definitions_are_what_prometheus_is_given(kind: type[MetricsRegistry]) -> None:
    metrics = kind()
    given = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type)
        for family in metrics.registry.collect()
        if family.name.startswith("secor_")
    }
    assert given == {(it.name, it.kind) for it in metrics.definitions}


def test_a_partition_that_leaves_takes_all_its_series_and_no_others() -> None:
    metrics = Metrics()
    for where in (HERE, THERE):
        metrics.of(metrics.messages, where).inc(5)
        metrics.of(metrics.lag_offsets, where).set(7)
        metrics.of(metrics.uploads, where, "committed").inc()
        metrics.of(metrics.restarts, where, "lease_lost").inc()
    metrics.forget(HERE)
    text = metrics.text().decode()
    assert 'partition="1"' not in text
    assert 'secor_messages_total{partition="11",topic="clicks"} 5.0' in text
    assert 'secor_restarts_total{partition="11",reason="lease_lost",topic="clicks"} 1.0' in text


def test_a_partition_that_comes_back_counts_from_nothing() -> None:
    metrics = Metrics()
    metrics.of(metrics.messages, HERE).inc(5)
    metrics.forget(HERE)
    metrics.of(metrics.messages, HERE).inc(2)
    assert 'secor_messages_total{partition="1",topic="clicks"} 2.0' in metrics.text().decode()


def test_a_partition_that_runs_again_is_not_stopped_for_any_reason() -> None:
    metrics = Metrics()
    metrics.of(metrics.partition_stopped, HERE, "ledger_lost").set(1)
    metrics.of(metrics.lag_offsets, HERE).set(7)
    metrics.runs(HERE)
    text = metrics.text().decode()
    assert "ledger_lost" not in text
    assert 'secor_lag_offsets{partition="1",topic="clicks"} 7.0' in text


def test_two_processes_in_one_interpreter_do_not_share_numbers() -> None:
    one, other = Metrics(), Metrics()
    one.rebalances.inc()
    assert "secor_rebalances_total 0.0" in other.text().decode()


def test_no_series_of_creation_times_double_the_answer() -> None:
    assert "_created" not in Metrics().text().decode()
