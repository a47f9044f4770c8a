"""One source partition that is ours: transactions of records and the offset behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from secor.core.errors import SecorError, StopPartition, TransactionAborted
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.restore.boundaries import Boundaries
from secor.restore.model import Boundary, JobSpec, Piece, Silence, SourcePartition
from secor.restore.offsets import StoredOffset, offset_key, record
from secor.restore.pairs import pairs_record
from secor.restore.ports import PieceReader, RestoreSource, Router
from secor.restore.reading import ReadAhead
from secor.restore.writer.model import WriterState
from secor.restore.writer.writer import TransactionalWriter

IDLE_WAIT = 1.0
"""Seconds that a turn waits for a first piece."""


class Turn(Enum):
    """Results of a step."""

    WROTE = "wrote"
    IDLE = "idle"
    ABORTED = "aborted"
    """Nothing was committed: the next turn writes the same records again, or the first of them."""
    EXHAUSTED = "exhausted"


class TaskObserver(Protocol):
    """An observer of source partitions."""

    def began(self, source: SourcePartition) -> None:
        """A transaction has begun."""

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        """A transaction was committed."""

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        """A transaction that the source wanted aborted was skipped."""

    def aborted(self, source: SourcePartition) -> None:
        """The broker wanted a transaction aborted; the same records are written again."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """The settings of all source partitions of a job."""

    spec: JobSpec
    source: RestoreSource
    route: Router
    boundaries: Boundaries
    clock: Clock
    observer: TaskObserver
    ready: Callable[[SourcePartition], None] = lambda _source: None
    """Called before a source partition is read: its target may be new."""
    places: Callable[[SourcePartition], Sequence[TopicPartition]] = lambda _source: ()
    """Topic partitions of the target in which messages of a source partition may be."""


@dataclass(slots=True)
class _Written:
    """The content of a transaction so far; ``size`` in bytes.

    ``whole`` is where the last object, or transaction of the source, ended that is all in it.
    """

    last: Piece
    whole: int | None = None
    records: int = 0
    size: int = 0


class Task:
    """Writes one source partition, a transaction a turn; for one thread at a time.

    ``next_offset`` is what the offsets topic holds: only a commit that returned moves it.
    """

    def __init__(
        self,
        settings: TaskSettings,
        source: SourcePartition,
        writer: TransactionalWriter,
        offsets: TopicPartition,
        next_offset: int,
        stopping: Callable[[], bool],
    ) -> None:
        self.source = source
        self.next_offset = next_offset
        self._settings = settings
        self._writer = writer
        self._offsets = offsets
        self._stopping = stopping
        self._reader: PieceReader | None = None
        self._is_ready = False
        """Whether the target was looked at since the reading began."""
        self._rest: Piece | None = None
        """What the transaction before had no room for."""
        self._end_at: int | None = None
        """Where the next transaction ends at the latest: what follows has failed."""

    def turn(self) -> Turn:
        """Write one transaction, if there is anything to write.

        Where something in the transaction cannot be read or written, what is before it is
        committed first.  After any other error but ``TransactionAborted`` the task is finished:
        the owner of the source partition opens it anew.
        """
        reader = self._open_reader()
        piece = self._next(reader, IDLE_WAIT)
        if isinstance(piece, Silence):
            if piece is Silence.NOTHING_YET:
                return Turn.IDLE
            self.close()
            return Turn.EXHAUSTED
        try:
            return self._transaction(reader, piece)
        except TransactionAborted:
            self._settings.observer.aborted(self.source)
            # The same records again, from what is committed.
            self.close()
            return Turn.ABORTED
        except SecorError:
            self._abandon()
            if self._end_at is None or self._writer.state is not WriterState.READY:
                raise
            self.close()
            return Turn.ABORTED

    def _abandon(self) -> None:
        """Abort what is open: consumers of the target would wait for the end of its time."""
        if self._writer.state is WriterState.IN_TRANSACTION:
            with suppress(SecorError):
                self._writer.abort()

    @property
    def is_reading(self) -> bool:
        """Return whether the source is read now; one that is read to its end is not."""
        reader = self._reader
        return reader is not None and not (isinstance(reader, ReadAhead) and reader.is_read)

    @property
    def is_open(self) -> bool:
        """Return whether reading has begun."""
        return self._reader is not None

    def read_ahead(self) -> None:
        """Begin to read before the next turn; not while one is in work."""
        if self._reader is None:
            self._reader = self._settings.source.open(self.source, self.next_offset)

    def close(self) -> None:
        """Stop reading; the next turn begins at ``next_offset``."""
        self._rest = None
        self._is_ready = False
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open_reader(self) -> PieceReader:
        if not self._is_ready:
            # Not inside a transaction: making a topic takes seconds.
            self._settings.ready(self.source)
            self._is_ready = True
        self.read_ahead()
        assert self._reader is not None
        return self._reader

    def _transaction(self, reader: PieceReader, first: Piece) -> Turn:
        began = self._settings.clock.monotonic()
        self._settings.observer.began(self.source)
        # For one transaction: the next one tries what has failed again.
        end_at, self._end_at = self._end_at, None
        self._writer.begin()
        written = _Written(first)
        try:
            self._write(reader, written, began, end_at)
        except StopPartition:
            # What is before a damaged object must not wait for a repair.  Of the object
            # itself nothing is committed: a good copy may have more messages.
            self._end_at = written.whole
            raise
        if self._settings.boundaries.kind == "source":
            if written.last.boundary is None:
                # The source has not said how this transaction ends: it is not ours to cut.
                self._writer.abort()
                self.close()
                return Turn.IDLE if self._stopping() else Turn.EXHAUSTED
            if written.last.boundary is Boundary.ABORT:
                self._skip(written.last.next_offset)
                return Turn.WROTE
        self._commit(written.last.next_offset)
        seconds = self._settings.clock.monotonic() - began
        self._settings.observer.committed(
            self.source, self.next_offset, written.records, written.size, seconds
        )
        return Turn.WROTE

    def _write(
        self, reader: PieceReader, written: _Written, began: float, end_at: int | None
    ) -> None:
        """Write pieces into the open transaction until it has to end, or up to ``end_at``."""
        boundaries, clock = self._settings.boundaries, self._settings.clock
        following: Piece | Silence | None = written.last
        while isinstance(following, Piece):
            piece, self._rest = boundaries.cut(
                following, size=written.size, records=written.records
            )
            if piece is None:
                break
            for target in self._settings.route(self.source, piece):
                self._writer.write(target.topic_partition, target.records)
                written.records += target.records.num_rows
                written.size += target.records.nbytes
            written.last = piece
            if piece.boundary is not None:
                written.whole = piece.next_offset
            elapsed = clock.monotonic() - began
            due = boundaries.due(piece, elapsed=elapsed, size=written.size, records=written.records)
            ends = due or self._rest is not None or piece.next_offset == end_at
            following = None if ends else self._following(reader, elapsed)

    def _skip(self, next_offset: int) -> None:
        """Drop the open transaction; commit its offset alone, so that it is not read again."""
        self._writer.abort()
        self._writer.begin()
        self._commit(next_offset)
        self._settings.observer.skipped(self.source, next_offset)

    def _next(self, reader: PieceReader, wait: float) -> Piece | Silence:
        rest, self._rest = self._rest, None
        return reader.next(wait) if rest is None else rest

    def _following(self, reader: PieceReader, elapsed: float) -> Piece | Silence:
        """Return the transaction's next piece; none when it must end."""
        boundaries = self._settings.boundaries
        while not self._stopping():
            following = self._next(reader, boundaries.patience(elapsed))
            if following is not Silence.NOTHING_YET or boundaries.kind != "source":
                return following
        return Silence.EXHAUSTED

    def _commit(self, next_offset: int) -> None:
        """Write the offset into the open transaction, and commit both."""
        settings = self._settings
        job, now = settings.spec.job, int(settings.clock.now() * 1000)
        # All records must be acknowledged before their places on the target are known, and before
        # the offset goes out: without transactions, that order is what keeps a crash from losing
        # some.
        self._writer.flush()
        pairs = pairs_record(job, self.source, self._writer.placements, now)
        if pairs is not None:
            self._writer.write(self._offsets, pairs)
        stored = StoredOffset(next_offset, settings.spec.hash).encode()
        # Into the same transaction as the records: both are there or neither is.
        self._writer.write(self._offsets, record(offset_key(job, self.source), stored, now))
        self._writer.commit()
        # Only here: a commit that raised may or may not have happened, and the offsets topic is
        # asked.
        self.next_offset = next_offset
