"""The broker's logs: gaps, transactions, compaction, retention, truncation, bad batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from secor.core.errors import CorruptBatch
from secor.core.model import Chunk, LogRange, TopicPartition
from tests.fakes.format import chunk_of
from tests.fakes.source import cut_epochs, epoch_below

Message = Callable[[TopicPartition, int], bytes]
"""The value of a log's first, second, … message: no two are the same."""


def plain_message(topic_partition: TopicPartition, number: int) -> bytes:
    """Name the message."""
    return f"{topic_partition}#{number}".encode()


@dataclass
class Log:
    """One topic partition.

    ``records`` is what a reader of committed messages gets now; ``ever`` all values that an
    offset has shown; ``end`` the last stable offset; ``open`` what an unfinished transaction
    holds back.
    """

    topic_partition: TopicPartition
    records: dict[int, bytes] = field(default_factory=dict)
    ever: dict[int, set[bytes]] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)
    open: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    highest: int = 0
    produced: int = 0
    message: Message = plain_message
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def append(self, messages: int) -> None:
        """Committed messages, at once."""
        for _ in range(messages):
            self._show(self._value())

    def begin(self, messages: int) -> None:
        """Messages of a transaction that is not decided: nobody sees them, or what follows."""
        self.open += [self._value() for _ in range(messages)]

    def decide(self, *, commit: bool) -> None:
        """End the open transaction with its marker."""
        for value in self.open:
            if commit:
                self._show(value)
            else:
                self.end += 1
        self.open.clear()
        self.end += 1

    def _value(self) -> bytes:
        self.produced += 1
        return self.message(self.topic_partition, self.produced)

    def _show(self, value: bytes) -> None:
        self.records[self.end] = value
        self.ever.setdefault(self.end, set()).add(value)
        self.end += 1

    def compact(self, rng: random.Random, below: int | None = None) -> None:
        """Remove some records; neither start nor end moves."""
        for offset in sorted(self.records):
            if offset < (self.end - 1 if below is None else below) and rng.random() < 0.4:
                del self.records[offset]

    def drop(self, offset: int) -> None:
        """Compact one record away, if it is there."""
        self.records.pop(offset, None)

    def retain(self, start: int) -> None:
        """Delete what is before ``start``."""
        self.start = max(self.start, min(start, self.end))
        self.records = {o: value for o, value in self.records.items() if o >= self.start}

    def truncate(self, end: int) -> None:
        """Lose the tail, as an unclean election of a leader does."""
        self.highest = max(self.highest, self.end)
        self.end = max(self.start, min(end, self.end))
        self.records = {o: value for o, value in self.records.items() if o < self.end}
        self.epochs = cut_epochs(self.epochs, self.end)

    @property
    def was_truncated(self) -> bool:
        """It once went further."""
        return self.highest > self.end

    @property
    def range(self) -> LogRange:
        """What a reader is told."""
        return LogRange(self.start, self.end, self.epochs[-1][1])

    def read(self, position: int, most: int) -> Chunk:
        """Return what stands in the next ``most`` offsets.  Raises ``CorruptBatch``."""
        limit = min(self.end, position + most)
        if position in self.poisoned:
            raise self.damage(position)
        limit = min([limit, *(offset for offset in self.poisoned if offset >= position)])
        offsets = [offset for offset in range(position, limit) if offset in self.records]
        values: list[bytes | None] = [self.records[offset] for offset in offsets]
        records, epoch = chunk_of(offsets, values), epoch_below(self.epochs, limit)
        return Chunk(self.topic_partition, records, limit, leader_epoch=epoch)

    def damage(self, position: int) -> CorruptBatch:
        """Return what a reader says of a damaged record batch."""
        return CorruptBatch(f"{self.topic_partition}: bad CRC at offset {position}")


@dataclass
class Broker:
    """All logs of the world, and the ids of their topics."""

    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    message: Message = plain_message

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic, or more partitions of it."""
        self.topic_ids.setdefault(topic, f"{topic}-1")
        for number in range(partitions):
            key = TopicPartition(topic, number)
            self.logs.setdefault(key, Log(key, message=self.message))

    def recreate(self, topic: str) -> None:
        """Delete a topic and make it again: same name, new id, empty logs."""
        self.topic_ids[topic] += "+"
        for key in self.logs:
            if key.topic == topic:
                produced = self.logs[key].produced
                self.logs[key] = Log(key, produced=produced, message=self.message)
