"""The queue of events from the IO thread to the loop: in order, bounded by bytes."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.core.ports import Assigned, Event, Fetched, ReadFailure, Revoked


@dataclass(frozen=True, slots=True)
class _Queued:
    event: Event
    partitions: frozenset[TopicPartition]
    size: int = 0


class EventQueue:
    """Events of a source, with an epoch for every topic partition.

    A start, an assignment and a revocation each begin a new epoch: what belongs to an older
    one is dropped, whether queued or about to be.  ``room`` is called, on the loop's thread,
    when the queue is no longer full.
    """

    def __init__(self, most_bytes: int, room: Callable[[], None]) -> None:
        self._most_bytes = most_bytes
        self._room = room
        self._changed = threading.Condition()
        self._events: deque[_Queued] = deque()
        self._bytes = 0
        self._epochs: Counter[TopicPartition] = Counter()
        self._unseen: Counter[TopicPartition] = Counter()
        self._error: BaseException | None = None

    @property
    def full(self) -> bool:
        """Return whether no more messages should be fetched."""
        return self._bytes >= self._most_bytes

    def epoch(self, topic_partition: TopicPartition) -> int:
        """Return the epoch that is current."""
        return self._epochs[topic_partition]

    def rebalanced(self, event: Assigned | Revoked) -> None:
        """Queue a change of the assignment; what was fetched before it is dropped."""
        with self._changed:
            for topic_partition in event.partitions:
                self._epochs[topic_partition] += 1
                self._unseen[topic_partition] += 1
            self._drop(event.partitions)
            self._append(_Queued(event, event.partitions))

    def begin(self, topic_partition: TopicPartition) -> int | None:
        """Begin a new epoch; None while a change of the assignment waits to be seen."""
        with self._changed:
            # The loop has not seen the last change yet: it would begin what is another's now, or at
            # a position of before.
            if self._unseen[topic_partition]:
                return None
            self._epochs[topic_partition] += 1
            self._drop({topic_partition})
            return self._epochs[topic_partition]

    def deliver(self, event: Fetched | ReadFailure, epoch: int) -> None:
        """Queue messages, or the end of them, unless their epoch is over."""
        with self._changed:
            # Under the lock, together with the append: a start in between would let messages of the
            # old position in behind it.
            if self._epochs[event.topic_partition] == epoch:
                size = event.size if isinstance(event, Fetched) else 0
                self._bytes += size
                self._append(_Queued(event, frozenset({event.topic_partition}), size))

    def fail(self, error: BaseException) -> None:
        """Let every ``poll`` from now on raise ``error``."""
        with self._changed:
            # The first one is the cause; what fails afterwards is its result.
            self._error = self._error or error
            self._changed.notify_all()

    def poll(self, timeout: float) -> list[Event]:
        """Return the next events; no topic partition is in more than one of them.

        So a restart of a partition drops at most one event of the earlier start.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._error, timeout)
            if self._error is not None:
                raise self._error
            was_full = self.full
            taken = self._take()
        # Outside of the lock: it wakes the IO thread, which may be about to take it.
        if was_full and not self.full:
            self._notify_room()
        return taken

    def _notify_room(self) -> None:
        try:
            self._room()
        except Unavailable as error:
            self.fail(error)

    def _take(self) -> list[Event]:
        taken: list[Event] = []
        seen: set[TopicPartition] = set()
        while self._events and seen.isdisjoint(self._events[0].partitions):
            queued = self._events.popleft()
            seen |= queued.partitions
            self._bytes -= queued.size
            taken.append(queued.event)
            if isinstance(queued.event, Assigned | Revoked):
                self._unseen.subtract(queued.partitions)
        return taken

    def _append(self, queued: _Queued) -> None:
        self._events.append(queued)
        self._changed.notify_all()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what was queued of them, but not what the group said."""
        dropped = set(partitions)
        kept: deque[_Queued] = deque()
        for queued in self._events:
            stays = isinstance(queued.event, Assigned | Revoked)
            if stays or dropped.isdisjoint(queued.partitions):
                kept.append(queued)
            else:
                self._bytes -= queued.size
        self._events = kept
