"""Which offsets the objects of a topic partition cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition, next_offset


@dataclass(frozen=True, slots=True)
class Extent:
    """One object and its batch.

    An object without our metadata is taken to reach to the next one.  The last of them
    ends after its last message, where it records offsets; else it has no ``end``: nothing
    tells where it ends.
    """

    found: ArchivedObject
    start: int
    end: int | None

    def reaches(self, offset: int) -> bool:
        """Tell whether it may hold offsets at or above ``offset``."""
        return self.end is None or self.end > offset

    def straddles(self, offset: int) -> bool:
        """Tell whether it may hold offsets on both sides of ``offset``."""
        return self.start < offset and self.reaches(offset)


def extents_of(archive: Archive, topic_partition: TopicPartition) -> list[Extent]:
    """Return the objects of a topic partition by start, of every generation, also those in
    quarantine.
    """
    found = archive.everything(topic_partition.topic, partitions=[topic_partition.partition])
    return [
        one if one.end is not None else replace(one, end=_end_of(archive, one.found))
        for one in with_extents(list(found))
    ]


def _end_of(archive: Archive, found: ArchivedObject) -> int | None:
    """Read an object to its last offset; None where it records none."""
    end = None
    try:
        for batch in archive.read(found):
            last = pc.max(batch.column("offset")).as_py()
            end = end if last is None else next_offset(last)
    except CorruptFile:
        return None
    return end


def with_extents(objects: Sequence[ArchivedObject]) -> list[Extent]:
    """Tell the extents of the objects of one topic partition."""
    ordered = sorted(objects, key=lambda one: (one.batch_start, one.key))
    return [
        Extent(one, one.batch_start, one.info.batch.end if one.info else _next(one, ordered))
        for one in ordered
    ]


def _next(found: ArchivedObject, ordered: Iterable[ArchivedObject]) -> int | None:
    later = (
        one.batch_start
        for one in ordered
        if one.name.generation == found.name.generation and one.batch_start > found.batch_start
    )
    return next(later, None)


def batches_of(extents: Iterable[Extent], generation: int) -> list[OffsetRange]:
    """Return the batches that objects of a generation tell of, in order."""
    return sorted(
        {
            one.found.info.batch
            for one in extents
            if one.found.info and one.found.name.generation == generation
        }
    )
