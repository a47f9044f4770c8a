"""What ``secor tables`` prints: times of messages may be any."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from secor.cli.doctor.stop_reasons import StopReasons, sentence
from secor.cli.open_archive import absent_topics
from secor.cli.tables.show import _through, _time
from secor.config.load import validate
from secor.config.model import Config
from secor.core.model import LogRange, TopicPartition
from secor.tables.commit.plan_notes import PlanNotes
from secor.wiring.clients import open_store
from tests.fakes.ledger import LedgerServer
from tests.unit.tables.worker_world import WorkerWorld


def reading(**kafka: object) -> Config:
    tree: Mapping[str, object] = {
        "group": {"name": "g", "kind": "table"},
        "kafka": {"bootstrap_servers": ["localhost:1"], **kafka},
        "store": {"kind": "local", "local": {"directory": "/tmp/nowhere"}},
        "catalog": {"properties": {"type": "sql", "uri": "sqlite:////tmp/nowhere.db"}},
        "tables": [{"table": "db.{topic}", "auto_create": True}],
    }
    config, faults = validate(tree)
    assert config is not None, faults
    return config


@pytest.mark.parametrize("milliseconds", [253_402_300_800_000, 1 << 62, -(1 << 62)])
def test_a_time_that_no_calendar_has_is_shown_as_it_is(milliseconds: int) -> None:
    assert _time(milliseconds) == f"{milliseconds} ms"
    assert str(milliseconds) in _through(milliseconds, 1_790_000_000.0)


def test_a_time_is_that_of_utc() -> None:
    assert _time(1_795_348_800_000) == "2026-11-22 12:00:00"


def test_topics_that_the_cluster_does_not_have_are_named() -> None:
    partitions = [TopicPartition("clicks", 0), TopicPartition("clicks", 1)]
    named = reading(topics=["clicks", "veiws"])
    assert absent_topics(named, partitions) == [
        "the broker has no topic 'veiws': look at the spelling"
    ]
    pattern = reading(topics_pattern="cliks.*")
    assert absent_topics(pattern, partitions) == []
    assert absent_topics(pattern, []) == [
        "no topic matches kafka.topics_pattern 'cliks.*': correct it, or make the topic"
    ]


class Brokers:
    """Brokers with one topic partition of five messages."""

    def topic_id(self, topic: str) -> str | None:
        return None

    def cluster_id(self) -> str:
        return "cluster"

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        return LogRange(0, 5)

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        return None


@pytest.mark.parametrize(("committed", "stops"), [(3, True), (5, False)])
def test_a_topic_without_a_plan_is_stopped_as_long_as_messages_wait(
    tmp_path: Path, committed: int, stops: bool
) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}])
    partition = TopicPartition("flights", 0)
    server = LedgerServer()
    ledger = server.client("operator")
    server.assign([partition], ledger)
    server.put(partition, str(committed).encode())
    with ExitStack() as opened:
        store = opened.enter_context(open_store(world.config))
        PlanNotes(store, world.config.output.prefix).note_stop("flights", "there is no table")
        reasons = StopReasons(world.config, Brokers(), opened)
        _, _, stopped = reasons.look(ledger, Brokers(), partition)
    lines = [sentence(partition, stopped)] if stopped is not None else []
    assert lines == (["stopped (table): there is no table"] if stops else [])
