"""The life of a transactional writer, as a table."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType


class State(Enum):
    """What a writer may do next."""

    UNINITIALISED = "uninitialised"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FENCED = "fenced"
    DEAD = "dead"


class Event(Enum):
    """What happens to a writer."""

    INITIALISED = "initialised"
    BEGUN = "begun"
    COMMIT_SENT = "commit sent"
    ABORT_SENT = "abort sent"
    ENDED = "ended"
    FENCED = "fenced"
    FAILED = "failed"


TRANSITIONS = MappingProxyType(
    {
        (State.UNINITIALISED, Event.INITIALISED): State.READY,
        (State.UNINITIALISED, Event.FENCED): State.FENCED,
        (State.UNINITIALISED, Event.FAILED): State.DEAD,
        (State.READY, Event.BEGUN): State.IN_TRANSACTION,
        (State.IN_TRANSACTION, Event.COMMIT_SENT): State.COMMITTING,
        (State.IN_TRANSACTION, Event.ABORT_SENT): State.ABORTING,
        (State.IN_TRANSACTION, Event.FENCED): State.FENCED,
        (State.IN_TRANSACTION, Event.FAILED): State.DEAD,
        (State.COMMITTING, Event.ENDED): State.READY,
        (State.COMMITTING, Event.ABORT_SENT): State.ABORTING,
        (State.COMMITTING, Event.FENCED): State.FENCED,
        (State.COMMITTING, Event.FAILED): State.DEAD,
        (State.ABORTING, Event.ENDED): State.READY,
        (State.ABORTING, Event.FENCED): State.FENCED,
        (State.ABORTING, Event.FAILED): State.DEAD,
    }
)
"""No way leads back from ``FENCED`` and ``DEAD``: a new writer is made, and initialised."""


class NotAllowed(Exception):
    """A call that the writer's state does not allow: a defect of the caller."""


def transition(state: State, event: Event) -> State:
    """Return the state after ``event``.  Raises ``NotAllowed``."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise NotAllowed(f"a writer that is {state.value} cannot be {event.value}")
    return following
