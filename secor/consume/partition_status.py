"""The status of a topic partition, for metrics, logs and the status page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from secor.batch.batch import Batch
from secor.consume.backpressure import Load
from secor.consume.partition import Partition
from secor.consume.partition_states import PartitionStates, Reading, Uploading
from secor.core.errors import SecorError
from secor.core.model import OffsetRange, TopicPartition, Withheld


def is_at_rest(partition: Partition) -> bool:
    """Return whether it is read, and nothing came since its last commit.

    Then nothing of it can be due, and it holds nothing.  The loop asks this of every topic
    partition in every round: with a thousand of them, anything more shows.
    """
    states, batch = partition.states, partition.batch
    return (
        states.reading is Reading.READING
        and states.uploading is Uploading.IDLE
        and batch is not None
        and batch.next_offset == batch.start
        # One that follows an open intent is due when it is complete, also without a message.
        and batch.end is None
        and partition.waiting is None
    )


def waits_for_time(states: PartitionStates) -> bool:
    """Return whether a round may begin something, now or later, because its time has come."""
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


def held_by(partitions: Iterable[Partition], sealed: int) -> tuple[int, int]:
    """Return what all open batches hold in memory, and with ``sealed`` bytes on disk."""
    memory, local = 0, sealed
    for partition in partitions:
        if partition.batch is not None:
            in_memory, size = partition.batch.held
            memory += in_memory + partition.waiting_size
            local += size + partition.waiting_size
    return memory, local


class ReadingState(StrEnum):
    """States of reading, in the words that people see."""

    WAITING = "waiting"
    POSITIONING = "positioning"
    READING = "reading"
    STOPPED = "stopped"
    RETIRED = "retired"


STATES = {
    Reading.WAITING: ReadingState.WAITING,
    Reading.LOCATING: ReadingState.POSITIONING,
    Reading.READING: ReadingState.READING,
    Reading.PAUSED: ReadingState.READING,
    Reading.STOPPED: ReadingState.STOPPED,
    Reading.LEAVING: ReadingState.RETIRED,
    Reading.RETIRED: ReadingState.RETIRED,
}
"""A paused partition is reported as reading; ``Status.pause`` says why it is paused."""


class Pause(StrEnum):
    """Reasons why no messages are read for a while, in words."""

    UPLOAD = "the open batch is due, and the one before it is not uploaded yet"
    LIMITS = "limits.memory or limits.local_bytes is reached"
    THROTTLE = "kafka.max_messages_per_second or kafka.max_bytes_per_second is reached"


@dataclass(frozen=True, slots=True)
class Status:
    """The report of a topic partition; offsets are None while they are unknown.

    Timestamps of messages in milliseconds; ``oldest_batch``, ``committed_at``,
    ``batch_opened`` and ``again_at`` (when a stopped or waiting partition is tried again) in
    monotonic seconds.  ``batch_…`` describe the open batch.  ``sealed`` is the first of
    ``sealed_batches`` that wait for upload, ``in_work`` whether a thread uploads it.
    ``stopped_at`` is since when it goes no further (monotonic seconds).  One that begins again
    is reported with what was known of it before, until its position is found.  ``known_end`` is
    the last stable offset, ``withheld`` what waits behind that for the end of a transaction.
    """

    topic_partition: TopicPartition
    state: ReadingState
    error: SecorError | None
    committed: int | None
    next_offset: int | None
    known_end: int | None
    intent_end: int | None
    last_timestamp: int | None
    oldest_batch: float | None
    committed_at: float | None
    buffered: int
    local: int
    batch_opened: float | None = None
    batch_messages: int = 0
    batch_size: int = 0
    batch_files: int = 0
    sealed: OffsetRange | None = None
    sealed_batches: int = 0
    in_work: bool = False
    pause: Pause | None = None
    again_at: float | None = None
    stopped_at: float | None = None
    withheld: Withheld | None = None


class Statuses:
    """Makes statuses, and gives that of a partition at rest again while nothing has changed."""

    def __init__(self) -> None:
        self._at_rest: dict[TopicPartition, tuple[Batch, Status]] = {}

    def of_all(
        self,
        partitions: Iterable[Partition],
        known_end: Callable[[TopicPartition], int | None],
        withheld: Callable[[TopicPartition], Withheld | None],
        *,
        throttled: bool,
    ) -> list[Status]:
        """Return what is reported of each, with the ends of its log; see ``MessageSource``."""
        statuses = []
        at_rest: dict[TopicPartition, tuple[Batch, Status]] = {}
        for partition in partitions:
            key, batch = partition.topic_partition, partition.batch
            end, waiting = known_end(key), withheld(key)
            if batch is None or not is_at_rest(partition):
                statuses.append(status_of(partition, end, waiting, throttled=throttled))
                continue
            # At rest with the same batch it has been at rest all the time since.
            of_batch, status = self._at_rest.get(key, (None, None))
            same = status is not None and status.known_end == end and status.withheld == waiting
            if status is None or of_batch is not batch or not same:
                status = status_of(partition, end, waiting, throttled=throttled)
            at_rest[key] = batch, status
            statuses.append(status)
        self._at_rest = at_rest
        return statuses


def status_of(
    partition: Partition,
    known_end: int | None,
    withheld: Withheld | None = None,
    *,
    throttled: bool = False,
) -> Status:
    """Return what is reported; ``known_end`` and ``withheld`` are the ends of its log.

    ``throttled`` says that the process pauses all reading to keep its rate.
    """
    batch, states = partition.batch, partition.states
    sealed = partition.sealed[0] if partition.sealed else None
    first = sealed if sealed is not None else batch
    return Status(
        topic_partition=partition.topic_partition,
        state=STATES[states.reading],
        error=partition.error,
        committed=partition.committed,
        next_offset=batch.next_offset if batch is not None else None,
        known_end=known_end,
        intent_end=batch.end if batch is not None else None,
        last_timestamp=partition.last_timestamp,
        oldest_batch=first.opened if first is not None else None,
        committed_at=partition.committed_at,
        buffered=partition.waiting_size + (batch.buffered if batch is not None else 0),
        local=(batch.size if batch is not None else 0) + sum(b.size for b in partition.sealed),
        batch_opened=batch.opened if batch is not None else None,
        batch_messages=batch.messages if batch is not None else 0,
        batch_size=batch.size if batch is not None else 0,
        batch_files=batch.files if batch is not None else 0,
        sealed=sealed.range if sealed is not None else None,
        sealed_batches=len(partition.sealed),
        in_work=states.is_uploading,
        pause=_pause(partition, throttled=throttled),
        again_at=states.wake_at if states.reading in (Reading.WAITING, Reading.STOPPED) else None,
        stopped_at=partition.stopped_at,
        withheld=withheld,
    )


def _pause(partition: Partition, *, throttled: bool) -> Pause | None:
    batch = partition.batch
    if partition.states.reading is not Reading.PAUSED or batch is None:
        return None
    if partition.sealed and batch.due() is not None:
        return Pause.UPLOAD
    return Pause.THROTTLE if throttled else Pause.LIMITS
