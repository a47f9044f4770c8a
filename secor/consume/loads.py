"""What topic partitions hold, and which of them need no look in a round of the loop."""

from __future__ import annotations

from secor.consume.backpressure import Load
from secor.consume.partition import Partition
from secor.consume.partition_states import PartitionStates, Reading, Uploading


def is_at_rest(partition: Partition) -> bool:
    """Tell whether it is read, and nothing came since its last commit.

    Then nothing of it can be due, and it holds nothing.  The loop asks this of every topic
    partition in every round: with a thousand of them, anything more shows.
    """
    states, batch = partition.states, partition.batch
    return (
        states.reading is Reading.READING
        and states.uploading is Uploading.IDLE
        and batch is not None
        and batch.next_offset == batch.start
        and batch.end is None
        and partition.waiting is None
    )


def waits_for_time(states: PartitionStates) -> bool:
    """Tell whether a round may begin something, now or later, because its time has come."""
    return (
        states.reading is Reading.WAITING
        or states.reading is Reading.STOPPED
        or states.uploading is Uploading.QUEUED
        or states.uploading is Uploading.BACKING_OFF
    )


def load_of(partition: Partition) -> Load | None:
    """Return what it holds for the open batch, and whether pressure may seal that."""
    if (batch := partition.batch) is None:
        return None
    may_seal = partition.states.may_seal and batch.end is None and not batch.empty
    memory, size = batch.buffered + partition.waiting_size, batch.size + partition.waiting_size
    return Load(partition.topic_partition, memory, size, may_seal)
