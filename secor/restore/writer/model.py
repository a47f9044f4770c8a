"""Inputs and results of a writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from secor.core.model import TopicPartition
from secor.core.transactions import ProduceAnswer


class WriterState(Enum):
    """States of a writer: what it may do next."""

    UNINITIALISED = "uninitialised"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FENCED = "fenced"
    DEAD = "dead"


class WriterEvent(Enum):
    """Events of a writer."""

    INITIALISED = "initialised"
    BEGUN = "begun"
    COMMIT_SENT = "commit sent"
    ABORT_SENT = "abort sent"
    ENDED = "ended"
    FENCED = "fenced"
    FAILED = "failed"


TRANSITIONS = MappingProxyType(
    {
        (WriterState.UNINITIALISED, WriterEvent.INITIALISED): WriterState.READY,
        (WriterState.UNINITIALISED, WriterEvent.FENCED): WriterState.FENCED,
        (WriterState.UNINITIALISED, WriterEvent.FAILED): WriterState.DEAD,
        (WriterState.READY, WriterEvent.BEGUN): WriterState.IN_TRANSACTION,
        (WriterState.IN_TRANSACTION, WriterEvent.COMMIT_SENT): WriterState.COMMITTING,
        (WriterState.IN_TRANSACTION, WriterEvent.ABORT_SENT): WriterState.ABORTING,
        (WriterState.IN_TRANSACTION, WriterEvent.FENCED): WriterState.FENCED,
        (WriterState.IN_TRANSACTION, WriterEvent.FAILED): WriterState.DEAD,
        (WriterState.COMMITTING, WriterEvent.ENDED): WriterState.READY,
        # Only where the broker itself asks for it in its answer to the commit.
        (WriterState.COMMITTING, WriterEvent.ABORT_SENT): WriterState.ABORTING,
        (WriterState.COMMITTING, WriterEvent.FENCED): WriterState.FENCED,
        (WriterState.COMMITTING, WriterEvent.FAILED): WriterState.DEAD,
        (WriterState.ABORTING, WriterEvent.ENDED): WriterState.READY,
        (WriterState.ABORTING, WriterEvent.FENCED): WriterState.FENCED,
        (WriterState.ABORTING, WriterEvent.FAILED): WriterState.DEAD,
    }
)
"""No way leads back from ``FENCED`` and ``DEAD``: a new writer is made, and initialised."""


class NotAllowed(Exception):
    """A call that the writer's state does not allow: a defect of the caller."""


def transition(state: WriterState, event: WriterEvent) -> WriterState:
    """Return the state after ``event``.  Raises ``NotAllowed``."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise NotAllowed(f"a writer that is {state.value} cannot be {event.value}")
    return following


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """Times in seconds; ``batch_bytes`` before compression, which is also a request's size.

    ``transactional`` is False where batches are visible at once and a commit changes nothing.
    """

    transaction_timeout: float = 60.0
    request_timeout: float = 10.0
    initialise_timeout: float = 120.0
    batch_bytes: int = 1_000_000
    batch_records: int = 20_000
    codec: str = "none"
    transactional: bool = True


@dataclass(frozen=True, slots=True)
class BatchPlacement:
    """The place of one batch of a transaction on the target, record after record.

    ``first`` and ``last`` are the source offsets of its first and last record.
    """

    topic_partition: TopicPartition
    base_offset: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch without a known answer yet; ``first`` and ``last`` as those of a placement."""

    topic_partition: TopicPartition
    batch: bytes
    records: int
    first: int
    last: int
    answer: Callable[[], ProduceAnswer] | None
