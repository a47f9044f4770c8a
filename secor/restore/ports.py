"""The ports of the restore engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from secor.core.model import Chunk, TopicPartition
from secor.restore.model import Piece, Silence, SourceExtent, SourcePartition, TargetRecords


class PieceReader(Protocol):
    """Reads one source partition from an offset on; for one thread."""

    def next(self, wait: float) -> Piece | Silence:
        """Return the next piece; ``NOTHING_YET`` after ``wait`` seconds without one.

        ``EXHAUSTED`` is the end for now: a source that grows is opened again later.
        Raises ``StopPartition`` for what cannot be read, ``Unavailable``.
        """

    def close(self) -> None:
        """Stop reading."""


class RestoreSource(Protocol):
    """Something that can be written to Kafka: archives first.

    Reading from an offset gives the same records each time, and pieces say where transactions
    may end.
    """

    def exactly_once(self) -> bool | None:
        """Return whether an offset gives the same records, in the same order, each time.

        None where the source does not know; then, and for False, a job is refused that wants
        each message once.
        """

    def defines_transactions(self) -> bool:
        """Return whether pieces have boundaries, for ``writing.boundary = "source"``."""

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the source partitions there are now, sorted."""

    def extent(self, source: SourcePartition) -> SourceExtent:
        """Look at what there is of one."""

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        """Read from an offset on; whatever is below it is skipped."""


class TargetLog(Protocol):
    """Reads logs of the target cluster."""

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions; none when it does not exist."""

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        """Return where the log ends: its last stable offset, or its high watermark."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give the committed messages of ``[start, end)``; waits for open transactions."""


Router = Callable[[SourcePartition, Piece], Sequence[TargetRecords]]
"""Filters, transforms and places the records of a piece: pure."""
