"""The job's offsets topic: what its records say, and how it is read.

A key is canonical JSON, ``["<job>", {"archive": …, "partition": …, "topic": …}]``; a value
``{"next_offset": …, "spec": …}``; a null value deletes.  The topic's last partition is for
the job's own record alone: no long transaction ever delays what is read there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from secor.core.errors import ConfigurationError, SpecChanged
from secor.core.model import SCHEMA, TopicPartition
from secor.core.text import how_many, load_json
from secor.restore.model import SourcePartition, canonical
from secor.restore.ports import TargetLog
from secor.wire.murmur2 import murmur2

LEAST_PARTITIONS = 2
"""One for offsets, one for the job's record."""


def offsets_topic(job: str) -> str:
    """Return the name of a job's offsets topic."""
    return f"secor-restore-{job}"


def offset_key(job: str, source: SourcePartition) -> bytes:
    """Return the key of a source partition's offset record."""
    return canonical([job, source.described()]).encode()


def job_key(job: str) -> bytes:
    """Return the key of the job's own record."""
    return canonical([job]).encode()


def partition_of(job: str, source: SourcePartition, partitions: int) -> int:
    """Return the partition of the offsets topic, of ``partitions``, for a source partition."""
    # Not the last partition: that is the job's own record's.
    return (murmur2(offset_key(job, source)) & 0x7FFFFFFF) % (partitions - 1)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The content of an offset record; ``spec`` is the hash of the spec that wrote it."""

    next_offset: int
    spec: str

    def encode(self) -> bytes:
        """Return the record's value."""
        return canonical({"next_offset": self.next_offset, "spec": self.spec}).encode()


@dataclass(slots=True)
class OffsetTable:
    """The last offset of each source partition.

    ``foreign`` counts records that are not the job's.
    """

    job: str
    offsets: dict[SourcePartition, StoredOffset] = field(default_factory=dict)
    foreign: int = 0

    def add(self, rows: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take records in the order of the log."""
        for key, value in rows:
            source, other = _source_of(self.job, key)
            stored = None if value is None else _stored(value)
            if source is None:
                self.foreign += not other
            elif value is not None and stored is None:
                self.foreign += 1
            elif stored is None:
                self.offsets.pop(source, None)
            else:
                self.offsets[source] = stored

    def next_offset(self, source: SourcePartition, spec: str) -> int:
        """Return where the source partition goes on; 0 before its first transaction.

        Raises ``SpecChanged``.
        """
        stored = self.offsets.get(source)
        if stored is None:
            return 0
        if stored.spec != spec:
            raise SpecChanged(
                f"{source}: offset {stored.next_offset} was written under spec {stored.spec}, and"
                f" the job's is {spec} now; take back what was changed, give the job another"
                " name, or see 'secor restore offsets reset'"
            )
        return stored.next_offset


def read_offsets(
    log: TargetLog, topic_partition: TopicPartition, job: str, *, committed: bool = False
) -> OffsetTable:
    """Read all offset records of one partition of the offsets topic.

    A daemon calls it *after* it has initialised the transactional ids of the partition's source
    partitions.  The end is asked read-uncommitted: a read-committed end stops short of a
    transaction with markers that are being written, and what it wrote would be written again.
    ``committed`` is for a person's look, which waits for no open transaction.
    """
    end = log.end(topic_partition, committed=committed)
    table = OffsetTable(job)
    for chunk in log.read(topic_partition, 0, end):
        table.add(rows_of(chunk.records))
    return table


def rows_of(records: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Give keys and values."""
    keys, values = records.column("key").to_pylist(), records.column("value").to_pylist()
    return zip(keys, values, strict=True)


def record(key: bytes, value: bytes | None, timestamp: int) -> pa.RecordBatch:
    """Return one record to be written; ``timestamp`` in milliseconds since the epoch."""
    row = {
        "offset": 0,
        "timestamp": timestamp,
        "timestamp_type": 0,
        "key": key,
        "value": value,
        "headers": [],
    }
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def tombstones(keys: Iterable[bytes], timestamp: int) -> pa.RecordBatch:
    """Return records that delete these keys."""
    return pa.concat_batches([record(key, None, timestamp) for key in keys])


def check_partitions(topic: str, partitions: int) -> None:
    """Raise ``ConfigurationError`` for an offsets topic that has too few partitions."""
    if partitions < LEAST_PARTITIONS:
        raise ConfigurationError(
            f"the offsets topic {topic} has {how_many(partitions, 'partition')}: it needs"
            f" {LEAST_PARTITIONS}, the last one for the job's own record"
        )


def _source_of(job: str, key: bytes | None) -> tuple[SourcePartition | None, bool]:
    """Return the source partition of a key; else whether the record is another one of the job."""
    try:
        name, *rest = load_json(key or b"")
        if name != job or not rest:
            return None, name == job
        described = rest[0]
        source = SourcePartition.of(described)
    except (ValueError, TypeError, KeyError):
        return None, False
    return (source, True) if key == offset_key(job, source) else (None, "from" in described)


def _stored(value: bytes) -> StoredOffset | None:
    try:
        decoded: Mapping[str, object] = load_json(value)
        next_offset, spec = decoded["next_offset"], decoded["spec"]
    except (ValueError, TypeError, KeyError):
        return None
    if type(next_offset) is not int or not 0 <= next_offset < 2**63:
        return None
    return StoredOffset(next_offset, str(spec))
