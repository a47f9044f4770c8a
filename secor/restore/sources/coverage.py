"""Which archived objects have which offsets of a source partition: pure."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from secor.archive.backfill.coverage import UNKNOWN_END, gaps, segments_of
from secor.archive.backfill.model import Segment
from secor.archive.objects import ArchivedObject
from secor.core.model import OffsetRange
from secor.core.text import how_many
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import StoredOffset
from secor.restore.preflight import JobFinding, Severity


def since(extent: SourceExtent, stored: StoredOffset | None) -> SourceExtent:
    """Return an extent, with a hole from the committed offset to the first object.

    Without a committed offset there is none: the archive may begin anywhere.  What has expired
    is no hole.
    """
    reached = max(stored.next_offset, extent.beginning) if stored and stored.next_offset else 0
    if not 0 < reached < extent.range.start:
        return extent
    lost = OffsetRange(reached, extent.range.start)
    return replace(extent, holes=(lost, *extent.holes))


def vanished_findings(
    vanished: Mapping[SourcePartition, int], *, holes: bool
) -> Iterator[JobFinding]:
    """Return what is wrong with source partitions that no object is left of.

    ``vanished`` has their committed offsets; nobody knows how many messages were behind these.
    ``holes`` says whether the job may leave messages out.
    """
    for source, next_offset in vanished.items():
        yield JobFinding(
            Severity.WARN if holes else Severity.REFUSE,
            source.topic,
            f"{source}: the job has written it up to offset {next_offset}, and the archive has no"
            " object of it any more; bring the missing objects back, or set source.holes = true",
        )


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
            # Never less: an archive that lost objects must not make a job look finished.
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


@dataclass(frozen=True, slots=True)
class Unit:
    """Objects that hold ``[start, end)`` together: those of one batch.

    ``end`` is ``UNKNOWN_END`` for the last object without metadata.
    """

    start: int
    end: int
    generation: int
    objects: tuple[ArchivedObject, ...]

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return sum(archived.size for archived in self.objects)

    @property
    def records(self) -> int | None:
        """Messages, by metadata; None where an object has none."""
        counts = [archived.info.records for archived in self.objects if archived.info]
        return sum(counts) if len(counts) == len(self.objects) else None


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets ``[start, end)`` of a unit: each offset is in one slice."""

    unit: Unit
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The slices by offset, and what none of them has."""

    slices: tuple[Slice, ...]
    holes: tuple[OffsetRange, ...]
    faults: tuple[str, ...]


def units_of(objects: Iterable[ArchivedObject]) -> list[Unit]:
    """Group a topic partition's objects by batch.

    One without metadata (Java Secor's) reaches to the next of its generation; those of one
    upload have one offset in their names.
    """
    units: list[Unit] = []
    # Within a generation, for numbers of offsets begin again in each.
    ordered = sorted(objects, key=lambda archived: (archived.name.generation, *_range(archived)))
    for generation, of_generation in groupby(ordered, key=lambda stored: stored.name.generation):
        batches = [
            (start, end, tuple(group)) for (start, end), group in groupby(of_generation, key=_range)
        ]
        for index, (start, end, group) in enumerate(batches):
            if end == UNKNOWN_END:
                # Java Secor uploads a whole range before it begins the next: so that object ends
                # there at the latest.
                later = (after for after, _, _ in batches[index + 1 :] if after > start)
                end = next(later, UNKNOWN_END)
            units.append(Unit(start, end, generation, group))
    return units


def cover(units: Sequence[Unit]) -> Coverage:
    """Give each offset to one unit: to the newest generation, then to the earliest batch."""
    # The order of preference is that of the numbers, by which ``segments_of`` decides.
    preferred = sorted(units, key=lambda unit: (-unit.generation, unit.start, unit.end))
    segments = segments_of(
        [
            Segment(str(index), unit.start, unit.end, unit.size)
            for index, unit in enumerate(preferred)
            if unit.end > unit.start
        ]
    )
    slices = tuple(
        Slice(preferred[int(segment.key)], segment.start, segment.end) for segment in segments
    )
    holes: tuple[OffsetRange, ...] = ()
    if slices:
        holes = tuple(gaps(segments, OffsetRange(slices[0].start, slices[-1].end)))
    return Coverage(slices, holes, tuple(_faults(units)))


def _range(archived: ArchivedObject) -> tuple[int, int]:
    if archived.info:
        return archived.info.batch.start, archived.info.batch.end
    return archived.first_offset, UNKNOWN_END


def _faults(units: Iterable[Unit]) -> Iterable[str]:
    objects = [archived for unit in units for archived in unit.objects]
    for archived in objects:
        if archived.fault:
            yield archived.fault
    ids = {
        archived.info.topic_id: archived.name.generation
        for archived in objects
        if archived.info and archived.info.topic_id
    }
    # A topic that was deleted and made again counts its offsets anew: both logs in one target would
    # mix two histories under the same numbers.
    if len(ids) > 1:
        named = ", ".join(f"{topic_id} in generation {ids[topic_id]}" for topic_id in sorted(ids))
        yield (
            f"the objects are of {len(ids)} logs under one topic name (topic ids {named}): choose"
            " one by source.generations"
        )
    for _, of_generation in groupby(units, key=lambda unit: unit.generation):
        yield from _hidden([unit for unit in of_generation if unit.records is not None])


def _hidden(units: Iterable[Unit]) -> Iterator[str]:
    """Yield faults of units that claim the offsets of others, and have fewer messages than those.

    What was stored again, in other sizes, has at least as many.
    """
    wide, inside, reached = None, 0, 0
    for unit in [*sorted(units, key=lambda unit: (unit.start, -unit.end)), None]:
        if wide is not None and unit is not None and unit.end <= wide.end:
            if unit.start >= reached:
                inside, reached = inside + (unit.records or 0), unit.end
            continue
        if wide is not None and inside > (wide.records or 0):
            yield (
                f"{wide.objects[0].key}: its metadata has {OffsetRange(wide.start, wide.end)}"
                f" and {how_many(wide.records or 0, 'message')}, and other objects of these"
                f" offsets have {inside:,}: it is forged or damaged; move it away"
            )
        wide, inside, reached = unit, 0, -1
