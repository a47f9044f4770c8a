"""How many offsets a table is behind: what is not staged, and what is staged and not in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from secor.adapters.kafka import KafkaReader
from secor.config.model import Config
from secor.core.errors import Unavailable
from secor.core.model import Entry, TopicPartition
from secor.tables.lag import lag_of
from secor.tables.overview import look_at
from secor.wiring.table_group import BrokerTopics, TableGroup
from tests.unit.tables.world import CLICKS, EVENTS, OTHER, TableWorld

SECOND = "db.other"


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make(SECOND)
    made.topics.known = {CLICKS, OTHER}
    made.topics.log_ends = {CLICKS: 20, OTHER: 7}
    return made


def test_what_is_not_staged_and_what_is_not_committed_counts(world: TableWorld) -> None:
    for start in (0, 5, 9):
        world.stage(world.manifest(start, start + 4))
    lacking = world.staged()[1:]
    assert lag_of({CLICKS: 20, OTHER: 7}, {CLICKS: 13}, lacking) == {CLICKS: 15, OTHER: 7}
    assert lag_of({CLICKS: 20}, {CLICKS: 13}, []) == {CLICKS: 7}
    assert lag_of({CLICKS: 10}, {CLICKS: 13}, []) == {CLICKS: 0}


def test_a_table_without_rows_in_a_batch_is_not_behind(world: TableWorld) -> None:
    """The coordinator and the commands say the same."""
    world.stage(world.manifest(0, 5, [EVENTS, SECOND]))
    world.stage(world.manifest(5, 9, [EVENTS]))
    world.stage(world.manifest(0, 7, [EVENTS], topic_partition=OTHER))
    world.coordinator().step()
    assert world.observer.backlogs[-1].lag == {EVENTS: 11, SECOND: 11}
    last = world.manifest(9, 12, [EVENTS, SECOND])
    del world.server.tables[SECOND]
    world.stage(last)
    world.coordinator().step()
    lag = world.observer.backlogs[-1].lag
    assert lag == {EVENTS: 8, SECOND: 20}  # it was dropped, and all of its batches are kept
    overview = look_at(world.committer, EVENTS, world.staged())
    lacking = [item for item in world.staged() if overview.waits_for(item)]
    assert lag_of({CLICKS: 20, OTHER: 7}, {CLICKS: 12, OTHER: 7}, lacking) == {CLICKS: 8, OTHER: 0}


def test_only_topics_that_may_have_rows_for_a_table_count(world: TableWorld) -> None:
    coordinator = world.coordinator(tables=[EVENTS, SECOND], feeds=lambda table, _: table == EVENTS)
    coordinator.step()
    assert world.observer.backlogs[-1].lag == {EVENTS: 27, SECOND: 0}


def test_a_catalog_that_is_away_makes_nothing_wait_that_the_table_has(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests stay for an hour: all of them counted as not committed."""
    coordinator = world.coordinator()
    world.stage(world.manifest(0, 5, [EVENTS]))
    coordinator.step()
    world.clock.advance(10)
    coordinator.step()

    def away(identifier: str) -> None:
        raise Unavailable("the catalog is away")

    load_table = world.catalog.load_table
    monkeypatch.setattr(world.catalog, "load_table", away)
    world.stage(world.manifest(5, 9, [EVENTS]))
    world.clock.advance(10)
    coordinator.step()
    seen = world.observer.backlogs[-1]
    assert (seen.manifests, seen.by_table[EVENTS].manifests) == (1, 1)
    assert seen.lag[EVENTS] == (20 - 5) + 7
    monkeypatch.setattr(world.catalog, "load_table", load_table)
    world.clock.advance(10)
    coordinator.step()
    assert world.observer.backlogs[-1].manifests == 0
    assert world.live() == ["0-5@0", "5-9@0"]


def test_a_partition_without_an_entry_is_behind_by_what_will_be_read(world: TableWorld) -> None:
    """Its log begins where retention left it; with ``reset = "latest"`` nothing waits."""
    world.topics.first = {CLICKS: 15, OTHER: 7}
    coordinator = world.coordinator(tables=[EVENTS])
    coordinator.step()
    assert world.observer.backlogs[-1].lag == {EVENTS: 5}


@pytest.mark.parametrize(("reset", "waiting"), [("earliest", {CLICKS: 5}), ("latest", {})])
def test_nothing_below_the_start_of_a_log_waits_to_be_staged(
    reset: str, waiting: dict[TopicPartition, int]
) -> None:
    config = Config.model_validate(
        {
            "group": {"name": "g", "kind": "table"},
            "kafka": {
                "bootstrap_servers": ["127.0.0.1:1"],
                "topics": [CLICKS.topic],
                "reset": reset,
            },
            "store": {"s3": {"bucket": "b"}},
            "catalog": {"properties": {"uri": "http://127.0.0.1:1"}},
            "tables": [{"table": EVENTS}],
        }
    )
    reader = SimpleNamespace(
        group_partitions=lambda *_: frozenset({CLICKS, OTHER}),
        starts=lambda keys: dict.fromkeys(keys, 15),
        ends=lambda keys: {CLICKS: 20, OTHER: 7} if len(keys) > 1 else dict.fromkeys(keys, 20),
    )
    ledger = SimpleNamespace(read=lambda key: Entry(7 if key == OTHER else None))
    fields: dict[str, Any] = dict.fromkeys(TableGroup.__dataclass_fields__)
    fields |= {"config": config, "ledger": ledger, "threads": SimpleNamespace(map=map)}
    group = TableGroup(**fields | {"topics": BrokerTopics(config, cast(KafkaReader, reader))})
    assert group.unstaged() == waiting
