"""A message source in memory: logs with gaps, and a group that the test moves by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from secor.core.errors import CorruptBatch, RestartPartition
from secor.core.model import Chunk, LogRange, TopicPartition, Withheld, next_offset
from secor.core.ports import Assigned, Event, Fetched, ReadFailure, Revoked
from tests.fakes.format import chunk_of


def value_of(topic_partition: TopicPartition, offset: int, seed: str = "") -> bytes:
    """Return what stands at an offset: the same in every run."""
    return f"{topic_partition}@{offset}{seed}".encode()


def cut_epochs(epochs: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the epochs of a log that lost what is at and after ``end``, under a new leader."""
    kept = [(start, epoch) for start, epoch in epochs if start < end]
    return [*kept, (end, epochs[-1][1] + 1)]


def epoch_below(epochs: list[tuple[int, int]], offset: int) -> int:
    """Return the epoch of the batch before ``offset``."""
    return max(epoch for start, epoch in epochs if start < offset or start == 0)


def epoch_end(epochs: list[tuple[int, int]], leader_epoch: int, end: int) -> int | None:
    """Answer as a broker does: where the first later epoch begins, else where the log ends."""
    if leader_epoch > epochs[-1][1]:
        return None
    return next((start for start, epoch in epochs if epoch > leader_epoch), end)


@dataclass
class FakeLog:
    """One topic partition: the offsets that are there, in ``[start, end)``.

    ``end`` is the last stable offset; whatever is missing below it was compacted, deleted
    or a transaction marker.  ``poisoned`` offsets begin a batch that cannot be decoded.
    ``said`` are values that are not ``value_of``.
    """

    topic_partition: TopicPartition
    start: int = 0
    end: int = 0
    offsets: list[int] = field(default_factory=list)
    poisoned: set[int] = field(default_factory=set)
    seed: str = ""
    said: dict[int, bytes] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Leader epochs by the offset from which on the log has them."""

    def produce(self, messages: int) -> None:
        """Append messages."""
        self.offsets += range(self.end, self.end + messages)
        self.end += messages

    def say(self, *values: bytes) -> None:
        """Append messages of these values."""
        self.said |= dict(enumerate(values, self.end))
        self.produce(len(values))

    def mark(self) -> None:
        """Append a transaction marker: an offset without a message."""
        self.end = next_offset(self.end)

    def compact(self, offsets: Iterable[int]) -> None:
        """Remove messages; the range stays."""
        gone = set(offsets)
        self.offsets = [offset for offset in self.offsets if offset not in gone]

    def retain(self, start: int) -> None:
        """Remove what is before ``start``."""
        self.start = start
        self.offsets = [offset for offset in self.offsets if offset >= start]

    def truncate(self, end: int) -> None:
        """Lose what is at and after ``end``."""
        self.end = end
        self.offsets = [offset for offset in self.offsets if offset < end]
        self.epochs = cut_epochs(self.epochs, end)

    def read(self, position: int, most: int) -> Chunk:
        """Return the next ``most`` offsets.  Raises ``CorruptBatch``."""
        if position in self.poisoned:
            raise CorruptBatch(f"{self.topic_partition}: bad CRC at offset {position}")
        ahead = [offset for offset in self.poisoned if offset > position]
        limit = min([position + most, self.end, *ahead])
        offsets = [offset for offset in self.offsets if position <= offset < limit]
        values: list[bytes | None] = [
            self.said.get(offset, value_of(self.topic_partition, offset, self.seed))
            for offset in offsets
        ]
        records, epoch = chunk_of(offsets, values), epoch_below(self.epochs, limit)
        return Chunk(self.topic_partition, records, limit, leader_epoch=epoch)


@dataclass
class FakeBroker:
    """Logs and topic ids, shared by several sources."""

    logs: dict[TopicPartition, FakeLog] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)

    def create(self, topic: str, partitions: int = 1) -> list[TopicPartition]:
        """Make a topic, or make it again: empty, with a new id."""
        self.topic_ids[topic] = self.topic_ids.get(topic, f"id-of-{topic}") + "+"
        keys = [TopicPartition(topic, number) for number in range(partitions)]
        for key in keys:
            self.logs[key] = FakeLog(key, seed=self.topic_ids[topic])
        return keys

    def source(self, *, most: int = 10) -> FakeSource:
        """Return a member; ``most`` is the offsets of one fetch."""
        return FakeSource(self, most)


class FakeSource:
    """A ``MessageSource``; ``assign`` and ``revoke`` are what the group's coordinator says.

    As the port has it: nothing comes before a start, nothing of an earlier start after a
    later one, and a start is ignored while a change of the assignment has not been polled.
    """

    def __init__(self, broker: FakeBroker, most: int) -> None:
        self.broker = broker
        self.most = most
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.given_back: list[TopicPartition] = []
        self.positions: dict[TopicPartition, int] = {}
        self.closed = False
        self.shared_ranges: dict[TopicPartition, LogRange] = {}
        self.open: dict[TopicPartition, Withheld] = {}
        self._changes: deque[Assigned | Revoked] = deque()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Give these, in addition."""
        new = frozenset(partitions)
        assert new.isdisjoint(self.assigned)
        self.assigned |= new
        self._change(Assigned(new))

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Take these."""
        gone = frozenset(partitions)
        assert gone <= self.assigned
        self.assigned -= gone
        self._change(Revoked(gone))

    def _change(self, event: Assigned | Revoked) -> None:
        for key in event.partitions:
            self.positions.pop(key, None)
        self._changes.append(event)

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return one change of the assignment or a fetch of every partition; never waits."""
        if self._changes:
            return [self._changes.popleft()]
        return [event for key in sorted(self.positions) for event in self._fetch(key)]

    def _fetch(self, key: TopicPartition) -> Iterator[Event]:
        log, position = self.broker.logs[key], self.positions[key]
        if key in self.paused or position == log.end:
            return
        if not log.start <= position <= log.end:
            del self.positions[key]
            yield ReadFailure(key, RestartPartition(f"{key}: offset {position} is out of range"))
        elif position in log.poisoned:
            del self.positions[key]
            yield Fetched(key, 1, partial(_broken, log, position))
        else:
            chunk = log.read(position, self.most)
            self.positions[key] = chunk.next_offset
            yield Fetched(key, chunk.records.nbytes, partial(iter, [chunk]))

    def start(self, topic_partition: TopicPartition, offset: int) -> None:
        """Deliver from ``offset`` on."""
        changing = any(topic_partition in change.partitions for change in self._changes)
        if topic_partition in self.assigned and not changing:
            self.positions[topic_partition] = offset
            self.paused.discard(topic_partition)

    def pause(self, topic_partition: TopicPartition) -> None:
        """Stop."""
        self.paused.add(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Go on."""
        self.paused.discard(topic_partition)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Remember what was given back."""
        self.given_back += partitions

    def known_end(self, topic_partition: TopicPartition) -> int | None:
        """Return the log's end, whether it is read or not."""
        if topic_partition not in self.assigned:
            return None
        return self.broker.logs[topic_partition].end

    def withheld(self, topic_partition: TopicPartition) -> Withheld | None:
        """Return what the test says that waits behind an open transaction."""
        return self.open.get(topic_partition)

    def log_range(self, topic_partition: TopicPartition, since: float | None = None) -> LogRange:
        """Return the log's range; with ``since`` that of ``shared_ranges``, once."""
        if since is not None and topic_partition in self.shared_ranges:
            return self.shared_ranges.pop(topic_partition)
        log = self.broker.logs[topic_partition]
        return LogRange(log.start, log.end, log.epochs[-1][1])

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Return where an epoch ends."""
        log = self.broker.logs[topic_partition]
        return epoch_end(log.epochs, leader_epoch, log.end)

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id."""
        return self.broker.topic_ids.get(topic)

    def close(self) -> None:
        """Leave the group."""
        self.closed = True
        self.positions.clear()


def _broken(log: FakeLog, position: int) -> Iterator[Chunk]:
    yield log.read(position, 1)
