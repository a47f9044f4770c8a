"""One member of the group: its client's own thread, its queue, and what the loop asks of it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from secor.adapters.kafka.log_ranges import LIFETIME
from secor.core.errors import RestartPartition
from secor.core.model import Chunk, LogRange, TopicPartition, Withheld
from secor.core.ports import Assigned, Event, Fetched, ReadFailure, Revoked
from tests.fakes.ledger import FakeLedger
from tests.fakes.source import epoch_end
from tests.simulation.group import Group, Member
from tests.simulation.log import Broker
from tests.simulation.scheduler import Hub

Point = Callable[[str, str, str], None]
"""Called as (port, call, phase) around what crosses the network; may raise."""


class SimulatedSource:
    """A ``MessageSource``.

    ``release_wait`` is how long a revocation waits for ``release``, in seconds; ``most``
    the offsets of one fetch.  In a Kafka ledger's world it holds the pins of ``ledger``.
    """

    def __init__(
        self,
        hub: Hub,
        broker: Broker,
        group: Group,
        ledger: FakeLedger,
        point: Point,
        *,
        name: str,
        release_wait: float = 0.0,
        most: Callable[[], int] = lambda: 3,
    ) -> None:
        self._hub = hub
        self._broker = broker
        self._group = group
        self._ledger = ledger
        self._point = point
        self._name = name
        self._release_wait = release_wait
        self._most = most
        self.member: Member | None = None
        self.assigned: set[TopicPartition] = set()
        self._releasing: set[TopicPartition] = set()
        self._events: deque[Assigned | Revoked] = deque()
        self._unseen: Counter[TopicPartition] = Counter()
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._ahead: set[TopicPartition] = set()
        self._ranges: dict[TopicPartition, tuple[float, LogRange]] = {}
        self.closing = False

    # -------------------------------------------------------- the loop's side

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what the group said, else what the logs have."""
        self._point("source", "poll", "before")
        if not self._events and not self._readable():
            self._hub.wait(lambda: bool(self._events or self._readable()), timeout)
        events: list[Event] = []
        seen: set[TopicPartition] = set()
        while self._events and seen.isdisjoint(self._events[0].partitions):
            event = self._events.popleft()
            seen |= event.partitions
            self._unseen.subtract(event.partitions)
            events.append(event)
        events += [self._fetch(key) for key in self._readable() if key not in seen]
        return events

    def _readable(self) -> list[TopicPartition]:
        """Partitions with something to tell; one fetch more may come after a pause."""
        return [
            key
            for key, position in self._positions.items()
            if (key not in self._paused or key in self._ahead)
            and not self._unseen[key]
            and (position != self._broker.logs[key].end)
        ]

    def _fetch(self, key: TopicPartition) -> Event:
        log, position = self._broker.logs[key], self._positions[key]
        self._ahead.discard(key)
        if not log.start <= position <= log.end:
            del self._positions[key]
            return ReadFailure(key, RestartPartition(f"{key}: offset {position} is out of range"))
        if position in log.poisoned:
            del self._positions[key]
            return Fetched(key, 1, partial(self._read_damaged, key, position))
        chunk = log.read(position, self._most())
        self._positions[key] = chunk.next_offset
        return Fetched(key, 100, lambda: iter([chunk]))

    def _read_damaged(self, key: TopicPartition, position: int) -> Iterator[Chunk]:
        """Fail as the fetched bytes do, though the log may have been mended since."""
        yield from ()
        raise self._broker.logs[key].damage(position)

    def start(self, topic_partition: TopicPartition, offset: int) -> None:
        """Deliver from ``offset`` on."""
        if topic_partition in self.assigned and not self._unseen[topic_partition]:
            self._positions[topic_partition] = offset
            self._paused.discard(topic_partition)
            self._ahead.discard(topic_partition)

    def pause(self, topic_partition: TopicPartition) -> None:
        """Stop, after what may be queued already."""
        if topic_partition not in self._paused:
            self._paused.add(topic_partition)
            self._ahead.add(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Go on."""
        self._paused.discard(topic_partition)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these is in work any more."""
        self._releasing.difference_update(partitions)

    def known_end(self, topic_partition: TopicPartition) -> int | None:
        """The log's end."""
        return self._broker.logs[topic_partition].end

    def withheld(self, topic_partition: TopicPartition) -> Withheld | None:
        """Return nothing: logs end at their last stable offsets here."""

    def log_range(self, topic_partition: TopicPartition, since: float | None = None) -> LogRange:
        """Ask for it and, with ``since``, for what else is assigned and not positioned yet."""
        asked_at, known = self._ranges.pop(topic_partition, (0.0, None))
        if known is not None and since is not None and since < asked_at > self._hub.now - LIFETIME:
            return known
        self._point("source", "log_range", "before")
        logs, now = self._broker.logs, self._hub.now
        if since is not None:
            others = self.assigned - self._positions.keys() - {topic_partition}
            self._ranges |= {other: (now, logs[other].range) for other in others if other in logs}
        offsets = logs[topic_partition].range
        self._point("source", "log_range", "after")
        return offsets

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Ask."""
        self._point("source", "epoch_end", "before")
        log = self._broker.logs[topic_partition]
        end = epoch_end(log.epochs, leader_epoch, log.end)
        self._point("source", "epoch_end", "after")
        return end

    def topic_id(self, topic: str) -> str | None:
        """Ask."""
        self._point("source", "topic_id", "before")
        topic_id = self._broker.topic_ids.get(topic)
        self._point("source", "topic_id", "after")
        return topic_id

    def close(self) -> None:
        """Leave the group."""
        self.closing = True
        if self.member is not None:
            self._give_up(frozenset(self.assigned))
            self._group.leave(self.member)
            self.member = None

    # --------------------------------------------------- the client's own thread

    def stay_member(self) -> None:
        """Join, and join again, for as long as the process lives."""
        while not self.closing:
            self._join()
            self._hub.wait(self._called)

    def _called(self) -> bool:
        member = self.member
        return (
            self.closing
            or member is None
            or member.expelled
            or (self._group.joining and not member.joined)
        )

    def _join(self) -> None:
        member, generation = self.member, -1
        if member is None or member.expelled:
            self._give_up(frozenset(self.assigned))
            self._hub.give_way()
            if self.closing:
                return
            member = self.member = self._group.join(self._name, self._fence)
        else:
            if not self._group.cooperative:
                self._revoke(frozenset(self.assigned))
            self._hub.give_way()
            if self.closing or member.expelled:
                return
            generation = member.generation
            self._group.rejoin(member, frozenset(self.assigned))
        self._hub.wait(lambda: self.closing or member.expelled or member.generation != generation)
        self._hub.give_way()
        if not self.closing and not member.expelled:
            self._synchronised(member)

    def _fence(self) -> None:
        if self._ledger.server.kind == "kafka":
            self._ledger.server.expire(self._ledger, told=False)

    def _synchronised(self, member: Member) -> None:
        added = member.assignment - self.assigned
        moved = frozenset(self.assigned) - member.assignment
        if added:
            self._assign(added)
        if moved:
            self._revoke(moved)
            if not (self.closing or member.expelled):
                self._group.rebalance()

    def _assign(self, partitions: frozenset[TopicPartition]) -> None:
        self.assigned |= partitions
        if self._ledger.server.kind == "kafka":
            self._ledger.server.assign(partitions, self._ledger)
        self._changed(Assigned(partitions))

    def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        if not partitions:
            return
        if self._release_wait:
            self._releasing |= partitions
            self._stop_reading(partitions)
            self._changed(Revoked(partitions))
            self._hub.wait(
                lambda: (
                    not self._releasing & partitions
                    or self.closing
                    or self.member is None
                    or self.member.expelled
                ),
                self._release_wait,
            )
            self._releasing -= partitions
            self._unpin(partitions & self.assigned)
        else:
            self._give_up(partitions)

    def _give_up(self, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            self._unpin(partitions)
            self._stop_reading(partitions)
            self._changed(Revoked(partitions))

    def _unpin(self, partitions: frozenset[TopicPartition]) -> None:
        self.assigned -= partitions
        if self._ledger.server.kind == "kafka":
            self._ledger.server.revoke(partitions, self._ledger)

    def _stop_reading(self, partitions: frozenset[TopicPartition]) -> None:
        for key in partitions:
            self._positions.pop(key, None)

    def _changed(self, event: Assigned | Revoked) -> None:
        self._unseen.update(event.partitions)
        self._events.append(event)
