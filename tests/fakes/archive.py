"""A log in memory, an archive made from it, and a ledger for operators' commands."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from crc32c import crc32c

from secor.adapters.local import DirectoryStore
from secor.core.errors import LeaseLost, LedgerCorrupt, Refused
from secor.core.model import (
    SCHEMA,
    Chunk,
    Entry,
    Intent,
    LogRange,
    OffsetRange,
    OpenTransaction,
    TopicPartition,
    next_offset,
)
from secor.core.naming import ObjectName, topic_root
from secor.core.object_info import ObjectInfo
from secor.core.ports import LogFormat

CLICKS = TopicPartition("clicks", 0)


def messages(
    offsets: Sequence[int], value: Callable[[int], bytes | None] | None = None
) -> pa.RecordBatch:
    make = value or (lambda offset: b"payload %d" % offset)
    return pa.RecordBatch.from_pydict(
        {
            "offset": list(offsets),
            "timestamp": [1_700_000_000_000 + offset for offset in offsets],
            "timestamp_type": [0] * len(offsets),
            "key": [b"k" if offset % 3 else None for offset in offsets],
            "value": [make(offset) for offset in offsets],
            "headers": [
                [{"key": "h", "value": b"%d" % offset}] if offset % 5 == 0 else []
                for offset in offsets
            ],
        },
        schema=SCHEMA,
    )


@dataclass
class MemoryLog:
    """Topic partitions in memory, read in chunks of ``step`` offsets."""

    records: dict[TopicPartition, pa.RecordBatch] = field(default_factory=dict)
    ranges: dict[TopicPartition, LogRange] = field(default_factory=dict)
    step: int = 7
    epoch_ends: dict[TopicPartition, int] = field(default_factory=dict)

    def put(self, topic_partition: TopicPartition, records: pa.RecordBatch, end: int) -> None:
        first = records.column("offset")[0].as_py() if records.num_rows else end
        self.records[topic_partition] = records
        self.ranges[topic_partition] = LogRange(first, end)

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        return self.ranges.get(topic_partition, LogRange(0, 0))

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        del leader_epoch
        return self.epoch_ends.get(topic_partition)

    def open_transactions(
        self, topic_partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OpenTransaction]:
        return {
            key: OpenTransaction(self.ranges[key].end, 7, f"writer of {key.topic}", 1_700_000_000.0)
            for key in topic_partitions
        }

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        held = self.records[topic_partition]
        offsets = held.column("offset").to_numpy()
        for low in range(start, end, self.step):
            high = min(end, low + self.step)
            first, last = offsets.searchsorted([low, high])
            yield Chunk(topic_partition, held.slice(first, last - first), high)

    def read_uncommitted(
        self, topic_partition: TopicPartition, start: int, end: int
    ) -> Iterator[Chunk]:
        return self.read(topic_partition, start, end)


@dataclass
class Shelf:
    """Puts objects into a store as the service does."""

    directory: Path
    log_format: LogFormat
    prefix: str = "backup"
    scratch: int = 0

    @property
    def store(self) -> DirectoryStore:
        return DirectoryStore(self.directory)

    def put(
        self,
        rows: pa.RecordBatch,
        batch: OffsetRange,
        *,
        topic_partition: TopicPartition = CLICKS,
        output_partition: str = "offset=0",
        **changes: object,
    ) -> str:
        """Store one object; ``changes`` are made to its metadata.  Returns its key."""
        first = rows.column("offset")[0].as_py()
        info = ObjectInfo(topic_partition, batch, first, rows.num_rows, 1, "f" * 16)
        info = replace(info, **changes)  # type: ignore[arg-type]
        root = topic_root(self.prefix, topic_partition.topic)
        name = ObjectName(
            root,
            output_partition,
            info.generation,
            topic_partition.partition,
            first,
            self.log_format.extension,
        )
        sink = io.BytesIO()
        writer = self.log_format.create(sink, name.key.encode())
        writer.append(rows)
        writer.close()
        self.put_bytes(name.key, sink.getvalue(), info.metadata())
        return name.key

    def put_bytes(self, key: str, data: bytes, metadata: dict[str, str]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory.parent / f"scratch-{self.scratch}"
        self.scratch = next_offset(self.scratch)
        path.write_bytes(data)
        self.store.put(key, path, crc32c(data), metadata)

    def change(self, key: str, change: Callable[[bytes], bytes]) -> None:
        """Damage an object behind the store's back."""
        path = self.directory / key
        path.write_bytes(change(path.read_bytes()))


@dataclass
class OperatorLedger:
    """An ``OffsetLedger`` in memory; ``busy`` entries cannot be leased, ``corrupt`` ones
    cannot be read.
    """

    entries: dict[TopicPartition, Entry] = field(default_factory=dict)
    busy: set[TopicPartition] = field(default_factory=set)
    leased: list[TopicPartition] = field(default_factory=list)
    corrupt: set[TopicPartition] = field(default_factory=set)

    def read(self, topic_partition: TopicPartition) -> Entry:
        if topic_partition in self.corrupt:
            raise LedgerCorrupt(f"{topic_partition} holds b'10.1.2.3', which is no offset")
        return self.entries.get(topic_partition, Entry(None))

    def lease(self, topic_partition: TopicPartition, timeout: float) -> OperatorLease:
        del timeout
        if topic_partition in self.busy:
            raise LeaseLost(f"{topic_partition}: another process holds it")
        self.leased.append(topic_partition)
        return OperatorLease(self, topic_partition)

    def healthy(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class OperatorLease:
    ledger: OperatorLedger
    topic_partition: TopicPartition

    @property
    def trust(self) -> float:
        return 10.0

    def held(self) -> bool:
        return self.topic_partition in self.ledger.leased

    def read(self) -> Entry:
        return self.ledger.read(self.topic_partition)

    def record(self, before: Entry, intent: Intent) -> Entry:
        return self._write(before, replace(before, intent=intent))

    def commit(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        return self._write(before, Entry(next_offset, None, topic_id, leader_epoch=leader_epoch))

    def finish(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        entry = self.commit(before, next_offset, topic_id, leader_epoch)
        self.release()
        return entry

    def overwrite(self, next_offset: int, topic_id: str | None) -> Entry:
        self.ledger.corrupt.discard(self.topic_partition)
        return self._write(self.read(), Entry(next_offset, None, topic_id))

    def release(self) -> None:
        if self.held():
            self.ledger.leased.remove(self.topic_partition)

    def _write(self, before: Entry, after: Entry) -> Entry:
        if not self.held() or self.read() != before:
            raise Refused(f"{self.topic_partition}: changed")
        self.ledger.entries[self.topic_partition] = after
        return after
