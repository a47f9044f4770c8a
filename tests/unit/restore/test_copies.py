from __future__ import annotations

import random

import pytest

from secor.core.errors import RestartPartition, SecorError, SpecChanged, Unavailable
from secor.core.model import TopicPartition
from secor.core.transactions import BrokerCode
from secor.restore.copies import RETRY_EVERY, CopyWriter, OffsetCopies, read_copies
from secor.restore.model import SourcePartition
from secor.restore.opening import Opener
from secor.restore.task import TaskSettings, Turn
from secor.restore.writer.model import WriterLimits
from secor.restore.writer.writer import TransactionalWriter
from tests.fakes.transactions import FakeBrokersWithoutTransactions
from tests.simulation.restore_world import OFFSETS, SOURCE, SPEC, Owner, Silent, World

SHARED = "all-offsets"
OTHER = SourcePartition("archive", "clicks", 1)


class Setup:
    """Copies over a topic of some partitions; ``told`` are errors."""

    def __init__(self, partitions: int = 1) -> None:
        self.cluster = FakeBrokersWithoutTransactions({SHARED: partitions})
        self.told: list[tuple[str, SecorError]] = []
        self.copies = self.of("job")

    def of(self, job: str) -> OffsetCopies:
        places = self.cluster.partitions(SHARED)
        clock = self.cluster.clock
        return OffsetCopies(CopyWriter(job, "spec", places, self.writer, clock), clock, self)

    def writer(self) -> TransactionalWriter:
        limits = WriterLimits(
            transaction_timeout=2.0,
            request_timeout=2.0,
            initialise_timeout=2.0,
            transactional=False,
        )
        return TransactionalWriter(
            self.cluster, "copies", clock=self.cluster.clock, rng=random.Random(1), limits=limits
        )

    def not_copied(self, topic: str, error: SecorError) -> None:
        self.told.append((topic, error))

    def copied(self, topic: str) -> None: ...

    def read(self, job: str = "job") -> dict[SourcePartition, int]:
        table = read_copies(self.cluster, self.cluster.partitions(SHARED), job)
        return {source: stored.next_offset for source, stored in table.offsets.items()}


@pytest.mark.parametrize("partitions", [1, 3])
def test_jobs_share_a_topic_and_each_reads_its_own(partitions: int) -> None:
    setup = Setup(partitions)
    setup.copies.committed(SOURCE, 3)
    setup.copies.committed(SOURCE, 5)
    setup.copies.committed(OTHER, 7)
    setup.copies.write()
    other = setup.of("another")
    other.committed(SOURCE, 9)
    other.write()
    assert setup.read() == {SOURCE: 5, OTHER: 7}
    assert setup.read("another") == {SOURCE: 9}
    assert sum(len(setup.cluster.log(it).batches) for it in setup.cluster.partitions(SHARED)) <= 3


def test_without_news_nothing_is_written() -> None:
    setup = Setup()
    setup.copies.committed(SOURCE, 3)
    setup.copies.write()
    setup.copies.write()
    assert setup.cluster.calls.count("produce") == 1


def test_a_topic_that_takes_nothing_is_told_and_tried_again_later_with_the_newest() -> None:
    setup = Setup()
    setup.cluster.refuse["produce"] = [BrokerCode.TOPIC_AUTHORIZATION_FAILED]
    setup.copies.committed(SOURCE, 3)
    setup.copies.committed(OTHER, 7)
    setup.copies.write()
    ((topic, error),) = setup.told
    assert topic == SHARED
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    setup.copies.committed(SOURCE, 5)
    setup.copies.write()
    assert setup.read() == {}
    setup.cluster.clock.advance(RETRY_EVERY)
    setup.copies.write()
    assert setup.read() == {SOURCE: 5, OTHER: 7}
    assert len(setup.told) == 1


def test_what_is_committed_during_an_attempt_that_fails_is_newer() -> None:
    setup = Setup()
    setup.cluster.refuse["produce"] = [BrokerCode.TOPIC_AUTHORIZATION_FAILED]

    def meanwhile(name: str) -> None:
        if name == "before produce":
            setup.copies.committed(SOURCE, 5)

    setup.cluster.hook = meanwhile
    setup.copies.committed(SOURCE, 3)
    setup.copies.write()
    setup.cluster.hook = lambda _name: None
    setup.cluster.clock.advance(RETRY_EVERY)
    setup.copies.write()
    assert setup.read() == {SOURCE: 5}


def test_an_attempt_ends_soon_where_nobody_answers() -> None:
    setup = Setup()

    def away(_name: str) -> None:
        raise Unavailable("away")

    setup.cluster.hook = away
    setup.copies.committed(SOURCE, 3)
    began = setup.cluster.clock.monotonic()
    setup.copies.write()
    assert len(setup.told) == 1
    assert setup.cluster.clock.monotonic() - began <= 6


def test_of_two_copies_the_lower_counts() -> None:
    # Partitions were added: the older copy lies where the key does not lead any more.
    setup = Setup(2)
    for partition, offset in ((0, 5), (1, 3)):
        places = [TopicPartition(SHARED, partition)]
        CopyWriter("job", "spec", places, setup.writer, setup.cluster.clock).put({SOURCE: offset})
    assert setup.read() == {SOURCE: 3}


def test_what_is_forgotten_has_no_copy_and_another_spec_is_refused() -> None:
    setup = Setup()
    places = setup.cluster.partitions(SHARED)
    writer = CopyWriter("job", "spec", places, setup.writer, setup.cluster.clock)
    writer.put({SOURCE: 3, OTHER: 7})
    writer.put({SOURCE: None})
    table = read_copies(setup.cluster, places, "job")
    assert table.offsets.keys() == {OTHER}
    with pytest.raises(SpecChanged):
        table.next_offset(OTHER, "changed")


class Copying(Silent):
    """As the daemon's observer: what is committed is told to the copies."""

    def __init__(self) -> None:
        self.copied: list[int] = []

    def committed(self, source: SourcePartition, *numbers: object) -> None:
        self.copied.append(int(str(numbers[0])))


def test_nothing_is_copied_before_its_commit_has_returned() -> None:
    world, observer = World(), Copying()
    settings = TaskSettings(
        SPEC, world.source, world.routing(), world.boundaries, world.cluster.clock, observer
    )
    opener = Opener(settings, world.cluster, world.make_writer, lambda: True)
    (task,) = opener.open(OFFSETS, [SOURCE], Owner(world, "owner")).tasks
    world.cluster.hook = lambda name: _none_yet(name, observer)
    assert task.turn() is Turn.WROTE
    assert observer.copied == [task.next_offset]
    world.cluster.hook = lambda _name: None
    world.cluster.refuse["commit"] = [BrokerCode.INVALID_TXN_STATE]
    with pytest.raises(RestartPartition):
        task.turn()
    assert len(observer.copied) == 1, "a commit that was not answered with yes is no offset"


def _none_yet(name: str, observer: Copying) -> None:
    assert name != "before commit" or not observer.copied
