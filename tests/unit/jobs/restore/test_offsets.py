"""What a person does to a job's offsets, and to the copies of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError, SpecChanged
from secor.jobs.restore.control import change_offsets, fence_all, recover_offsets, reset_offsets
from secor.jobs.restore.offsets import copy_writer, read_all_offsets, read_shared
from secor.restore.control import RequestedState
from secor.restore.model import SourcePartition
from secor.wiring.restore import Job
from secor.wiring.restore_sources import spec_of
from tests.fakes.transactions import FakeBrokersWithoutTransactions
from tests.simulation.restore_world import ListSource

SHARED = "all-offsets"
FIRST, SECOND = (SourcePartition("archive", "clicks", number) for number in range(2))
PARTITIONS = 3


@dataclass
class Admin:
    """Makes topics of the fake brokers."""

    topics: dict[str, int]

    def create(self, topics: Mapping[str, Any], replication_factor: int | None = None) -> None:
        self.topics.update({name: settings.partitions for name, settings in topics.items()})


class World:
    """A job at brokers in memory; each ``job()`` is another command over the same topics."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.brokers = FakeBrokersWithoutTransactions(self.topics)

    def job(self, *, target: dict[str, str] | None = None, **source: object) -> Job:
        config = RestoreConfig.model_validate(
            {
                "group": {"name": "job", "kind": "restore"},
                "kafka": {"bootstrap_servers": ["localhost:9092"]},
                "store": {"kind": "local", "local": {"directory": Path("/nowhere")}},
                "source": {"topics": ["clicks"], **source},
                "target": target or {},
                "writing": {
                    "exactly_once": "disabled",
                    "shared_offsets_topic": SHARED,
                    "offsets_partitions": PARTITIONS,
                },
            }
        )
        brokers: Any = self.brokers
        admin: Any = Admin(self.topics)
        return Job(
            *(config, spec_of(config), ListSource(), brokers, brokers, admin),
            *(brokers.clock, lambda _topic: None, brokers),
        )

    def copy(self, offsets: dict[SourcePartition, int | None]) -> None:
        writer = copy_writer(self.job())
        assert writer is not None
        writer.put(offsets)

    def begin(self, offsets: dict[SourcePartition, int | None], requested: RequestedState) -> Job:
        job = self.job()
        count = job.ensure_offsets_topic()
        job.control(count).start(job.spec.hash, count, RequestedState.STOPPED)
        change_offsets(job, job.control(count), count, offsets)
        job.control(count).request(requested)
        return job

    def stored(self) -> dict[SourcePartition, int]:
        known = read_all_offsets(self.job(), PARTITIONS).offsets
        return {source: stored.next_offset for source, stored in known.items()}

    def copies(self) -> dict[SourcePartition, int]:
        return {it: stored.next_offset for it, stored in read_shared(self.job()).items()}


def test_a_lost_topic_is_made_anew_from_the_copies_and_the_job_is_stopped() -> None:
    world = World()
    world.copy({FIRST: 5, SECOND: 7})
    assert recover_offsets(world.job()) == {FIRST: 5, SECOND: 7}
    assert world.stored() == {FIRST: 5, SECOND: 7}
    record = world.job().control(PARTITIONS).read()
    assert record is not None
    assert record.requested is RequestedState.STOPPED


def test_the_jobs_own_offsets_go_before_copies() -> None:
    world = World()
    world.begin({FIRST: 9}, RequestedState.STOPPED)
    world.copy({FIRST: 5, SECOND: 7})
    assert recover_offsets(world.job()) == {SECOND: 7}
    assert world.stored() == {FIRST: 9, SECOND: 7}


def test_nothing_is_taken_while_the_job_runs_or_of_another_spec_or_of_no_copies() -> None:
    world = World()
    with pytest.raises(ConfigurationError, match="there are no copies"):
        recover_offsets(world.job())
    world.copy({SECOND: 7})
    with pytest.raises(SpecChanged):
        recover_offsets(world.job(partitions=[1]))
    world = World()
    world.begin({FIRST: 9}, RequestedState.RUNNING)
    world.copy({SECOND: 7})
    with pytest.raises(ConfigurationError, match="only while it is stopped"):
        recover_offsets(world.job())
    assert world.stored() == {FIRST: 9}


def test_what_a_person_sets_and_forgets_is_set_and_forgotten_in_the_copies() -> None:
    world = World()
    job = world.begin({FIRST: 9, SECOND: 3}, RequestedState.STOPPED)
    assert world.copies() == {FIRST: 9, SECOND: 3}
    assert reset_offsets(job, job.control(PARTITIONS), PARTITIONS) == 2
    assert world.stored() == world.copies() == {}


def test_an_offset_is_not_written_under_another_spec_than_the_jobs() -> None:
    world = World()
    world.begin({FIRST: 9}, RequestedState.STOPPED)
    changed = world.job(partitions=[0])
    with pytest.raises(SpecChanged, match="was begun under spec"):
        change_offsets(changed, changed.control(PARTITIONS), PARTITIONS, {FIRST: 5})
    assert world.stored() == {FIRST: 9}
    assert reset_offsets(changed, changed.control(PARTITIONS), PARTITIONS) == 1


def test_without_transactions_nobody_is_fenced() -> None:
    world = World()
    assert fence_all(world.job()) == 0
    assert world.brokers.calls == []


@pytest.mark.parametrize("topic", ["secor-restore-job", SHARED])
def test_a_job_writes_to_any_topic_but_those_of_its_offsets(topic: str) -> None:
    job = World().job(target={"topic": topic})
    with pytest.raises(ConfigurationError, match=f"target.topic names {topic}"):
        job.routing()
