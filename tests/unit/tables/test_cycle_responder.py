from dataclasses import dataclass, field

import pytest

from secor.core.model import OffsetRange, TopicPartition
from secor.tables.control import ControlEvent, EventKind, PartitionAnswer
from secor.tables.cycle_responder import CycleResponder
from tests.unit.tables.world import CLICKS, GROUP, OTHER, PREFIX, Channel


@dataclass
class Work:
    """One topic partition in the loop below."""

    topic_partition: TopicPartition
    committed: int | None = 0
    next_offset: int | None = 0
    sealed: OffsetRange | None = None
    last_timestamp: int | None = None
    known_end: int | None = 0


@dataclass
class FakeLoop:
    """A loop whose uploads take as many rounds as ``slow`` says."""

    work: list[Work]
    slow: int = 1
    sealed: list[TopicPartition] = field(default_factory=list)
    rounds: int = 0
    drained: bool = False

    def run_once(self, timeout: float) -> None:
        self.rounds += 1
        for work in self.work:
            if work.sealed is not None and self.rounds % self.slow == 0:
                work.committed, work.sealed = work.sealed.end, None

    def drain(self) -> None:
        self.drained = True

    def status(self) -> list[Work]:
        return self.work

    def seal(self, topic_partition: TopicPartition) -> None:
        work = next(it for it in self.work if it.topic_partition == topic_partition)
        if work.sealed is None and work.committed is not None and work.next_offset is not None:
            self.sealed.append(topic_partition)
            work.sealed = OffsetRange(work.committed, work.next_offset)


def asked(
    commit: str = "c1", epoch: int = 1, kind: EventKind = EventKind.START_COMMIT
) -> ControlEvent:
    return ControlEvent(kind, GROUP, commit, epoch, "coordinator")


def answering(loop: FakeLoop, channel: Channel) -> CycleResponder:
    return CycleResponder(loop, channel, group=GROUP, sender="w1", prefix=PREFIX)


def answered(channel: Channel) -> list[PartitionAnswer]:
    complete = [event for event in channel.sent if event.kind is EventKind.DATA_COMPLETE]
    return [answer for event in complete for answer in event.answers]


def test_it_uploads_what_is_open_and_says_so() -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9, last_timestamp=77), Work(OTHER, 5, 5)], slow=2)
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(OTHER, 5)]
    assert loop.sealed == [CLICKS]
    for _ in range(3):
        worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(OTHER, 5), PartitionAnswer(CLICKS, 9, 77)]
    (written,) = [event for event in channel.sent if event.kind is EventKind.DATA_WRITTEN]
    assert written.manifest == f"{PREFIX}/_staged/clicks/0/{3:020d}-{9:020d}.json"
    assert {(event.commit, event.epoch, event.sender) for event in channel.sent} == {
        ("c1", 1, "w1")
    }


def test_what_is_read_afterwards_is_not_waited_for() -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    loop.work[0].next_offset = 20
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 9)]
    assert loop.sealed == [CLICKS]


def test_a_batch_that_is_being_uploaded_already_is_followed_by_the_rest() -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9, OffsetRange(3, 6))], slow=3)
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    for _ in range(8):
        worker.run_once(0.1)
    assert loop.sealed == [CLICKS]
    assert answered(channel) == [PartitionAnswer(CLICKS, 9)]
    assert len([event for event in channel.sent if event.kind is EventKind.DATA_WRITTEN]) == 2


def test_a_partition_without_a_position_does_not_answer_before_it_has_one() -> None:
    loop = FakeLoop([Work(CLICKS, None, None)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    assert answered(channel) == []
    loop.work[0].committed = loop.work[0].next_offset = 4
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 4)]


@pytest.mark.parametrize("kind", [kind for kind in EventKind if kind is not EventKind.START_COMMIT])
def test_other_events_ask_for_nothing(kind: EventKind) -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9)])
    channel = Channel(incoming=[asked(kind=kind)])
    answering(loop, channel).run_once(0.1)
    assert loop.sealed == []
    assert channel.sent == []


def test_a_newer_request_replaces_an_older_one_and_a_stale_one_does_not() -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9)], slow=100)
    channel = Channel(incoming=[asked("c2", epoch=5), asked("c1", epoch=4)])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    channel.incoming = [asked("c3", epoch=5)]
    loop.slow = 1
    worker.run_once(0.1)
    assert {event.commit for event in channel.sent} == {"c3"}


def test_every_event_is_passed_on_to_who_shows_them() -> None:
    heard: list[ControlEvent] = []
    loop, channel = FakeLoop([Work(CLICKS)]), Channel()
    worker = CycleResponder(
        loop, channel, group=GROUP, sender="w1", prefix=PREFIX, heard=heard.append
    )
    channel.incoming = [asked(), asked(kind=EventKind.COMMIT_COMPLETE)]
    worker.run_once(0.1)
    assert [event.kind for event in heard] == [EventKind.START_COMMIT, EventKind.COMMIT_COMPLETE]


def test_draining_is_the_loops() -> None:
    loop = FakeLoop([])
    worker = answering(loop, Channel())
    before = worker.drained
    worker.drain()
    assert (before, worker.drained) == (False, True)
    assert worker.status() == []


def test_the_first_messages_of_a_partition_that_was_just_assigned_are_waited_for() -> None:
    loop = FakeLoop([Work(CLICKS, 4, 4, known_end=None)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    loop.work[0].known_end = 9  # the broker has answered, and nothing is read yet
    worker.run_once(0.1)
    assert answered(channel) == []
    loop.work[0].next_offset = 9
    for _ in range(3):
        worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 9)]


def test_a_partition_at_the_end_of_its_log_is_not_waited_for() -> None:
    loop = FakeLoop([Work(CLICKS, 4, 4, known_end=4)])
    channel = Channel(incoming=[asked()])
    answering(loop, channel).run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 4)]


def test_only_one_cycle_waits_for_first_messages_that_do_not_come() -> None:
    loop = FakeLoop([Work(CLICKS, 4, 4, known_end=9)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    channel.incoming = [asked("c2", epoch=2)]
    worker.run_once(0.1)
    assert [event.commit for event in channel.sent] == ["c2"]
    loop.work[0].next_offset = loop.work[0].committed = 9
    loop.work.clear()  # it is lost, and comes back
    channel.incoming = [asked("c3", epoch=3)]
    worker.run_once(0.1)
    loop.work.append(Work(CLICKS, 9, 9, known_end=12))
    channel.incoming = [asked("c4", epoch=4)]
    worker.run_once(0.1)
    assert [event.commit for event in channel.sent] == ["c2"]


def test_a_request_that_is_repeated_is_answered_again_as_it_was() -> None:
    loop = FakeLoop([Work(CLICKS, 3, 9)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    for _ in range(2):
        worker.run_once(0.1)
    loop.work[0].next_offset = 20
    channel.incoming = [asked()]
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 9), PartitionAnswer(CLICKS, 9)]
    assert loop.sealed == [CLICKS]  # what was read since is not waited for


def test_a_partition_that_comes_in_mid_cycle_is_answered_for() -> None:
    loop = FakeLoop([Work(CLICKS, 9, 9)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    loop.work.append(Work(OTHER, 5, 5))
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 9), PartitionAnswer(OTHER, 5)]


def test_after_a_commit_is_complete_nothing_is_answered() -> None:
    loop = FakeLoop([Work(CLICKS, 9, 9)])
    channel = Channel(incoming=[asked()])
    worker = answering(loop, channel)
    worker.run_once(0.1)
    channel.incoming = [asked("older", kind=EventKind.COMMIT_COMPLETE)]
    worker.run_once(0.1)
    channel.incoming = [asked(kind=EventKind.COMMIT_COMPLETE)]
    worker.run_once(0.1)
    loop.work.append(Work(OTHER, 5, 7))
    worker.run_once(0.1)
    assert answered(channel) == [PartitionAnswer(CLICKS, 9)]
    assert loop.sealed == []
