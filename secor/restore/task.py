"""One source partition that is ours: transactions of records and the offset behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from secor.core.errors import TransactionAborted
from secor.core.model import TopicPartition
from secor.core.ports import Clock
from secor.restore.boundaries import Boundaries
from secor.restore.model import Boundary, JobSpec, Piece, Silence, SourcePartition
from secor.restore.offsets import StoredOffset, offset_key, record
from secor.restore.pairs import pairs_record
from secor.restore.ports import PieceReader, RestoreSource, Router
from secor.restore.writer.writer import TransactionalWriter

IDLE_WAIT = 1.0
"""Seconds that a turn waits for a first piece."""


class Turn(Enum):
    """How a turn ended."""

    WROTE = "wrote"
    IDLE = "idle"
    EXHAUSTED = "exhausted"


class TaskObserver(Protocol):
    """Is told what happens to source partitions."""

    def began(self, source: SourcePartition) -> None:
        """A transaction was begun."""

    def committed(
        self, source: SourcePartition, next_offset: int, records: int, size: int, seconds: float
    ) -> None:
        """A transaction was committed."""

    def skipped(self, source: SourcePartition, next_offset: int) -> None:
        """A transaction that the source wanted aborted was skipped."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What is the same for all source partitions of a job."""

    spec: JobSpec
    source: RestoreSource
    route: Router
    boundaries: Boundaries
    clock: Clock
    observer: TaskObserver


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

    def turn(self) -> Turn:
        """Write one transaction, if there is anything to write.

        After an error but ``TransactionAborted``, which is handled here, the task is finished:
        whoever owns the source partition opens it anew.
        """
        reader = self._open_reader()
        piece = reader.next(IDLE_WAIT)
        if isinstance(piece, Silence):
            if piece is Silence.NOTHING_YET:
                return Turn.IDLE
            self.close()
            return Turn.EXHAUSTED
        try:
            return self._transaction(reader, piece)
        except TransactionAborted:
            # The same records again, from what is committed.
            self.close()
            return Turn.WROTE

    def close(self) -> None:
        """Stop reading; the next turn begins at ``next_offset``."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open_reader(self) -> PieceReader:
        if self._reader is None:
            self._reader = self._settings.source.open(self.source, self.next_offset)
        return self._reader

    def _transaction(self, reader: PieceReader, first: Piece) -> Turn:
        settings, writer = self._settings, self._writer
        began = settings.clock.monotonic()
        settings.observer.began(self.source)
        writer.begin()
        piece, records, size = first, 0, 0
        while True:
            for target in settings.route(self.source, piece):
                writer.write(target.topic_partition, target.records)
                records += target.records.num_rows
                size += target.records.nbytes
            elapsed = settings.clock.monotonic() - began
            due = settings.boundaries.due(piece, elapsed=elapsed, size=size, records=records)
            following = Silence.EXHAUSTED if due else self._following(reader, elapsed)
            if isinstance(following, Silence):
                break
            piece = following
        if settings.boundaries.kind == "source" and piece.boundary is None:
            # The source has not said how this transaction ends: it is not ours to cut.
            writer.abort()
            self.close()
            return Turn.IDLE if self._stopping() else Turn.EXHAUSTED
        if piece.boundary is Boundary.ABORT:
            # What follows in the source must not be lost with it: offsets alone.
            writer.abort()
            writer.begin()
            self._commit(piece.next_offset)
            settings.observer.skipped(self.source, piece.next_offset)
            return Turn.WROTE
        self._commit(piece.next_offset)
        seconds = settings.clock.monotonic() - began
        settings.observer.committed(self.source, self.next_offset, records, size, seconds)
        return Turn.WROTE

    def _following(self, reader: PieceReader, elapsed: float) -> Piece | Silence:
        """Return the transaction's next piece; none when it must end."""
        boundaries = self._settings.boundaries
        while not self._stopping():
            following = reader.next(boundaries.patience(elapsed))
            if following is not Silence.NOTHING_YET or boundaries.kind != "source":
                return following
        return Silence.EXHAUSTED

    def _commit(self, next_offset: int) -> None:
        """Write the offset into the open transaction, and commit both."""
        settings = self._settings
        job, now = settings.spec.job, int(settings.clock.now() * 1000)
        self._writer.flush()
        pairs = pairs_record(job, self.source, self._writer.placements, now)
        if pairs is not None:
            self._writer.write(self._offsets, pairs)
        stored = StoredOffset(next_offset, settings.spec.hash).encode()
        self._writer.write(self._offsets, record(offset_key(job, self.source), stored, now))
        self._writer.commit()
        self.next_offset = next_offset
