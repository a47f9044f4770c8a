"""Announcements between coordinator and workers.

They only make a cycle quicker.  An announcement that is lost, repeated, reordered or forged
changes *when* something is committed, never *what*: ledger, manifests and tables decide that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from secor.core.model import TopicPartition

WAITING = 10_000
"""Events that may wait for a reader; older ones give way."""


class EventKind(StrEnum):
    """Kinds of events, with the names that the sinks for Kafka Connect use."""

    START_COMMIT = "START_COMMIT"
    DATA_WRITTEN = "DATA_WRITTEN"
    DATA_COMPLETE = "DATA_COMPLETE"
    COMMIT_TO_TABLE = "COMMIT_TO_TABLE"
    COMMIT_COMPLETE = "COMMIT_COMPLETE"


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """One topic partition in ``DATA_COMPLETE``: all below ``next_offset`` is staged.

    ``timestamp`` is the greatest of its messages in milliseconds, None without any.
    """

    topic_partition: TopicPartition
    next_offset: int
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """One announcement; ``commit`` is the cycle's id, ``epoch`` the coordinator's.

    ``manifest`` (``DATA_WRITTEN``) is a key, never content.  ``table``, ``snapshot`` and
    ``valid_through`` (milliseconds) say what was committed.
    """

    kind: EventKind
    group: str
    commit: str
    epoch: int
    sender: str
    answers: tuple[PartitionAnswer, ...] = ()
    manifest: str | None = None
    table: str | None = None
    snapshot: int | None = None
    valid_through: int | None = None


class ControlChannel(Protocol):
    """The channel of events.  Neither call waits or raises for a server."""

    def send(self, event: ControlEvent) -> None:
        """Announce it, if that is possible."""

    def receive(self) -> Sequence[ControlEvent]:
        """Return the events of this group that came since the last call, our own included."""

    def close(self) -> None:
        """End the connection."""


class NoChannel:
    """``control = "none"``: nothing is announced; what is staged is found by listing."""

    def send(self, event: ControlEvent) -> None:
        """Drop it."""

    def receive(self) -> Sequence[ControlEvent]:
        """Return nothing."""
        return ()

    def close(self) -> None:
        """Nothing is open."""


class SharedChannel:
    """One channel for several readers of a process: each ``end`` receives every event."""

    def __init__(self, channel: ControlChannel) -> None:
        self._channel = channel
        self._queues: list[deque[ControlEvent]] = []
        self._lock = threading.Lock()

    def end(self) -> ControlChannel:
        """Return one more end; closing it closes nothing."""
        queue: deque[ControlEvent] = deque(maxlen=WAITING)
        self._queues.append(queue)
        return _End(self._channel.send, lambda: self._receive(queue))

    def close(self) -> None:
        """End the channel's connection."""
        self._channel.close()

    def _receive(self, queue: deque[ControlEvent]) -> list[ControlEvent]:
        with self._lock:
            for event in self._channel.receive():
                # The end that asks first fetches for all: each end has its own queue, bounded, and
                # misses nothing.
                for each in self._queues:
                    each.append(event)
            arrived = list(queue)
            queue.clear()
        return arrived


@dataclass(frozen=True, slots=True)
class _End:
    send: Callable[[ControlEvent], None]
    receive: Callable[[], Sequence[ControlEvent]]

    def close(self) -> None:
        """Leave the channel open for the other ends."""
