"""Which offsets which backup objects have, and where batches of the new generation are cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from secor.archive.backfill.model import Segment
from secor.archive.objects import ArchivedObject
from secor.core.model import OffsetRange
from secor.core.naming import least_offset

UNKNOWN_END = 1 << 62
"""Where the last object of a topic partition ends, while only names are known."""


def merged(ranges: Iterable[OffsetRange], *, touching: bool = True) -> list[OffsetRange]:
    """Return the union; without ``touching``, ranges that only meet stay apart."""
    result: list[OffsetRange] = []
    for offset_range in sorted(ranges):
        last = result[-1] if result else None
        joins = last and (
            offset_range.start < last.end or (touching and offset_range.start == last.end)
        )
        if last and joins:
            result[-1] = OffsetRange(last.start, max(last.end, offset_range.end))
        else:
            result.append(offset_range)
    return result


def chosen_by_name(
    objects: Iterable[ArchivedObject], wanted: OffsetRange
) -> tuple[list[ArchivedObject], list[Segment]]:
    """Return a topic partition's objects that may have offsets of a range, and what they cover.

    Objects of one generation of a backup follow one another: each reaches to the next.
    """
    chosen, covers = [], []
    ordered = sorted(objects, key=_by_generation)
    for _, of_generation in groupby(ordered, key=lambda archived: archived.name.generation):
        chain = list(of_generation)
        ends = [*(least_offset(archived.name) for archived in chain[1:]), UNKNOWN_END]
        for archived, end in zip(chain, ends, strict=True):
            start = least_offset(archived.name)
            if start < wanted.end and end > wanted.start and end > start:
                chosen.append(archived)
                covers.append(Segment(archived.key, start, end, archived.size))
    return chosen, covers


def covers_of(objects: Iterable[ArchivedObject]) -> list[Segment]:
    """Return what described objects cover, the newest generation first.

    Objects of one batch divide its range among them; one without metadata reaches to the next.
    """
    covers: list[Segment] = []
    ordered = sorted(objects, key=_by_generation)
    for _, of_generation in groupby(ordered, key=lambda archived: archived.name.generation):
        chain = list(of_generation)
        for index, archived in enumerate(chain):
            following = chain[index + 1] if index + 1 < len(chain) else None
            before = chain[index - 1] if index else None
            covers.append(_cover(archived, before, following))
    return covers


def _by_generation(archived: ArchivedObject) -> tuple[int, int]:
    return -archived.name.generation, least_offset(archived.name)


def _cover(
    archived: ArchivedObject, before: ArchivedObject | None, following: ArchivedObject | None
) -> Segment:
    start = least_offset(archived.name)
    end = least_offset(following.name) if following else UNKNOWN_END
    if archived.info:
        shared = before and before.info and before.info.batch == archived.info.batch
        start = start if shared else archived.info.batch.start
        end = min(end, archived.info.batch.end)
    return Segment(archived.key, start, max(start, end), archived.size)


def segments_of(covers: Sequence[Segment]) -> list[Segment]:
    """Return each offset once, from the first of ``covers`` that has it, in order."""
    taken: list[OffsetRange] = []
    result: list[Segment] = []
    for cover in covers:
        for free in _free(OffsetRange(cover.start, cover.end), taken):
            result.append(Segment(cover.key, free.start, free.end, cover.size))
            _take(taken, free)
    return sorted(result, key=lambda part: part.start)


def _free(wanted: OffsetRange, taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    # One before: the range that begins below may reach into this one.
    index = max(0, bisect_right(taken, wanted) - 1)
    start, free = wanted.start, []
    while index < len(taken) and taken[index].start < wanted.end:
        if taken[index].start > start:
            free.append(OffsetRange(start, taken[index].start))
        start = max(start, taken[index].end)
        index += 1
    if start < wanted.end:
        free.append(OffsetRange(start, wanted.end))
    return free


def _take(taken: list[OffsetRange], free: OffsetRange) -> None:
    """Add a range that is not yet in; those that meet become one."""
    index = bisect_left(taken, free)
    if index and taken[index - 1].end == free.start:
        index -= 1
        free = OffsetRange(taken.pop(index).start, free.end)
    if index < len(taken) and taken[index].start == free.end:
        free = OffsetRange(free.start, taken.pop(index).end)
    taken.insert(index, free)


def within(segments: Sequence[Segment], wanted: OffsetRange) -> list[Segment]:
    """Return the parts of sorted segments that are in a range."""
    first = bisect_right(segments, wanted.start, key=lambda part: part.end)
    result = []
    for part in map(segments.__getitem__, range(first, len(segments))):
        if part.start >= wanted.end:
            break
        start, end = max(part.start, wanted.start), min(part.end, wanted.end)
        result.append(Segment(part.key, start, end, part.size))
    return result


def gaps(segments: Iterable[Segment], wanted: OffsetRange) -> list[OffsetRange]:
    """Return what of a range no segment has."""
    return _free(wanted, merged(OffsetRange(part.start, part.end) for part in segments))


def cut(
    wanted: OffsetRange, batches: Iterable[OffsetRange], segments: Iterable[Segment]
) -> list[OffsetRange]:
    """Cut a range into batches of the new generation: those of the old ones.

    Where no old object has a batch (all was filtered, or nothing was stored), at the
    beginnings of backup objects.
    """
    blocks = merged(batches, touching=False)
    edges = {wanted.start, wanted.end}
    edges |= {edge for block in blocks for edge in (block.start, block.end)}
    for free in _free(wanted, merged(blocks)):
        edges |= {part.start for part in segments if part.start in free}
    inside = sorted(edge for edge in edges if wanted.start <= edge <= wanted.end)
    return [OffsetRange(start, end) for start, end in pairwise(inside)]
