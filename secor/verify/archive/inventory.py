"""An inventory of one topic partition, taken while it is compared: objects, offsets, holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from secor.archive.objects import ArchivedObject
from secor.core.model import OffsetRange, next_offset

MOST_HOLES = 1000
"""Holes listed for each cause; the count of offsets goes on."""

_NONE = np.empty(0, np.int64)


class Cause(StrEnum):
    """Reasons why no object has a message at an offset."""

    COMPACTED = "compacted"
    """The log has no message there: compaction, deleted records, or a transaction's marker."""
    ABORTED = "aborted"
    """The log has a message there, of a transaction that was aborted."""
    FILTERED = "filtered"
    """The configuration leaves the message out."""
    ERASED = "erased"
    """``secor archive erase`` has taken the message out."""
    UNSEEN = "unseen"
    """In the range of an object; the log no longer has it, or was not read."""
    UNCOVERED = "uncovered"
    """In no object's range; the log no longer has it, or was not read."""
    UNKNOWN = "unknown"
    """Objects there record no offsets, and the log no longer has them, or was not read."""


@dataclass(slots=True)
class Holes:
    """Offsets without a message for one cause: their count, and the first ranges."""

    offsets: int = 0
    ranges: list[OffsetRange] = field(default_factory=list)

    def add(self, start: int, end: int) -> None:
        """Add ``[start, end)``, behind all that were added; joins the one before."""
        if start >= end:
            return
        self.offsets += end - start
        if self.ranges and self.ranges[-1].end == start:
            self.ranges[-1] = OffsetRange(self.ranges[-1].start, end)
        elif len(self.ranges) < MOST_HOLES:
            self.ranges.append(OffsetRange(start, end))


@dataclass(slots=True)
class Inventory:
    """The content of ``[start, end)`` of a topic partition in the archive.

    ``end`` moves on with each window.  ``messages`` counts each stored offset once.  ``objects``
    are those that were compared; ``covered`` the ranges of their batches, in order.
    """

    start: int
    objects: Sequence[ArchivedObject]
    end: int = field(init=False)
    messages: int = 0
    holes: dict[Cause, Holes] = field(default_factory=dict)
    covered: list[OffsetRange] = field(init=False)

    def __post_init__(self) -> None:
        """Begin at the start."""
        self.end = self.start
        self.covered = list(_joined(stored.info.batch for stored in self.objects if stored.info))

    def window(
        self,
        end: int,
        stored: np.ndarray,
        logged: np.ndarray | None = None,
        filtered: np.ndarray = _NONE,
        erased: np.ndarray = _NONE,
    ) -> None:
        """Take the stored offsets of the window that ends at ``end``, sorted, each once.

        ``logged`` are those of the log, with the ``filtered`` and the ``erased`` ones; None where
        it was not read.
        """
        self.messages += len(stored)
        present = stored if logged is None else np.union1d(stored, logged)
        for start, hole_end in _gaps(present[present >= self.end], self.end, end):
            if logged is None:
                self._unlogged(start, hole_end)
            else:
                self._add(Cause.COMPACTED, start, hole_end)
        for cause, offsets in ((Cause.FILTERED, filtered), (Cause.ERASED, erased)):
            for offset in offsets.tolist():
                self._add(cause, offset, next_offset(offset))
        self.end = max(self.end, end)

    def unknown(self, end: int, messages: int) -> None:
        """Pass over ``messages`` up to ``end`` without recorded offsets."""
        self.messages += messages
        self._add(Cause.UNKNOWN, self.end, end)
        self.end = max(self.end, end)

    def _unlogged(self, start: int, end: int) -> None:
        """Add a gap that the log says nothing of, by whether a batch covers it."""
        for batch in self.covered:
            if batch.end <= start or start >= end:
                continue
            self._add(Cause.UNCOVERED, start, min(end, batch.start))
            inside = max(start, batch.start)
            self._add(Cause.UNSEEN, inside, min(end, batch.end))
            start = max(start, min(end, batch.end))
        self._add(Cause.UNCOVERED, start, end)

    def _add(self, cause: Cause, start: int, end: int) -> None:
        if start < end:
            self.holes.setdefault(cause, Holes()).add(start, end)


def _gaps(offsets: np.ndarray, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Give the ranges of ``[start, end)`` that sorted offsets leave out."""
    edges = np.concatenate(([start - 1], offsets, [end]))
    for index in np.flatnonzero(np.diff(edges) > 1).tolist():
        yield next_offset(int(edges[index])), int(edges[next_offset(index)])


def _joined(batches: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Give the ranges that batches cover together, in order."""
    last: OffsetRange | None = None
    for batch in sorted(set(batches)):
        if last is not None and batch.start <= last.end:
            last = OffsetRange(last.start, max(last.end, batch.end))
            continue
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last
