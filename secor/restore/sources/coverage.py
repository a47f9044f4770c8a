"""Which archived objects have which offsets of a source partition: pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from secor.archive.backfill.coverage import UNKNOWN_END, gaps, segments_of
from secor.archive.backfill.model import Segment
from secor.archive.objects import ArchivedObject
from secor.core.model import OffsetRange
from secor.core.text import how_many


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
        """Messages, as metadata tells; None where an object has none."""
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
    ordered = sorted(objects, key=lambda archived: (archived.name.generation, *_range(archived)))
    for generation, of_generation in groupby(ordered, key=lambda it: it.name.generation):
        batches = [
            (start, end, tuple(group)) for (start, end), group in groupby(of_generation, key=_range)
        ]
        for at, (start, end, group) in enumerate(batches):
            if end == UNKNOWN_END:
                later = (after for after, _, _ in batches[at + 1 :] if after > start)
                end = next(later, UNKNOWN_END)
            units.append(Unit(start, end, generation, group))
    return units


def cover(units: Sequence[Unit]) -> Coverage:
    """Give each offset to one unit: to the newest generation, then to the earliest batch."""
    preferred = sorted(units, key=lambda unit: (-unit.generation, unit.start, unit.end))
    segments = segments_of(
        [
            Segment(str(at), unit.start, unit.end, unit.size)
            for at, unit in enumerate(preferred)
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
    if len(ids) > 1:
        named = ", ".join(f"{topic_id} in generation {ids[topic_id]}" for topic_id in sorted(ids))
        yield (
            f"the objects are of {len(ids)} logs under one topic name (topic ids {named}): choose"
            " one by source.generations"
        )
    for _, of_generation in groupby(units, key=lambda unit: unit.generation):
        yield from _hidden([unit for unit in of_generation if unit.records is not None])


def _hidden(units: Iterable[Unit]) -> Iterator[str]:
    """Tell of units that claim the offsets of others, and have fewer messages than those.

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
                f"{wide.objects[0].key}: its metadata tells of {OffsetRange(wide.start, wide.end)}"
                f" and of {how_many(wide.records or 0, 'message')}, and other objects of these"
                f" offsets have {inside:,}: it is forged or damaged; move it away"
            )
        wide, inside, reached = unit, 0, -1
