"""Tracker of ongoing errors: log once when one starts and once when it ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from secor.consume.partition_status import ReadingState, Status
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    LocalFilesExhausted,
    OutcomeUnknown,
    SecorError,
    Unavailable,
)
from secor.core.model import TopicPartition
from secor.core.ports import Clock

QUIET = 30.0
"""Seconds without the error after which a partition that reads on counts as recovered."""

STALE = 60.0
"""Seconds without any commit after which an open trouble means that nothing is persisted."""

GRACE = 60.0
"""Seconds for which a server may not answer before that is more than a hiccup."""

REMIND = 300.0
"""Seconds between warnings about a server that does not answer."""

MOST_NAMED = 20
"""Topics that have their first error of an outage logged."""

_REASONS: tuple[tuple[type[SecorError], str], ...] = (
    (
        LocalFilesExhausted,
        "local files cannot be written: disk full, rights, or too many open files",
    ),
    (AccessDenied, "access is denied: credentials or rights"),
    (ConfigurationError, "the configuration cannot be used"),
    (Unavailable, "the object store, the ledger or another server does not answer"),
)
"""What ``/readyz`` says: no names and no addresses, for it needs no password."""


@dataclass
class _Open:
    """One kind of error while it lasts; times are monotonic seconds."""

    reason: str
    since: float
    passes: bool
    """Whether it may end without a person: a server that does not answer."""
    count: int = 0
    warned_at: float | None = None
    last: dict[TopicPartition, float] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class EndedTrouble:
    """A kind of error (``kind`` is its class) is over: after how long, how often it came."""

    kind: type[SecorError]
    seconds: float
    count: int


class Troubles:
    """The open errors, by class.  All calls may come from any thread."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[type[SecorError], _Open] = {}
        self._committed_at = float("-inf")

    def happened(self, topic_partition: TopicPartition, error: SecorError) -> str:
        """Count an error; return the level at which to log it.

        A warning is for errors that a person has to act upon, at the first one and again after a
        while.  Of errors that pass by themselves, the first of a topic is logged; all others are
        counted only: many partitions try several times a second.
        """
        # A lost answer is an outage like any other: as a kind of its own it would be logged twice.
        kind = Unavailable if isinstance(error, OutcomeUnknown) else type(error)
        reason = next((text for base, text in _REASONS if issubclass(kind, base)), None)
        if reason is None:
            return "info"
        now = self._clock.monotonic()
        with self._lock:
            passes = issubclass(kind, Unavailable)
            trouble = self._open.setdefault(kind, _Open(reason, now, passes))
            trouble.count += 1
            trouble.last[topic_partition] = now
            is_new = topic_partition.topic not in trouble.named
            if is_new and len(trouble.named) < MOST_NAMED:
                trouble.named.add(topic_partition.topic)
            else:
                is_new = False
            if self._is_due(trouble, now):
                trouble.warned_at = now
                return "warning"
            return "info" if is_new and passes else "debug"

    def _is_due(self, trouble: _Open, now: float) -> bool:
        """Return whether a warning is due, first or again."""
        if not trouble.passes:
            return trouble.warned_at is None
        waits = trouble.warned_at is None or now - trouble.warned_at >= REMIND
        return waits and self._prevents_work(trouble, now)

    def _prevents_work(self, trouble: _Open, now: float) -> bool:
        """Return whether nothing was committed since it is there, or for a while."""
        # A server that does not answer for less than a minute is a hiccup; a wrong password is
        # none.
        lasts = now - trouble.since >= GRACE or not trouble.passes
        return lasts and self._committed_at < max(trouble.since, now - STALE)

    def committed(self, topic_partition: TopicPartition) -> list[EndedTrouble]:
        """Take a commit as the proof that this partition is well; return what is over."""
        with self._lock:
            self._committed_at = self._clock.monotonic()
            for trouble in self._open.values():
                # Only this partition is proved to be well: the trouble ends when all that had it
                # are.
                trouble.last.pop(topic_partition, None)
            return self._take_ended()

    def look(self, statuses: Sequence[Status]) -> list[EndedTrouble]:
        """Return what is over: of partitions that left, or read on without the error."""
        # Without the lock: nearly every look finds nothing open.
        if not self._open:
            return []
        well_before = self._clock.monotonic() - QUIET
        waiting = {
            status.topic_partition: status.state is not ReadingState.READING
            or status.sealed is not None
            for status in statuses
        }
        with self._lock:
            for trouble in self._open.values():
                trouble.last = {
                    key: last_time
                    for key, last_time in trouble.last.items()
                    if key in waiting and (waiting[key] or last_time > well_before)
                }
            return self._take_ended()

    def reasons(self) -> list[str]:
        """Return why no messages can be persisted: what is open while nothing is committed."""
        now = self._clock.monotonic()
        with self._lock:
            return sorted(
                {
                    trouble.reason
                    for trouble in self._open.values()
                    if self._prevents_work(trouble, now)
                }
            )

    def _take_ended(self) -> list[EndedTrouble]:
        now = self._clock.monotonic()
        ended = {kind: trouble for kind, trouble in self._open.items() if not trouble.last}
        for kind in ended:
            del self._open[kind]
        return [
            EndedTrouble(kind, now - trouble.since, trouble.count)
            for kind, trouble in ended.items()
        ]
