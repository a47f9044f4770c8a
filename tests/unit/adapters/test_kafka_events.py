from __future__ import annotations

from collections.abc import Iterator

import pytest

from secor.adapters.kafka.events import EventQueue
from secor.core.errors import AccessDenied, Unavailable
from secor.core.model import Chunk, TopicPartition
from secor.core.ports import Assigned, Fetched, ReadFailure, Revoked

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def nothing() -> Iterator[Chunk]:
    return iter(())


def fetched(tp: TopicPartition, size: int = 10) -> Fetched:
    return Fetched(tp, size, nothing)


class Room:
    def __init__(self) -> None:
        self.told = 0

    def __call__(self) -> None:
        self.told += 1


def started(queue: EventQueue, tp: TopicPartition) -> int:
    epoch = queue.begin(tp)
    assert epoch is not None
    return epoch


def test_a_start_drops_what_an_earlier_start_brought() -> None:
    queue = EventQueue(100, Room())
    first = started(queue, A)
    queue.deliver(fetched(A), first)
    second = started(queue, A)
    late, fresh = fetched(A, 1), fetched(A, 2)
    queue.deliver(late, first)
    queue.deliver(fresh, second)
    assert queue.poll(0) == [fresh]
    assert not queue.poll(0)


def test_a_start_leaves_other_partitions_alone() -> None:
    queue = EventQueue(100, Room())
    a, b = started(queue, A), started(queue, B)
    kept = fetched(B)
    queue.deliver(fetched(A), a)
    queue.deliver(kept, b)
    started(queue, A)
    assert queue.poll(0) == [kept]


def test_no_partition_is_in_two_events_of_one_poll() -> None:
    queue = EventQueue(100, Room())
    a, b = started(queue, A), started(queue, B)
    events = [fetched(A, 1), fetched(B, 2), fetched(A, 3), fetched(B, 4)]
    for event in events:
        queue.deliver(event, a if event.topic_partition == A else b)
    assert [queue.poll(0), queue.poll(0)] == [events[:2], events[2:]]


def test_a_revocation_drops_messages_and_is_kept_itself() -> None:
    queue = EventQueue(100, Room())
    epoch = started(queue, A)
    queue.deliver(fetched(A), epoch)
    queue.rebalanced(Revoked(frozenset({A})))
    queue.deliver(fetched(A), epoch)
    queue.rebalanced(Assigned(frozenset({A})))
    assert queue.poll(0) == [Revoked(frozenset({A}))]
    assert queue.poll(0) == [Assigned(frozenset({A}))]
    assert not queue.poll(0)


def test_a_start_that_has_not_seen_the_newest_assignment_is_ignored() -> None:
    queue = EventQueue(100, Room())
    queue.rebalanced(Assigned(frozenset({A})))
    assert queue.begin(A) is None
    queue.poll(0)
    assert queue.begin(A) is not None


def test_room_is_told_once_the_queue_is_no_longer_full() -> None:
    room = Room()
    queue = EventQueue(20, room)
    epoch = started(queue, A)
    full = []
    for _ in range(2):
        queue.deliver(fetched(A, 15), epoch)
        full.append(queue.full)
    queue.poll(0)
    assert [*full, queue.full] == [False, True, False]
    assert room.told == 1
    queue.poll(0)
    assert room.told == 1


def test_dropped_messages_take_no_room() -> None:
    queue = EventQueue(20, Room())
    queue.deliver(fetched(A, 50), started(queue, A))
    full = [queue.full]
    started(queue, A)
    assert [*full, queue.full] == [True, False]


def test_a_failure_comes_behind_what_was_good() -> None:
    queue = EventQueue(100, Room())
    epoch = started(queue, A)
    good, failed = fetched(A), ReadFailure(A, Unavailable("no"))
    queue.deliver(good, epoch)
    queue.deliver(failed, epoch)
    assert [queue.poll(0), queue.poll(0)] == [[good], [failed]]


def test_every_poll_raises_once_the_source_has_ended() -> None:
    queue = EventQueue(100, Room())
    queue.fail(AccessDenied("first"))
    queue.fail(Unavailable("second"))
    for _ in range(2):
        with pytest.raises(AccessDenied, match="first"):
            queue.poll(0)
