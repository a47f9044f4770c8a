"""When a revoked topic partition may go to another member, whatever was read of it before."""

from __future__ import annotations

from itertools import product

from secor.consume.lifecycle import ActivePartitions
from secor.consume.partition import Partition
from secor.consume.partition_states import Event, Uploading, Waits
from secor.core.model import TopicPartition

KEY, OTHER = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
NOW = 0.0


def reading(assignment: ActivePartitions, key: TopicPartition = KEY) -> Partition:
    """Assign it and bring it to where messages are read."""
    assignment.begin(key, NOW)
    partition = assignment.get(key)
    assert partition is not None
    for event in (Event.WAKE, Event.LOCATED):
        partition.states.on(event, NOW)
    return partition


def retire(assignment: ActivePartitions, partition: Partition, *, upload: bool) -> None:
    partition.states.on(Event.LEAVE_KEEPING, NOW)
    if upload:
        partition.states.on(Event.SEALED, NOW)
    assignment.retire(partition)


def test_it_is_released_when_every_reading_of_it_has_ended_and_not_before() -> None:
    """A topic partition may have been begun again, and assigned again, several times."""
    for uploads in product((False, True), repeat=3):
        assignment = ActivePartitions(Waits())
        in_work = []
        for upload in uploads:
            partition = reading(assignment)
            retire(assignment, partition, upload=upload)
            in_work += [partition] if upload else []
        assert assignment.forget_ended() == []
        assignment.revoke(KEY)
        released = assignment.forget_ended()
        for partition in in_work:
            assert released == []
            partition.states.on(Event.COMMITTED, NOW)
            released = assignment.forget_ended()
        assert released == [KEY]
        assert assignment.forget_ended() == []
        assert assignment.retired == ()


def test_the_work_of_another_partition_does_not_delay_a_release() -> None:
    assignment = ActivePartitions(Waits())
    retire(assignment, reading(assignment), upload=False)
    retire(assignment, reading(assignment, OTHER), upload=True)
    assignment.revoke(KEY)
    assignment.revoke(OTHER)
    assert assignment.forget_ended() == [KEY]


def test_a_new_reading_waits_for_the_one_before_only_until_that_has_ended() -> None:
    assignment = ActivePartitions(Waits())
    before = reading(assignment)
    retire(assignment, before, upload=True)
    assignment.begin(KEY, NOW)
    assignment.begin(OTHER, NOW)
    again, other = assignment
    assert assignment.must_wait(again)
    assert not assignment.must_wait(other)
    assert before.states.uploading is Uploading.UPLOADING
    before.states.on(Event.COMMITTED, NOW)
    assert not assignment.must_wait(again)
