"""What a process has seen of source partitions: objects that vanish under it are missed."""

from __future__ import annotations

import threading

from secor.core.model import OffsetRange
from secor.restore.model import SourcePartition


class KnownRanges:
    """The archived offsets of each source partition, from the least to the greatest seen.

    For any number of threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[SourcePartition, OffsetRange] = {}

    def add(self, source: SourcePartition, seen: OffsetRange) -> OffsetRange:
        """Take what the archive has now; return it with all that it ever had."""
        with self._lock:
            known = self._known.get(source, seen)
            whole = OffsetRange(min(known.start, seen.start), max(known.end, seen.end))
            self._known[source] = whole
            return whole

    def of(self, source: SourcePartition) -> OffsetRange:
        """Return all that the archive ever had; the range ``[0, 0)`` where that is nothing."""
        with self._lock:
            return self._known.get(source, OffsetRange(0, 0))

    def sources(self) -> list[SourcePartition]:
        """Return the source partitions that ever had an object."""
        with self._lock:
            return list(self._known)
