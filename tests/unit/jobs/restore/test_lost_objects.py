"""What status and verify say when the archive lost objects under a job that has begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secor.archive.objects import Archive
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError, WriterFenced
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from secor.jobs.restore.control import fence_all
from secor.jobs.restore.plan import all_written
from secor.jobs.restore.status import JobStatus, status_of
from secor.jobs.restore.verify import offsets_to_compare, verify
from secor.restore.model import SourcePartition, transactional_id
from secor.restore.offsets import StoredOffset, offset_key, partition_of, record
from secor.restore.sources.archive import ArchiveSource, TopicListings
from secor.wiring.restore import Job
from secor.wiring.restore_sources import spec_of
from tests.fakes.archive import Shelf, messages
from tests.fakes.reader import DirectReader
from tests.fakes.transactions import FakeCluster

FIRST, SECOND = (SourcePartition("archive", "clicks", number) for number in range(2))
OFFSETS = "secor-restore-job"
PARTITIONS = 3


class World:
    """A job whose targets and offsets are at brokers in memory, and its archive on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bucket"
        self.shelf = Shelf(self.folder, make_format("sequencefile"))
        self.topics = {"clicks": 3}
        self.brokers = FakeCluster(self.topics)
        self.clock = iter(range(0, 10**6, 100)).__next__

    def job(self, *, target: dict[str, object] | None = None, **source: Any) -> Job:
        config = RestoreConfig.model_validate(
            {
                "group": {"name": "job", "kind": "restore"},
                "kafka": {"bootstrap_servers": ["localhost:9092"]},
                "store": {"kind": "local", "local": {"directory": self.folder}},
                "source": {"topics": ["clicks"], "prefix": self.shelf.prefix, **source},
                "target": target or {},
                "writing": {"offsets_partitions": PARTITIONS},
            }
        )
        archive = Archive(self.shelf.store, self.shelf.prefix)
        reading = ArchiveSource(
            "archive",
            lambda _topic: archive,
            archive.topics,
            holes=config.source.holes,
            reader=DirectReader,
            listings=TopicListings(self.clock),
        )
        brokers: Any = self.brokers
        parts = (config, spec_of(config), reading, brokers, brokers, brokers, brokers.clock)
        return Job(*parts, lambda _topic: None)

    def put(self, source: SourcePartition, start: int, end: int) -> str:
        where = TopicPartition(source.topic, source.partition)
        batch = OffsetRange(start, end)
        return self.shelf.put(messages(range(start, end)), batch, topic_partition=where)

    def write(self, source: SourcePartition, start: int, end: int) -> None:
        """Do what a daemon does: messages and their offset in a transaction."""
        job = self.job()
        self.topics[OFFSETS] = PARTITIONS
        job.control(PARTITIONS).start(job.spec.hash, PARTITIONS)
        writer = job.make_writer(str(source))
        writer.initialise()
        writer.begin()
        where = TopicPartition(source.topic, source.partition)
        writer.write(where, messages(range(start, end)))
        offsets = TopicPartition(OFFSETS, partition_of("job", source, PARTITIONS))
        stored = StoredOffset(end, job.spec.hash).encode()
        writer.write(offsets, record(offset_key("job", source), stored, 0))
        writer.commit()
        self.brokers.settle()

    def stray(self, where: TopicPartition) -> None:
        """Write a message that is not the job's."""
        writer = self.job().make_writer("stranger")
        writer.initialise()
        writer.begin()
        writer.write(where, messages([7]))
        writer.commit()
        self.brokers.settle()

    def lose(self, key: str) -> None:
        self.shelf.store.delete(key)

    def status(self, **source: Any) -> JobStatus:
        return status_of(self.job(**source))

    def differences(self, *, target: dict[str, object] | None = None) -> list[str]:
        compared = verify(self.job(target=target))
        return [str(result.difference) for result in compared if result.difference]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_was_lost_between_the_offset_and_the_first_object_is_left(world: World) -> None:
    lost = world.put(FIRST, 0, 6)
    world.put(FIRST, 6, 10)
    world.write(FIRST, 0, 4)
    world.lose(lost)
    status = world.status()
    assert (status.left, status.complete, status.state) == (6, False, "running")


def test_an_archive_that_begins_above_zero_lacks_nothing(world: World) -> None:
    world.put(FIRST, 6, 10)
    assert world.status().left == 4
    world.write(FIRST, 6, 10)
    assert world.status().state == "all written"
    assert world.differences() == []


def test_a_source_partition_without_objects_is_shown_and_differs(world: World) -> None:
    world.put(FIRST, 0, 10)
    lost = world.put(SECOND, 0, 10)
    world.write(FIRST, 0, 10)
    world.write(SECOND, 0, 4)
    world.lose(lost)
    status = world.status()
    assert [(row.source, row.next_offset) for row in status.rows] == [
        ("clicks/0", 10),
        ("clicks/1", 4),
    ]
    assert (status.vanished, status.complete, status.state) == (1, False, "running")
    assert world.status(holes=True).complete
    (difference,) = world.differences()
    assert "clicks/1: cannot be compared: the archive has no object of clicks/1" in difference
    assert "up to offset 4" in difference


def test_what_the_job_was_not_to_restore_has_not_vanished(world: World) -> None:
    world.put(FIRST, 0, 10)
    world.write(SECOND, 0, 4)
    assert world.status(partitions=[0]).vanished == 0


def test_a_writer_of_a_source_partition_without_objects_is_fenced_with_the_others(
    world: World,
) -> None:
    world.put(FIRST, 0, 10)
    late = world.job().make_writer(transactional_id("job", SECOND))
    late.initialise()
    late.begin()
    late.write(TopicPartition("clicks", 1), messages(range(4)))
    late.flush()
    assert fence_all(world.job()) == 2
    with pytest.raises(WriterFenced):
        late.commit()
    world.brokers.settle()
    assert world.brokers.visible(TopicPartition("clicks", 1)) == []


def test_a_partition_that_lost_its_end_while_a_daemon_runs_is_not_written(world: World) -> None:
    world.put(FIRST, 0, 6)
    lost = world.put(FIRST, 6, 10)
    job = world.job()
    assert job.source.extent(FIRST).range == OffsetRange(0, 10)
    world.write(FIRST, 0, 6)
    world.lose(lost)
    assert not all_written(job, PARTITIONS, [FIRST])


def test_what_waits_behind_an_open_transaction_of_the_target_is_counted(world: World) -> None:
    world.put(FIRST, 0, 10)
    world.write(FIRST, 0, 10)
    stranger = world.job().make_writer("stranger")
    stranger.initialise()
    stranger.begin()
    stranger.write(TopicPartition("clicks", 0), messages(range(4)))
    stranger.flush()
    results = {str(it.topic_partition): it for it in verify(world.job())}
    assert [it.difference for it in results.values()] == [None, None, None]
    assert [it.withheld for it in results.values()] == [4, 0, 0]


def test_nothing_to_compare_is_not_equal(world: World) -> None:
    job = world.job(prefix="elsewhere")
    assert offsets_to_compare(job) == 0
    with pytest.raises(ConfigurationError, match="the archive has no object at all"):
        list(verify(job))


def test_messages_in_partitions_that_nothing_maps_to_are_extra(world: World) -> None:
    world.put(FIRST, 0, 10)
    world.write(FIRST, 0, 10)
    assert [str(it.topic_partition) for it in verify(world.job())] == [
        "clicks/0",
        "clicks/1",
        "clicks/2",
    ]
    world.stray(TopicPartition("clicks", 2))
    assert world.differences() == ["clicks/2, offset 0: a message that the archive has not"]
    assert not any("clicks/2" in it for it in world.differences(target={"append": True}))
