"""One assigned topic partition: where it stands, its open batch, what waits for upload."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from secor.batch.batch import Batch, SealedBatch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.consume.backpressure import Load
from secor.core.errors import SecorError
from secor.core.model import OffsetRange, TopicPartition


class State(StrEnum):
    """Life of an assigned topic partition; ``TRANSITIONS`` is the whole of it."""

    WAITING = "waiting"
    POSITIONING = "positioning"
    READING = "reading"
    STOPPED = "stopped"
    RETIRED = "retired"


TRANSITIONS = {
    State.WAITING: frozenset({State.POSITIONING, State.RETIRED}),
    State.POSITIONING: frozenset({State.READING, State.STOPPED, State.RETIRED}),
    State.READING: frozenset({State.STOPPED, State.RETIRED}),
    State.STOPPED: frozenset({State.RETIRED}),
    State.RETIRED: frozenset[State](),
}
"""A restart retires the object and makes another: nothing of the old reading can leak."""


class Pause(StrEnum):
    """Why no messages are read for a while, in words."""

    UPLOAD = "the open batch is due, and the one before it is not uploaded yet"
    LIMITS = "limits.memory or limits.local_bytes is reached"


@dataclass(frozen=True, slots=True)
class Status:
    """What is to be told of a topic partition; offsets None where not known yet.

    Timestamps of messages in milliseconds; ``oldest_batch``, ``committed_at``,
    ``batch_opened`` and ``again_at`` (when a stopped or waiting one is looked at again) in
    monotonic seconds.  ``batch_…`` is the open batch, ``sealed`` the first of
    ``sealed_batches`` that wait for their upload, ``in_work`` whether a thread is at it.
    """

    topic_partition: TopicPartition
    state: State
    error: SecorError | None
    committed: int | None
    next_offset: int | None
    known_end: int | None
    intent_end: int | None
    oldest_timestamp: int | None
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


class Partition:
    """State of one topic partition from its assignment, or restart, to its retirement."""

    def __init__(self, topic_partition: TopicPartition, not_before: float) -> None:
        """Wait until ``not_before`` (monotonic seconds), then look for the position."""
        self.topic_partition = topic_partition
        self.plan: TopicPlan | None = None
        self.not_before = not_before
        self.retry_at = 0.0
        self.state = State.WAITING
        self.error: SecorError | None = None
        self.batch: Batch | None = None
        self.queue: deque[SealedBatch] = deque()
        self.in_work = False
        self.wanted = True
        self.paused = False
        self.read_from = 0
        self.committed: int | None = None
        self.committed_at: float | None = None
        self.last_timestamp: int | None = None

    def become(self, state: State) -> None:
        """Go to ``state``; a way that the table does not have is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.topic_partition} does not go from {self.state} to {state}")
        self.state = state

    @property
    def reading(self) -> bool:
        """Messages may be appended."""
        return self.state is State.READING

    @property
    def may_seal(self) -> bool:
        """One sealed batch at a time: the next goes on filling until that one is done."""
        return self.reading and not self.queue

    @property
    def load(self) -> Load | None:
        """What the open batch holds, and whether pressure may seal it."""
        batch = self.batch
        if batch is None:
            return None
        may_seal = self.may_seal and batch.end is None and not batch.empty
        return Load(self.topic_partition, batch.buffered, batch.size, may_seal)

    def seal(self, reason: Reason) -> None:
        """Move the open batch into the queue.  Raises ``LocalFilesExhausted``."""
        assert self.batch is not None
        self.queue.append(self.batch.seal(reason))
        self.batch = None

    @property
    def upload_on_shutdown(self) -> bool:
        """The open batch is to be uploaded when the process ends."""
        return self.plan is not None and self.plan.upload_on_shutdown

    @property
    def upload_on_revoke(self) -> bool:
        """The open batch is to be uploaded when the topic partition goes."""
        return self.plan is not None and self.plan.upload_on_revoke

    def drop_batch(self) -> None:
        """Delete the open batch's local files."""
        if self.batch is not None:
            self.batch.drop()
            self.batch = None

    def drop_queue(self) -> None:
        """Delete the sealed batches that no thread works on."""
        keep = 1 if self.in_work else 0
        while len(self.queue) > keep:
            self.queue.pop().delete()

    @property
    def drained(self) -> bool:
        """Nothing of it is in work or waits."""
        return not self.queue and not self.in_work

    def _pause(self) -> Pause | None:
        if not (self.reading and self.paused and self.batch is not None):
            return None
        return Pause.UPLOAD if self.queue and self.batch.due() is not None else Pause.LIMITS

    def _again_at(self) -> float | None:
        if self.state is State.STOPPED:
            return self.retry_at
        return self.not_before if self.state is State.WAITING else None

    def status(self, known_end: int | None) -> Status:
        """Return what is to be told of it."""
        batch = self.batch
        waiting = self.queue[0] if self.queue else None
        first = waiting if waiting is not None else batch
        return Status(
            topic_partition=self.topic_partition,
            state=self.state,
            error=self.error,
            committed=self.committed,
            next_offset=batch.next_offset if batch is not None else None,
            known_end=known_end,
            intent_end=batch.end if batch is not None else None,
            oldest_timestamp=first.first_timestamp if first is not None else None,
            last_timestamp=self.last_timestamp,
            oldest_batch=first.opened if first is not None else None,
            committed_at=self.committed_at,
            buffered=batch.buffered if batch is not None else 0,
            local=(batch.size if batch is not None else 0) + sum(b.size for b in self.queue),
            batch_opened=batch.opened if batch is not None else None,
            batch_messages=batch.messages if batch is not None else 0,
            batch_size=batch.size if batch is not None else 0,
            batch_files=batch.files if batch is not None else 0,
            sealed=waiting.range if waiting is not None else None,
            sealed_batches=len(self.queue),
            in_work=waiting is not None and self.in_work,
            pause=self._pause(),
            again_at=self._again_at(),
        )
