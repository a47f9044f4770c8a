"""The backup group's layout: buckets of offsets (``offset=0``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.core.model import Chunk, Part


@dataclass(frozen=True, slots=True)
class OffsetBuckets:
    """``offset=<floor(offset / size) * size>``: Java Secor's backup layout."""

    size: int = 10_000_000

    @property
    def identity(self) -> str:
        """The layout's name and size."""
        return f"offset-buckets-{self.size}"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Cut the chunk where an offset reaches the next bucket."""
        offsets = chunk.records.column("offset").to_numpy()
        parts: list[Part] = []
        row = 0
        while row < len(offsets):
            bucket = int(offsets[row]) // self.size * self.size
            # By offset, not by count: compacted logs and transactions leave gaps.
            end = int(offsets.searchsorted(bucket + self.size))
            parts.append(Part(f"offset={bucket}", chunk.records.slice(row, end - row)))
            row = end
        return parts
