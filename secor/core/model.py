"""The words of the whole program: topic partitions, chunks of messages, ledger entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADERS_TYPE = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("timestamp_type", pa.int8()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""Columns of messages: what flows from the wire to the object, and back out of the readers.

``timestamp`` is in milliseconds since the epoch, null where the broker has none;
``timestamp_type`` is 0 (create) or 1 (log append); a null ``value`` is a tombstone;
``headers`` keep order and repeats.  A reader of a format that does not record a column
gives nulls there.
"""


Offsets = npt.NDArray[np.int64]
"""Offsets of one topic partition."""

DATA = "data"
QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets ``[start, end)``; log gaps may leave fewer messages in it."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < self.start:
            raise ValueError(f"no range of offsets: [{self.start}, {self.end})")

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


def next_offset(offset: int) -> int:
    """Return the offset to read after ``offset``: the only place that adds one."""
    return offset + 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive messages of one topic partition.

    ``records`` has ``SCHEMA`` and increasing offsets (gaps allowed, rows possibly none);
    ``next_offset`` is where reading goes on, beyond trailing control records and gaps.
    ``leader_epoch`` is that of the last record batch below it, control batches included; of a
    part that was cut off it may be a later one of the log, never an earlier one.
    """

    topic_partition: TopicPartition
    records: pa.RecordBatch
    next_offset: int
    leader_epoch: int | None = field(default=None, kw_only=True)

    def until(self, end: int) -> Chunk:
        """Return the part below offset ``end``; its ``next_offset`` is at most ``end``."""
        if self.next_offset <= end:
            return self
        offsets = self.records.column("offset").to_numpy()
        # By the offsets, never by counting from the first: logs have gaps.
        rows = int(offsets.searchsorted(end))
        below = self.records.slice(0, rows)
        return Chunk(self.topic_partition, below, end, leader_epoch=self.leader_epoch)

    def since(self, start: int) -> Chunk:
        """Return the part at and above offset ``start``."""
        offsets = self.records.column("offset").to_numpy()
        rows = int(offsets.searchsorted(start))
        records = self.records.slice(rows) if rows else self.records
        end = max(start, self.next_offset)
        return Chunk(self.topic_partition, records, end, leader_epoch=self.leader_epoch)


@dataclass(slots=True)
class Part:
    """Rows of a chunk that belong to one output partition (``dt=2026-11-21/hr=04``).

    ``stream`` names the plan's directory and format that they go to.  They are the rows
    ``[first, end)`` of ``ordered``, which may have those of several parts, one part behind the
    other: what is the same for all rows is done once with it.
    """

    output_partition: str
    ordered: pa.RecordBatch
    stream: str = DATA
    first: int = 0
    end: int = -1
    """-1 for all rows that there are."""

    def __post_init__(self) -> None:
        """Look up the end where it is not given."""
        if self.end < 0:
            self.end = self.ordered.num_rows

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.end - self.first

    @property
    def records(self) -> pa.RecordBatch:
        """Its rows alone: a slice is made each time, where it has not all that there are."""
        if self.end - self.first == self.ordered.num_rows:
            return self.ordered
        return self.ordered.slice(self.first, self.end - self.first)

    def between(self, first: int, end: int) -> Part:
        """Return some of its rows, counted from its own first one."""
        return Part(
            self.output_partition, self.ordered, self.stream, self.first + first, self.first + end
        )


@dataclass(frozen=True, slots=True)
class Superseded:
    """A fingerprint under which objects of an open intent may already exist.

    ``root`` is the topic's directory in the store under that configuration, ``also`` those
    of its routes.
    """

    fingerprint: str
    root: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """The statement: the objects of exactly ``[start, end)`` are being put.

    ``owner`` names the process, ``at`` the wall clock in seconds (for people only),
    ``root`` the topic's directory in the store; ``supersedes`` what was tried before
    under other configurations.  ``also`` are further directories that objects may be in,
    apart from ``root``'s quarantine: those of routes (``naming.further_roots``).
    """

    start: int
    end: int
    fingerprint: str
    owner: str
    at: float
    root: str
    supersedes: tuple[Superseded, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A topic partition's ledger entry as one read or write saw it.

    ``committed`` is the next offset to persist, None where there is no entry yet.
    ``topic_id`` is Kafka's id of the topic when the entry was last committed, if known.
    ``version`` belongs to the ledger that made it and is compared by its writes.
    ``leader_epoch`` is that of the last record batch below ``committed``, if known; a lease that
    reads the entry to write it may leave it out, so it is not compared.
    """

    committed: int | None
    intent: Intent | None = None
    topic_id: str | None = None
    version: object = field(default=None, compare=False)
    leader_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset of a consumer group, and the metadata that the group wrote with it."""

    offset: int
    metadata: str = ""


RUNNING_UNLESS = frozenset({"empty", "dead"})
"""States of a consumer group without members; every other one has some."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """The range of a partition's log: ``start`` and the last stable offset ``end``.

    ``leader_epoch`` is that of the leader that answered, None where it does not say.
    ``high_watermark`` is where the log ends, open transactions included; None if not asked for.
    It was asked for before ``end``: a transaction that ended meanwhile does not count as open.
    """

    start: int
    end: int
    leader_epoch: int | None = field(default=None, compare=False)
    high_watermark: int | None = field(default=None, compare=False)

    @property
    def last(self) -> int:
        """The end of the log, as far as it was asked for; readers of it wait at ``end``."""
        return self.end if self.high_watermark is None else max(self.end, self.high_watermark)

    @property
    def withheld(self) -> int:
        """Offsets that nobody may read before an open transaction ends, that one's included."""
        return self.last - self.end


def _iso_time(seconds: float) -> str:
    """Return a time in ISO 8601; a producer may give its messages one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} seconds since 1970"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has not ended; what is not known of it is None.

    ``start_offset`` is its first offset in the log of a topic partition, ``since`` in seconds
    since the epoch, ``last_written`` the time of its producer's last message there, by that one's
    clock.  ``hanging``: its coordinator has ended it, or never knew that it writes to that
    partition, so it will not end by itself.
    """

    start_offset: int | None = None
    producer_id: int | None = None
    transactional_id: str | None = None
    since: float | None = None
    hanging: bool = False
    last_written: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.transactional_id is not None:
            parts.append(f"transactional id {self.transactional_id!r}")
        if self.producer_id is not None:
            parts.append(f"producer id {self.producer_id}")
        if self.start_offset is not None:
            parts.append(f"from offset {self.start_offset} on")
        if self.since is not None:
            parts.append(f"since {_iso_time(self.since)}")
        elif self.last_written is not None:
            parts.append(f"last written to {_iso_time(self.last_written)}")
        kind = "a hanging transaction" if self.hanging else "an open transaction"
        return kind + (f" ({', '.join(parts)})" if parts else "")


@dataclass(frozen=True, slots=True)
class Withheld:
    """Offsets of a log that wait behind an open transaction, that one's included.

    ``since`` is when the last stable offset was first seen where it is, in seconds since the
    epoch; ``transaction`` is None until brokers were asked for it.
    """

    offsets: int
    since: float
    transaction: OpenTransaction | None = None

    @property
    def began(self) -> float:
        """The time since they wait: since the transaction began, where that is known.

        A hanging one that nobody knows the start of: since it was last written to.  Of others
        that time says nothing, as messages may have any.
        """
        known = self.transaction.since if self.transaction is not None else None
        if known is None and self.transaction is not None and self.transaction.hanging:
            known = self.transaction.last_written
        return self.since if known is None else min(known, self.since)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing (``metadata`` None) or a head request shows it.

    ``size`` is in bytes, ``modified`` in seconds since the epoch.
    """

    key: str
    size: int
    modified: float
    metadata: dict[str, str] | None = None


def rows_in_blocks(records: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Give ``records`` in slices of at most ``most`` rows, without a copy."""
    for start in range(0, records.num_rows, most):
        yield records.slice(start, most)
