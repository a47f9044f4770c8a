"""Where a topic partition begins, from ledger, log and store."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.plan import OutputStream, TopicPlan
from secor.consume.positioning import ATTEMPTS, OnDataLoss, PositionFinder, Reset, StartPosition
from secor.core.errors import (
    AccessDenied,
    DataLost,
    LedgerEdited,
    LedgerLost,
    LogDiverged,
    NoStartingOffset,
    ObjectConflict,
    OutcomeUnknown,
    SecorError,
    TopicRecreated,
    Unavailable,
)
from secor.core.model import QUARANTINE, Entry, Intent, LogRange, TopicPartition
from tests.fakes.format import PlainFormat
from tests.fakes.ledger import Kind
from tests.fakes.source import FakeBroker, FakeLog, FakeSource
from tests.unit.commit.commit_world import FIRST, KEY, CommitWorld, Observed

ID = "id"
SINCE = 0.0
"""When the topic partition came."""


class Seeker:
    """A positioning over a log ``[3, 20)`` and ports in memory."""

    def __init__(self, directory: Path, kind: Kind = "zookeeper") -> None:
        self.commits = CommitWorld(directory, kind, committed=5)
        self.broker = FakeBroker()
        self.broker.create(KEY.topic)
        self.broker.topic_ids[KEY.topic] = ID
        self.log.produce(20)
        self.log.retain(3)
        self.lost: list[tuple[int, int]] = []
        self.plan = self.commits.plan()
        self.tried: list[str | None] = []
        observer = _Losses(self.lost)
        self.make: Callable[..., PositionFinder] = lambda **settings: PositionFinder(
            ledger=self.commits.ledger,
            store=self.commits.store,
            plans=self._plans,
            clock=self.commits.clock,
            observer=observer,
            rng=random.Random(1),
            **{"source": self.broker.source(), **settings},
        )

    @property
    def log(self) -> FakeLog:
        return self.broker.logs[KEY]

    def _plans(self, topic: str, tried: str | None) -> TopicPlan:
        assert topic == KEY.topic
        self.tried.append(tried)
        return self.plan

    def find(self, **settings: object) -> StartPosition | SecorError:
        return self.make(**settings).find(KEY, SINCE, lambda: True)


class _Losses(Observed):
    def __init__(self, lost: list[tuple[int, int]]) -> None:
        super().__init__()
        self._lost = lost

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        self._lost.append((start, end))


class CountingSource(FakeSource):
    """Remembers which topics' ids it was asked for."""

    def __init__(self, broker: FakeBroker, asked: list[str]) -> None:
        super().__init__(broker, most=10)
        self._asked = asked

    def topic_id(self, topic: str) -> str | None:
        self._asked.append(topic)
        return super().topic_id(topic)


@pytest.fixture
def seeker(tmp_path: Path) -> Seeker:
    return Seeker(tmp_path)


def test_an_entry_says_where_to_begin(seeker: Seeker) -> None:
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)


def test_an_open_intent_says_where_to_seal(seeker: Seeker) -> None:
    seeker.commits.server.put(KEY, b"5", Intent(5, 9, "f", "other", 0.0, "root"), ID)
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, 9, ID)
    assert seeker.tried == ["f"]


@pytest.mark.parametrize(
    ("epoch", "cut", "stops"),
    [(0, 4, True), (0, 5, False), (1, 4, False), (None, 4, False), (7, 4, False)],
    ids=["cut below", "cut at it", "same leader", "old entry", "unknown to the leader"],
)
def test_a_log_that_was_cut_below_the_committed_offset_stops(
    seeker: Seeker, epoch: int | None, cut: int, stops: bool
) -> None:
    seeker.commits.server.put(KEY, b"5", None, ID, epoch)
    seeker.log.truncate(cut)
    seeker.log.produce(20)
    where = seeker.find()
    if not stops:
        assert where == StartPosition(seeker.plan, 5, 5, None, ID)
        return
    assert isinstance(where, LogDiverged)
    assert f"offsets set CONFIG {KEY.topic} {KEY.partition} 4 --new-generation'" in str(where)
    assert f"offsets set CONFIG {KEY.topic} {KEY.partition} 5'" in str(where)


@pytest.mark.parametrize("kind", ["zookeeper", "kafka"])
@pytest.mark.parametrize(("reset", "offset"), [(Reset.EARLIEST, 3), (Reset.LATEST, 20)])
def test_the_first_entry_is_written_before_anything_is_read(
    tmp_path: Path, kind: Kind, reset: Reset, offset: int
) -> None:
    seeker = Seeker(tmp_path, kind)
    seeker.commits.server.drop(KEY)
    assert seeker.find(reset=reset) == StartPosition(seeker.plan, offset, offset, None, ID)
    assert seeker.commits.entry == Entry(offset, None, ID)
    assert not any(right.busy for right in seeker.commits.server.rights.values())


def test_without_an_entry_and_a_reset_it_stops(seeker: Seeker) -> None:
    seeker.commits.server.drop(KEY)
    assert isinstance(seeker.find(reset=Reset.NONE), NoStartingOffset)
    assert seeker.commits.entry.committed is None


def test_objects_without_an_entry_mean_a_lost_ledger(seeker: Seeker) -> None:
    seeker.commits.place(seeker.commits.batch([0, 1]))
    seeker.commits.server.drop(KEY)
    error = seeker.find()
    assert isinstance(error, LedgerLost)
    assert FIRST in str(error)
    assert "secor offsets recover" in str(error)


def test_objects_of_one_that_began_it_while_this_process_slept_mean_nothing_lost(
    seeker: Seeker,
) -> None:
    """It had read that there is no entry, and then did not run for seconds."""
    entry = seeker.commits.ledger.read(KEY)
    seeker.commits.server.drop(KEY)

    def another_begins(topic_partition: TopicPartition, topic_id: str | None, at: float) -> None:
        lease = seeker.commits.ledger.lease(KEY, 1.0)
        lease.commit(Entry(None), entry.committed or 0, ID)
        lease.release()
        raise LedgerLost("objects of the other one")

    position = seeker.find(refuse_lost=another_begins)
    assert isinstance(position, StartPosition)
    assert position.committed == (entry.committed or 0)


def test_objects_of_a_deleted_topic_without_an_entry_mean_that_it_was_made_again(
    seeker: Seeker,
) -> None:
    """With a ledger in Kafka a deleted topic takes the group's offsets along."""
    (file,) = seeker.commits.batch([0, 1]).files
    info = replace(file.info, topic_id="another")
    seeker.commits.store.put(FIRST, file.local.path, file.local.crc32c, info.metadata())
    seeker.commits.server.drop(KEY)
    error = seeker.find()
    assert isinstance(error, TopicRecreated)
    assert "raise output.generation" in str(error)
    seeker.plan = replace(seeker.plan, generation=seeker.plan.generation + 1)
    assert isinstance(seeker.find(), StartPosition)


def test_objects_of_other_partitions_do_not_matter(seeker: Seeker) -> None:
    (file,) = seeker.commits.batch([0, 1]).files
    for name in ("1_1_00000000000000000000.plain", "2_0_00000000000000000000.plain", "x"):
        seeker.commits.store.put(
            f"root/clicks/offset=0/{name}", file.local.path, file.local.crc32c, {}
        )
    seeker.commits.server.drop(KEY)
    assert isinstance(seeker.find(), StartPosition)


NAME = "1_0_00000000000000000000.plain"
STREAMS = {
    QUARANTINE: OutputStream("root/_quarantine/clicks", PlainFormat()),
    "topic=views": OutputStream("root/views/from=clicks", PlainFormat()),
}


JAVA = "root/clicks/offset=0/1_{}_{:020d}"


def leave(seeker: Seeker, key: str, metadata: dict[str, str]) -> None:
    (file,) = seeker.commits.batch([0, 1]).files
    seeker.commits.store.put(key, file.local.path, file.local.crc32c, metadata)


def test_what_java_secor_uploaded_and_never_committed_stops_its_successor(seeker: Seeker) -> None:
    seeker.commits.server.put(KEY, b"5")
    leave(seeker, JAVA.format(KEY.partition, 0), {})
    leave(seeker, JAVA.format(KEY.partition + 1, 5), {})
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)
    leave(seeker, JAVA.format(KEY.partition, 5), {})
    error = seeker.find()
    assert isinstance(error, ObjectConflict)
    assert "secor verify" in str(error)
    seeker.commits.server.put(KEY, b"5", None, ID)
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)
    seeker.commits.server.put(KEY, b"5")
    seeker.plan = replace(seeker.plan, generation=seeker.plan.generation + 1)
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)


def test_without_an_entry_a_connectors_offsets_are_to_be_taken_over(seeker: Seeker) -> None:
    leave(seeker, f"root/clicks/dt=1/clicks+{KEY.partition}+0000000004.json", {})
    seeker.commits.server.drop(KEY)
    error = seeker.find()
    assert isinstance(error, LedgerLost)
    assert "secor offsets import" in str(error)


def test_what_a_connector_uploaded_and_never_committed_stops_its_successor(seeker: Seeker) -> None:
    seeker.commits.server.put(KEY, b"5")
    leave(seeker, f"root/clicks/dt=1/clicks+{KEY.partition}+0000000004.json", {})
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)
    leave(seeker, f"root/clicks/dt=1/clicks+{KEY.partition}+0000000005.json", {})
    assert isinstance(seeker.find(), ObjectConflict)


def test_objects_of_our_own_beyond_a_moved_offset_are_no_leftovers(seeker: Seeker) -> None:
    (file,) = seeker.commits.batch([5, 6]).files
    seeker.commits.server.put(KEY, b"5")
    leave(seeker, JAVA.format(KEY.partition, 5), file.info.metadata())
    assert seeker.find() == StartPosition(seeker.plan, 5, 5, None, ID)


@pytest.mark.parametrize(
    "key", [f"root/_quarantine/clicks/{NAME}", f"root/views/from=clicks/dt=2026-11-21/{NAME}"]
)
def test_objects_in_any_output_stream_mean_a_lost_ledger(seeker: Seeker, key: str) -> None:
    (file,) = seeker.commits.batch([0, 1]).files
    seeker.commits.store.put(key, file.local.path, file.local.crc32c, file.info.metadata())
    seeker.commits.server.drop(KEY)
    seeker.plan = replace(seeker.plan, streams=STREAMS)
    error = seeker.find()
    assert isinstance(error, LedgerLost)
    assert key in str(error)


def test_what_another_topics_route_brought_here_does_not_matter(seeker: Seeker) -> None:
    (file,) = seeker.commits.batch([0, 1]).files
    info = replace(file.info, topic_partition=TopicPartition("views", KEY.partition))
    key = f"root/clicks/from=views/dt=2026-11-21/{NAME}"
    seeker.commits.store.put(key, file.local.path, file.local.crc32c, info.metadata())
    seeker.commits.server.drop(KEY)
    assert isinstance(seeker.find(), StartPosition)


def test_partitions_that_came_together_ask_for_their_topic_once(seeker: Seeker) -> None:
    seeker.commits.server.drop(KEY)
    seeker.broker.create(KEY.topic, 50)
    asked: list[str] = []
    positioning = seeker.make(source=CountingSource(seeker.broker, asked))
    came = seeker.commits.clock.monotonic()
    seeker.commits.clock.advance(0.1)
    for key in seeker.broker.logs:
        assert isinstance(positioning.find(key, came, lambda: True), StartPosition)
    assert seeker.commits.calls.count("list") == 1
    assert asked == [KEY.topic]


def test_a_topic_made_again_while_partitions_of_it_wait_is_noticed(seeker: Seeker) -> None:
    positioning = seeker.make()
    assert isinstance(positioning.find(KEY, SINCE, lambda: True), StartPosition)
    seeker.broker.topic_ids[KEY.topic] = "another"
    seeker.commits.clock.advance(5)
    assert isinstance(positioning.find(KEY, SINCE, lambda: True), TopicRecreated)


def test_a_partition_that_comes_later_asks_again(seeker: Seeker) -> None:
    positioning = seeker.make()
    assert isinstance(positioning.find(KEY, SINCE, lambda: True), StartPosition)
    seeker.commits.server.drop(KEY)
    seeker.commits.clock.advance(0.5)
    assert isinstance(positioning.find(KEY, SINCE, lambda: True), StartPosition)
    (file,) = seeker.commits.batch([0, 1]).files
    leave(seeker, file.key, file.info.metadata())
    seeker.commits.server.drop(KEY)
    seeker.broker.topic_ids[KEY.topic] = "another"
    came = seeker.commits.clock.monotonic()
    seeker.commits.clock.advance(0.1)
    # Neither the listing nor the topic's id is as it was remembered.
    error = positioning.find(KEY, came, lambda: True)
    assert isinstance(error, TopicRecreated)
    assert file.key in str(error)
    seeker.commits.server.put(KEY, b"5", topic_id=ID)
    assert isinstance(positioning.find(KEY, came, lambda: True), TopicRecreated)


def test_retention_that_passed_committed_is_told_once(seeker: Seeker) -> None:
    seeker.log.retain(8)
    positioning = seeker.make()
    for _ in range(2):
        result = positioning.find(KEY, SINCE, lambda: True)
        assert result == StartPosition(seeker.plan, 5, 8, None, ID)
    seeker.log.retain(10)
    positioning.find(KEY, SINCE, lambda: True)
    assert seeker.lost == [(5, 8), (8, 10)]


def test_retention_that_passed_committed_stops_where_that_is_asked(seeker: Seeker) -> None:
    seeker.log.retain(8)
    assert isinstance(seeker.find(on_data_loss=OnDataLoss.STOP), DataLost)
    assert seeker.lost == []


def test_a_topic_made_again_stops(seeker: Seeker) -> None:
    seeker.broker.topic_ids[KEY.topic] = "another"
    error = seeker.find()
    assert isinstance(error, TopicRecreated)
    assert "secor offsets accept" in str(error)


def test_a_log_that_ends_below_committed_stops(seeker: Seeker) -> None:
    seeker.log.truncate(4)
    assert isinstance(seeker.find(), TopicRecreated)


def test_an_unknown_topic_id_on_either_side_is_no_other_topic(seeker: Seeker) -> None:
    seeker.commits.server.put(KEY, b"5")
    assert isinstance(seeker.find(), StartPosition)
    del seeker.broker.topic_ids[KEY.topic]
    seeker.commits.server.put(KEY, b"5", topic_id=ID)
    assert isinstance(seeker.find(), StartPosition)


@pytest.mark.parametrize("committed", [b"4", b"6"])
def test_an_entry_that_was_edited_under_an_open_intent_stops(
    seeker: Seeker, committed: bytes
) -> None:
    seeker.commits.server.put(KEY, committed, Intent(5, 9, "f", "other", 0.0, "root"), ID)
    assert isinstance(seeker.find(), LedgerEdited)


def test_a_first_entry_whose_answer_is_lost_is_read_back(seeker: Seeker) -> None:
    seeker.commits.server.drop(KEY)
    seeker.commits.fail("after", "commit", OutcomeUnknown("lost"))
    assert seeker.find() == StartPosition(seeker.plan, 3, 3, None, ID)
    assert seeker.commits.calls.count("commit") == 1


@pytest.mark.parametrize("error", [Unavailable("gone"), AccessDenied("no")])
def test_what_does_not_answer_is_asked_again_and_then_later(
    seeker: Seeker, error: Exception
) -> None:
    seeker.commits.fail("before", "read", *[error] * ATTEMPTS)
    assert seeker.find() is error
    assert seeker.commits.calls.count("read") == ATTEMPTS
    assert isinstance(seeker.find(), StartPosition)


def test_a_partition_that_is_not_wanted_is_not_looked_for_again(seeker: Seeker) -> None:
    seeker.commits.fail("before", "read", Unavailable("gone"))
    result = seeker.make().find(KEY, SINCE, lambda: False)
    assert isinstance(result, Unavailable)
    assert seeker.commits.calls.count("read") == 1


def test_what_shows_that_there_was_an_entry_refuses_the_first_one(seeker: Seeker) -> None:
    asked: list[tuple[TopicPartition, str | None, float]] = []

    def refuse(topic_partition: TopicPartition, topic_id: str | None, since: float) -> None:
        asked.append((topic_partition, topic_id, since))
        raise LedgerLost("a table has it")

    assert isinstance(seeker.find(refuse_lost=refuse), StartPosition)  # there is an entry
    assert asked == []
    seeker.commits.server.drop(KEY)
    assert isinstance(seeker.find(refuse_lost=refuse), LedgerLost)
    assert asked == [(KEY, ID, SINCE)]
    assert seeker.commits.ledger.read(KEY).committed is None


@pytest.mark.parametrize("stale", [LogRange(0, 4), LogRange(6, 20)])
def test_a_range_that_is_older_than_the_entry_stops_nothing(
    seeker: Seeker, stale: LogRange
) -> None:
    source = seeker.broker.source()
    source.shared_ranges[KEY] = stale
    position = seeker.find(source=source)
    assert isinstance(position, StartPosition)
    assert (position.committed, position.read_from) == (5, 5)
    assert seeker.lost == []


def test_a_range_that_was_asked_for_along_with_others_serves(seeker: Seeker) -> None:
    source = seeker.broker.source()
    source.shared_ranges[KEY] = LogRange(4, 10)
    seeker.commits.server.drop(KEY)
    position = seeker.find(source=source)
    assert isinstance(position, StartPosition)
    assert position.committed == 4
