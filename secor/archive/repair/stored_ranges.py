"""Which offsets the objects of a topic partition cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition, next_offset
from secor.core.object_info import ObjectInfo

OF_OTHERS = "written-by-others"
"""Fingerprint of objects that say nothing of their settings."""


@dataclass(frozen=True, slots=True)
class StoredRange:
    """One object and its batch.

    An object without our metadata is taken to reach to the next one.  The last of them
    ends after its last message, where it records offsets; else it has no ``end``: nothing
    says where it ends.
    """

    archived: ArchivedObject
    start: int
    end: int | None

    def reaches(self, offset: int) -> bool:
        """Return whether it may hold offsets at or above ``offset``."""
        return self.end is None or self.end > offset

    def straddles(self, offset: int) -> bool:
        """Return whether it may hold offsets on both sides of ``offset``."""
        return self.start < offset and self.reaches(offset)


def extents_of(
    archive: Archive, topic_partition: TopicPartition, *, superseded: bool = False
) -> list[StoredRange]:
    """Return the objects of a topic partition by start, of every generation, also those in
    quarantine and, if asked for, those that are ``superseded``.
    """
    stored_objects = archive.everything(
        topic_partition.topic, partitions=[topic_partition.partition], superseded=superseded
    )
    return [
        # Only the last objects without metadata are read: of the others names say enough.
        extent if extent.end is not None else replace(extent, end=_end_of(archive, extent.archived))
        for extent in with_extents(list(stored_objects))
    ]


def _end_of(archive: Archive, archived: ArchivedObject) -> int | None:
    """Read an object to its last offset; None where it records none."""
    end = None
    try:
        for batch in archive.read(archived):
            last = pc.max(batch.column("offset")).as_py()
            end = end if last is None else next_offset(last)
    except CorruptFile:
        return None
    return end


def with_extents(objects: Sequence[ArchivedObject]) -> list[StoredRange]:
    """Return the extents of the objects of one topic partition."""
    ordered = sorted(objects, key=lambda archived: (archived.batch_start, archived.key))
    return [
        StoredRange(
            archived,
            archived.batch_start,
            archived.info.batch.end if archived.info else _next(archived, ordered),
        )
        for archived in ordered
    ]


def _next(archived: ArchivedObject, ordered: Iterable[ArchivedObject]) -> int | None:
    later = (
        other.batch_start
        for other in ordered
        if other.name.generation == archived.name.generation
        and other.batch_start > archived.batch_start
        and _begins_behind(archived, other)
    )
    return next(later, None)


def _begins_behind(archived: ArchivedObject, other: ArchivedObject) -> bool:
    """Return whether an object that begins later holds later offsets alone.

    A connector's objects of several directories have offsets between one another's.
    """
    if not archived.name.of_connect or other.info is not None:
        return True
    return other.name.output_partition == archived.name.output_partition


def batches_of(extents: Iterable[StoredRange], generation: int) -> list[OffsetRange]:
    """Return the batches of the objects of a generation, in order."""
    return sorted(
        {
            extent.archived.info.batch
            for extent in extents
            if extent.archived.info and extent.archived.name.generation == generation
        }
    )


def described_by_neighbours(
    objects: Sequence[ArchivedObject], committed: Callable[[int, int], int]
) -> list[ArchivedObject]:
    """Return the objects of a topic, also those without our metadata with a range, if it is known.

    Java Secor begins a batch where the one before ended, so the next name says where it ends;
    behind the last one that is what is ``committed`` of a partition and generation.  How many
    messages it has is not known.
    """
    by_partition: dict[int, list[ArchivedObject]] = {}
    for archived in objects:
        by_partition.setdefault(archived.name.partition, []).append(archived)
    extents = {
        extent.archived.key: extent
        for of_partition in by_partition.values()
        for extent in with_extents(of_partition)
    }
    return [_with_range(extents[archived.key], committed) for archived in objects]


def _with_range(extent: StoredRange, committed: Callable[[int, int], int]) -> ArchivedObject:
    archived, name = extent.archived, extent.archived.name
    of_others = archived.fault is not None or name.of_connect is not None or name.end is not None
    if archived.info is not None or of_others or name.replayed:
        return archived
    end = extent.end
    if end is None:
        end = committed(name.partition, name.generation)
    if end <= extent.start:
        return archived
    batch, where = OffsetRange(extent.start, end), archived.topic_partition
    info = ObjectInfo(where, batch, extent.start, 0, name.generation, OF_OTHERS)
    return replace(archived, info=info)
