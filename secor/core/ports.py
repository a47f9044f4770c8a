"""The ports of the core: one page of protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

import pyarrow as pa

from secor.core.errors import SecorError
from secor.core.model import (
    Chunk,
    Entry,
    Intent,
    LogRange,
    Part,
    StoredObject,
    TopicPartition,
    Withheld,
)

# ------------------------------------------------------------------ messages


@dataclass(frozen=True, slots=True)
class Assigned:
    """These are ours now, in addition to what was; nothing is delivered before ``start``."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Revoked:
    """These are no longer ours, or cease to be as soon as ``release`` is called."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Messages of one topic partition, decoded when ``chunks`` is called.

    ``chunks`` raises ``CorruptBatch``.  ``size`` is the bytes held until then.
    """

    topic_partition: TopicPartition
    size: int
    chunks: Callable[[], Iterator[Chunk]]


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Reading one topic partition met ``error``; nothing comes until it is started again.

    ``OffsetOutOfRange`` situations arrive as ``RestartPartition``.
    """

    topic_partition: TopicPartition
    error: SecorError


Event = Assigned | Revoked | Fetched | ReadFailure


class MessageSource(Protocol):
    """A member of a consumer group."""

    def poll(self, timeout: float) -> Sequence[Event]:
        """Return what has happened, in order; wait at most ``timeout`` seconds for it."""

    def start(self, topic_partition: TopicPartition, offset: int) -> None:
        """Deliver from ``offset`` on; nothing of an earlier start comes any more.

        A partition that is no longer assigned is ignored.
        """

    def pause(self, topic_partition: TopicPartition) -> None:
        """Fetch no more of it for now; what is already queued may still come."""

    def resume(self, topic_partition: TopicPartition) -> None:
        """Go on where ``pause`` stopped."""

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that nothing of these revoked partitions is in work any more."""

    def known_end(self, topic_partition: TopicPartition) -> int | None:
        """Return the last stable offset as last heard from the broker, without waiting.

        It is kept up to date, to some seconds, for every assigned partition: also for one
        that is paused, or not started.
        """

    def withheld(self, topic_partition: TopicPartition) -> Withheld | None:
        """Return what of its log waits behind ``known_end``, as last heard, without waiting.

        None where nothing waits for the end of a transaction.
        """

    def log_range(self, topic_partition: TopicPartition, since: float | None = None) -> LogRange:
        """Ask (blocks), or share an answer from after ``since``.  Raises ``Unavailable``."""

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Ask the leader up to which offset its log has batches of this epoch or earlier ones.

        Blocks.  None where the leader does not say.  Raises ``Unavailable``.
        """

    def topic_id(self, topic: str) -> str | None:
        """Ask the broker for the topic's id (blocks).  Raises ``Unavailable``."""

    def close(self) -> None:
        """Leave the group and end the threads."""


class Log(Protocol):
    """The topics as they are in Kafka, read without a group.  All raise ``Unavailable``."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give the committed messages of ``[start, end)``; the last chunk reaches ``end``."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return the first offset and the last stable offset."""


# -------------------------------------------------------------------- ledger


class Lease(Protocol):
    """The right to write one topic partition's entry.

    A write has three outcomes: it returns the new entry, raises ``Refused`` or
    ``LeaseLost`` (no effect), or raises ``OutcomeUnknown``; ``Unavailable`` is raised
    only when it had no effect.
    """

    @property
    def trust(self) -> float:
        """Seconds, from the *start* of a won write, in which nobody else can hold it."""

    def held(self) -> bool:
        """Return whether it is still held, as far as is known here, without asking."""

    def read(self) -> Entry:
        """Read the entry from the ledger.  Raises ``Unavailable``, ``LedgerCorrupt``."""

    def record(self, before: Entry, intent: Intent) -> Entry:
        """Set the intent if the entry is still ``before``; ``committed`` and its epoch stay."""

    def commit(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Set ``committed`` and take the intent away if the entry is still ``before``."""

    def finish(
        self,
        before: Entry,
        next_offset: int,
        topic_id: str | None,
        leader_epoch: int | None = None,
    ) -> Entry:
        """Commit and give the lease back, in one step if the ledger can; when it raises, not."""

    def overwrite(self, next_offset: int, topic_id: str | None) -> Entry:
        """Set ``committed`` without intent, for a person: also over a ``LedgerCorrupt``."""

    def release(self) -> None:
        """Give it back; never raises for a server that does not answer."""


class OffsetLedger(Protocol):
    """The ledger of one group: committed offsets and intents."""

    def read(self, topic_partition: TopicPartition) -> Entry:
        """Read an entry.  Raises ``Unavailable``, ``LedgerCorrupt``."""

    def lease(self, topic_partition: TopicPartition, timeout: float) -> Lease:
        """Take the lease.  Raises ``LeaseLost`` after ``timeout`` seconds, ``Unavailable``."""

    def healthy(self) -> bool:
        """Return whether the ledger answers, as far as is known here, without asking."""

    def close(self) -> None:
        """End the connection."""


# -------------------------------------------------------------------- store


class ObjectStore(Protocol):
    """Objects under keys; every put is put-if-absent.

    All raise ``Unavailable`` (try again) and ``AccessDenied``.
    """

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Store a file's bytes, or these, whole or not at all, verified by their CRC32C.

        Raises ``AlreadyExists`` (perhaps our own, after a lost answer),
        ``OutcomeUnknown`` when the answer was lost.
        """

    def head(self, key: str) -> StoredObject:
        """Return the object with its metadata.  Raises ``NotFound``."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects whose key begins with ``prefix``, by key, without metadata."""

    def open(self, key: str) -> BinaryIO:
        """Open for reading, seekable.  Raises ``NotFound``."""

    def delete(self, key: str) -> None:
        """Delete; an absent object is no error."""


@dataclass(frozen=True, slots=True)
class OldVersion:
    """A version of a deleted or replaced object, kept by a bucket with versions."""

    key: str
    id: str
    size: int


@runtime_checkable
class VersionedStore(Protocol):
    """A store whose buckets may keep versions.  Both raise ``Unavailable``, ``AccessDenied``."""

    def noncurrent(self, prefix: str) -> Iterator[OldVersion]:
        """Give the versions, below keys that begin with ``prefix``, that are not the present ones.

        Nothing where the bucket keeps none.
        """

    def delete_version(self, version: OldVersion) -> None:
        """Delete one for good; an absent one is no error."""


# ----------------------------------------------------------- formats, parsers


class Sink(Protocol):
    """A destination for a format's bytes.  ``write`` takes the whole buffer or raises."""

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> object:
        """Append ``data``."""


class FileWriter(Protocol):
    """One file in the making.

    The bytes are a function of the records and the seed, never of how the records
    were split over the calls of ``append``.
    """

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows of ``SCHEMA``.  Raises ``RecordRefused``, and what the sink raises."""

    def buffered(self) -> int:
        """Return the bytes held in memory, not yet given to the sink."""

    def close(self) -> None:
        """Write the rest; the sink itself stays open."""

    @property
    def losses(self) -> Mapping[str, int]:
        """Messages by what the file does not hold of them; empty for formats without loss."""

    def discard(self) -> None:
        """Give up instead of ``close``, also after it failed: free what is held."""


class RenderedRows(Protocol):
    """The bytes of rows, as a format's files hold them."""


class RenderingWriter(FileWriter, Protocol):
    """A writer of a format that renders a row in the same way in every file."""

    def append_rendered(self, rows: RenderedRows, first: int, end: int) -> None:
        """Add the rows ``[first, end)`` that ``RenderingFormat.render_rows`` returned.

        Raises as ``append`` does.
        """


class LogFormat(Protocol):
    """Columns to bytes and back."""

    @property
    def extension(self) -> str:
        """The end of file names, such as ``.seq`` or ``.txt.gz``."""

    @property
    def identity(self) -> str:
        """All settings that change the bytes, and the writer's version, for the fingerprint."""

    def create(self, sink: Sink, seed: bytes) -> FileWriter:
        """Begin a file; ``seed`` names the object (for sync markers)."""

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give the file's records in ``SCHEMA``.  Raises ``CorruptFile`` naming ``name``."""


@runtime_checkable
class RenderingFormat(LogFormat, Protocol):
    """A format whose rows have the same bytes in every file: its writers share them."""

    def render_rows(self, records: pa.RecordBatch) -> RenderedRows:
        """Render rows of ``SCHEMA``; each file then takes some of them."""


class MessageParser(Protocol):
    """Gives messages their output partitions: pure, no clock, no randomness."""

    @property
    def identity(self) -> str:
        """All settings that change the result, for the fingerprint."""

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split a chunk's rows by output partition; order within a part is kept.

        Raises ``SchemaGrew`` for the first row that a wider schema is needed for.
        """


# ---------------------------------------------------------------- the machine


CLOCKS_DIFFER = 60.0
"""Seconds that a producer's clock may be ahead; a timestamp beyond that is from the future."""


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; for ages and timeouts."""

    def sleep(self, seconds: float) -> None:
        """Wait, off the loop only."""


class Executor(Protocol):
    """Runs blocking work off the loop."""

    def submit(self, task: Callable[[], object]) -> None:
        """Run ``task`` soon; it turns its own errors into its result."""

    def finished(self) -> Sequence[object]:
        """Return the results since the last call; re-raise what a task let escape."""
