"""The upload policy: whether size, age, count or minute mark say to seal a batch now; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

YOUNGEST_AT_MOST = 4
"""A batch with a youngest file that never comes of age is sealed at so many ``max_age``."""

HOUR = 3600.0


class Age(StrEnum):
    """Starting points of a batch's age."""

    OLDEST = "oldest"
    YOUNGEST = "youngest"


class Reason(StrEnum):
    """Reasons to seal a batch."""

    BYTES = "bytes"
    MESSAGES = "messages"
    AGE = "age"
    MINUTE_MARK = "minute_mark"
    FILES = "files"
    INTENT = "intent"
    PRESSURE = "pressure"
    SHUTDOWN = "shutdown"
    REVOKE = "revoke"
    RETIRED = "retired"
    SCHEMA = "schema"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of a batch: it is due at the first one; None switches a rule off.

    ``max_bytes`` counts local bytes, ``max_age`` seconds from the first message of the
    oldest (or of the youngest) file, ``minute_mark`` is a minute of each hour (UTC).
    ``max_files`` is kept within a chunk, by the batch itself: see ``Batch.append``.
    """

    max_bytes: int | None = None
    max_messages: int | None = None
    max_age: float | None = None
    age: Age = Age.OLDEST
    minute_mark: int | None = None
    max_files: int | None = None


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """A policy's view of an open batch.

    ``opened`` and ``youngest`` are monotonic seconds of its first progress and of its
    youngest file, ``opened_at`` the wall clock of its first progress.
    """

    size: int
    messages: int
    opened: float
    youngest: float
    opened_at: float


def due(policy: Policy, batch: BatchFacts, *, monotonic: float, now: float) -> Reason | None:
    """Return why the batch should be sealed now, or None."""
    if policy.max_bytes is not None and batch.size >= policy.max_bytes:
        return Reason.BYTES
    if policy.max_messages is not None and batch.messages >= policy.max_messages:
        return Reason.MESSAGES
    if policy.max_age is not None and _of_age(policy, batch, monotonic):
        return Reason.AGE
    if policy.minute_mark is not None and _passed_mark(policy.minute_mark, batch, monotonic, now):
        return Reason.MINUTE_MARK
    return None


def _of_age(policy: Policy, batch: BatchFacts, monotonic: float) -> bool:
    assert policy.max_age is not None
    oldest = monotonic - batch.opened
    if policy.age is Age.OLDEST:
        return oldest >= policy.max_age
    youngest = monotonic - batch.youngest
    return youngest >= policy.max_age or oldest >= YOUNGEST_AT_MOST * policy.max_age


def _passed_mark(minute: int, batch: BatchFacts, monotonic: float, now: float) -> bool:
    """Each mark counts once: the first one strictly after the batch was opened.

    An hour of monotonic time has passed a mark whatever the wall clock did.
    """
    # Compared with the time of opening, not with the last look: a loop that was busy over the mark
    # still sees it.
    return now >= next_mark(minute, batch.opened_at) or monotonic - batch.opened >= HOUR


def next_mark(minute: int, after: float) -> float:
    """Return the first wall clock time, strictly after ``after``, at ``minute`` of an hour."""
    mark = after - after % HOUR + 60.0 * minute
    return mark if mark > after else mark + HOUR
