"""A finder of stalled topic partitions: their logs grow, but no message arrives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from secor.core.model import TopicPartition

INTERVAL = 1.0
"""Seconds between two looks."""

_LONGEST = 32
"""Most times that ``patience`` grows to at one offset."""


@dataclass(slots=True)
class _Wait:
    """The time without anything of a partition at ``offset``, and the limit of it.

    ``empty_end``: a broker has answered that there is nothing up to this end of the log.
    """

    offset: int
    patience: float
    seconds: float = 0.0
    empty_end: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """Nothing came from ``offset`` on for ``seconds``, though the log goes on to ``end``."""

    topic_partition: TopicPartition
    offset: int
    end: int
    seconds: float


class StallDetector:
    """Counts the seconds without progress of each partition that should be fetched.

    Where a look finds a partition stalled, ``patience`` (seconds) doubles for its offset: a
    log that lost its last messages to compaction looks the same, for ever.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._waits: dict[TopicPartition, _Wait] = {}
        self._looked_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether it is time for a look; ``now`` in monotonic seconds."""
        return self._looked_at is None or now - self._looked_at >= INTERVAL

    def look(
        self, now: float, reading: Mapping[TopicPartition, tuple[int, int]], *, has_room: bool
    ) -> list[Stall]:
        """Return what has stalled.

        ``reading`` holds the offset and the log's end of all that should be fetched.  Time in
        which there was no room for messages does not count, nor that of a frozen process.
        """
        # At most two intervals: a process that was stopped for a minute has not waited for the
        # broker.
        elapsed = 0.0 if self._looked_at is None else min(now - self._looked_at, 2 * INTERVAL)
        self._looked_at = now
        before, self._waits = self._waits, {}
        stalls: list[Stall] = []
        for key, (offset, end) in reading.items():
            if end <= offset:
                continue
            wait = before.get(key)
            if wait is None or wait.offset != offset:
                self._waits[key] = _Wait(offset, self._patience)
                continue
            self._waits[key] = wait
            wait.seconds += elapsed if has_room and wait.empty_end != end else 0.0
            if wait.seconds >= wait.patience:
                stalls.append(Stall(key, wait.offset, end, wait.seconds))
                wait.seconds = 0.0
                wait.patience = min(2 * wait.patience, _LONGEST * self._patience)
        return stalls

    def answered_empty(self, topic_partition: TopicPartition, offset: int, end: int) -> None:
        """Take that a broker was asked from ``offset`` on, and has nothing up to ``end``."""
        wait = self._waits.get(topic_partition)
        if wait is not None and wait.offset == offset:
            wait.empty_end = end
