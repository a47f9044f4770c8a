"""Errors that a person has to end, such as a full disk: told once, counted, and told when over."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from secor.consume.partition_status import State, Status
from secor.core.errors import AccessDenied, ConfigurationError, LocalFilesExhausted, SecorError
from secor.core.model import TopicPartition
from secor.core.ports import Clock

QUIET = 30.0
"""Seconds without the error after which a partition that reads on is taken for mended."""

STALE = 60.0
"""Seconds without any commit after which an open trouble means that nothing is persisted."""

_REASONS: tuple[tuple[type[SecorError], str], ...] = (
    (
        LocalFilesExhausted,
        "local files cannot be written: disk full, rights, or too many open files",
    ),
    (AccessDenied, "access is denied: credentials or rights"),
    (ConfigurationError, "the configuration cannot be used"),
)
"""What ``/readyz`` says: no names and no addresses, for it needs no password."""


@dataclass
class _Open:
    """One kind of error while it lasts; times are monotonic seconds."""

    reason: str
    since: float
    count: int = 0
    last: dict[TopicPartition, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """A kind of error (``kind`` is its class) is over: after how long, how often it came."""

    kind: type[SecorError]
    seconds: float
    count: int


class Troubles:
    """What is wrong now, by the class of the error.  All calls may come from any thread."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[type[SecorError], _Open] = {}
        self._committed_at = float("-inf")

    def happened(self, topic_partition: TopicPartition, error: SecorError) -> bool:
        """Count an error; tell whether a person has to act and has not been told yet."""
        reason = next((text for kind, text in _REASONS if isinstance(error, kind)), None)
        if reason is None:
            return False
        now = self._clock.monotonic()
        with self._lock:
            new = type(error) not in self._open
            trouble = self._open.setdefault(type(error), _Open(reason, now))
            trouble.count += 1
            trouble.last[topic_partition] = now
        return new

    @staticmethod
    def is_one(error: SecorError) -> bool:
        """Tell whether a person has to act."""
        return any(isinstance(error, kind) for kind, _ in _REASONS)

    def committed(self, topic_partition: TopicPartition) -> list[Ended]:
        """Take a commit as the proof that this partition is well; return what is over."""
        with self._lock:
            self._committed_at = self._clock.monotonic()
            for trouble in self._open.values():
                trouble.last.pop(topic_partition, None)
            return self._take_ended()

    def look(self, statuses: Sequence[Status]) -> list[Ended]:
        """Return what is over: of partitions that left, or read on without the error."""
        if not self._open:
            return []
        well_before = self._clock.monotonic() - QUIET
        waiting = {
            status.topic_partition: status.state is not State.READING or status.sealed is not None
            for status in statuses
        }
        with self._lock:
            for trouble in self._open.values():
                trouble.last = {
                    key: at
                    for key, at in trouble.last.items()
                    if key in waiting and (waiting[key] or at > well_before)
                }
            return self._take_ended()

    def reasons(self) -> list[str]:
        """Return why no messages can be persisted: what is open while nothing is committed."""
        stale = self._clock.monotonic() - STALE
        with self._lock:
            return sorted(
                {
                    trouble.reason
                    for trouble in self._open.values()
                    if self._committed_at < max(trouble.since, stale)
                }
            )

    def _take_ended(self) -> list[Ended]:
        now = self._clock.monotonic()
        ended = {kind: trouble for kind, trouble in self._open.items() if not trouble.last}
        for kind in ended:
            del self._open[kind]
        return [Ended(kind, now - it.since, it.count) for kind, it in ended.items()]
