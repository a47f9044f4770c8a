"""Whose messages a target holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from secor.core.model import TopicPartition
from secor.jobs.restore.progress import JobProgress, read_job_progress, target_belongs_to_job
from secor.restore.control import JobControl, JobRecord, RequestedState
from secor.restore.model import SourcePartition
from secor.restore.offsets import StoredOffset, offset_key, offsets_topic, record
from secor.restore.pairs import pairs_record
from secor.restore.writer.model import BatchPlacement
from tests.fakes.transactions import FakeCluster
from tests.simulation.restore_world import World as RestoreWorld
from tests.simulation.restore_world import rows

OFFSETS = TopicPartition(offsets_topic("job"), 0)
CLICKS = SourcePartition("archive", "clicks", 0)


@dataclass
class Job:
    """As much of a job as is asked."""

    log: FakeCluster
    transactional: bool = True
    name: str = "job"

    def offsets_partitions(self) -> int:
        return len(self.log.partitions(OFFSETS.topic))

    def control(self, partitions: int) -> JobControl:
        world = RestoreWorld()
        world.cluster = self.log
        where = TopicPartition(OFFSETS.topic, partitions - 1)
        return JobControl("job", where, self.log, world.make_writer, self.log.clock)


class World:
    def __init__(self, **job: Any) -> None:
        self.inner = RestoreWorld()
        self.inner.cluster = FakeCluster({"clicks": 1, "foreign": 1, OFFSETS.topic: 2})
        self.job: Any = Job(self.inner.cluster, **job)
        self.job.control(2).start("spec", 2)

    def write(self, name: str, *batches: tuple[TopicPartition, Any], commit: bool = True) -> None:
        writer = self.inner.make_writer(name)
        writer.initialise()
        writer.begin()
        for where, records in batches:
            writer.write(where, records)
        if commit:
            writer.commit()
            self.inner.cluster.settle()

    def restore(self, target: str) -> None:
        """Write two messages with their offset and their pair, as a daemon does."""
        where = TopicPartition(target, 0)
        pairs = pairs_record("job", CLICKS, [BatchPlacement(where, 0, 2, 0, 1)], 0)
        offset = record(offset_key("job", CLICKS), StoredOffset(2, "spec").encode(), 0)
        self.write("daemon", (where, rows(0, 2)), (OFFSETS, offset), (OFFSETS, pairs))

    def owned(self, target: str, progress: JobProgress | None = None) -> bool:
        return target_belongs_to_job(
            self.job, progress or read_job_progress(self.job), "clicks", target
        )


def test_what_the_job_has_written_is_its_own_and_what_others_wrote_is_not() -> None:
    world = World()
    world.write("another", (TopicPartition("foreign", 0), rows(0, 2)))
    world.restore("clicks")
    assert world.owned("clicks")
    assert not world.owned("foreign"), "its offsets are of the target that pairs name"


def test_a_job_that_has_begun_and_wrote_nothing_there_owns_nothing() -> None:
    world = World()
    world.write("another", (TopicPartition("clicks", 0), rows(0, 2)))
    assert not world.owned("clicks")


def test_a_transaction_that_was_never_committed_is_in_nobodys_way() -> None:
    world = World()
    world.write("daemon", (TopicPartition("clicks", 0), rows(0, 2)), commit=False)
    assert world.owned("clicks")


def test_offsets_that_came_from_copies_have_no_pairs() -> None:
    world = World()
    offset = record(offset_key("job", CLICKS), StoredOffset(2, "spec").encode(), 0)
    world.write("daemon", (TopicPartition("clicks", 0), rows(0, 2)), (OFFSETS, offset))
    assert world.owned("clicks")


def test_what_a_daemon_writes_while_the_plan_looks_is_the_jobs_own() -> None:
    world = World()
    progress = read_job_progress(world.job)
    world.restore("clicks")
    assert world.owned("clicks", progress)


@pytest.mark.parametrize("changes", [1, 2])
def test_without_transactions_messages_without_an_offset_are_the_jobs_until_it_is_changed(
    changes: int,
) -> None:
    world = World(transactional=False)
    world.write("another", (TopicPartition("clicks", 0), rows(0, 2)))
    progress = JobProgress(2, JobRecord(RequestedState.RUNNING, changes, "spec", 2))
    assert world.owned("clicks", progress) == (changes == 1)


def test_a_job_that_has_not_begun_owns_nothing() -> None:
    assert not World().owned("clicks", JobProgress())
