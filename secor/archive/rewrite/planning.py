"""Which neighbours are joined to which objects: pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from secor.archive.objects import ArchivedObject, visible
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.formats.joining import AS_THEY_ARE, JOINED, Target

VERSION = 1
ERASING_VERSION = 2
"""Of plans that leave messages out: a reader of version 1 alone would join them."""
CONVERTING_VERSION = 3
"""Of plans with another format or codec: a reader of version 1 alone would keep it."""
PLACES_TOGETHER = 4
"""A range has at most so many times the target size, with all its output partitions: a reader
by offset may have all of it in memory."""

MOST_OF_ONE = 2
"""The first and the last batch of a range have at most so many times the bytes of the others: so
each byte is written again a few times, however long small objects follow it."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """One object to make of ``inputs``, keys with their bytes, in the order of offsets.

    ``metadata`` is its own.
    """

    key: str
    extension: str
    inputs: Mapping[str, int]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JoinedRange:
    """Neighbouring batches that become one: an object in each of their output partitions."""

    partition: int
    start: int
    end: int
    objects: tuple[NewObject, ...]

    @property
    def inputs(self) -> list[str]:
        """The keys of the objects that are joined."""
        return [key for new in self.objects for key in new.inputs]

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(size for new in self.objects for size in new.inputs.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan to join objects of a topic; with ``erasure``, a list's number, also to leave out."""

    topic: str
    ranges: tuple[JoinedRange, ...]
    version: int = VERSION
    erasure: int | None = None
    target: Target = AS_THEY_ARE

    @property
    def expected_version(self) -> int:
        """The version that a plan with this content has."""
        if self.target != AS_THEY_ARE:
            return CONVERTING_VERSION
        return VERSION if self.erasure is None else ERASING_VERSION


@dataclass(frozen=True, slots=True)
class FailedRange:
    """A range that stays as it is, and why."""

    range: JoinedRange
    why: str


@dataclass(slots=True)
class RewriteResult:
    """The result of a plan."""

    plan: Plan
    done: list[JoinedRange] = field(default_factory=list)
    failed: list[FailedRange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RewriteLimits:
    """Objects modified at or after ``before`` (seconds since the epoch) stay; sizes in bytes.

    What is made has the format and codec of ``target``; objects whose name says that they have
    not are written again also where they are large or alone.
    """

    before: float
    target_size: int
    target: Target = AS_THEY_ARE

    def converts(self, extension: str) -> bool:
        """Return whether objects with this extension are written again for its sake."""
        return self.new_extension(extension) != extension

    def new_extension(self, extension: str) -> str:
        """Return what objects of this extension become; the same where they stay as they are."""
        try:
            return self.target.extension(extension)
        except ConfigurationError:
            return extension


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """The objects of one batch; ``fixed`` says that it stays as it is.

    One that ``overlaps`` another is not to be rewritten: a rewritten range takes the place of all
    that begins in it.
    """

    generation: int
    range: OffsetRange
    objects: tuple[ArchivedObject, ...]
    fixed: bool = False
    overlaps: bool = False

    @property
    def first(self) -> ObjectInfo:
        """The description of one of its objects."""
        info = self.objects[0].info
        assert info is not None
        return info


def plan_of(
    topic: str,
    objects: Iterable[ArchivedObject],
    quarantined: Iterable[ArchivedObject],
    limits: RewriteLimits,
) -> Plan:
    """Return what to join of a topic's described objects; ``quarantined`` are those of its own.

    A batch stays as it is if it is the newest of its partition and generation (it may not be
    complete), has an object that is young, large, without metadata, in quarantine or replayed from
    there, or overlaps another.  Neighbours are joined while settings and topic are the same.
    """
    by_partition: defaultdict[int, list[ArchivedObject]] = defaultdict(list)
    for archived in objects:
        by_partition[archived.name.partition].append(archived)
    waiting: defaultdict[int, list[OffsetRange]] = defaultdict(list)
    for archived in quarantined:
        start = archived.batch_start
        end = archived.info.batch.end if archived.info else start + 1
        waiting[archived.name.partition].append(OffsetRange(start, end))
    ranges: list[JoinedRange] = []
    for partition, of_partition in sorted(by_partition.items()):
        batches = _batches(of_partition, waiting[partition], limits)
        ranges += (_range(partition, chosen, limits) for chosen in _runs(batches, limits))
    plan = Plan(topic, tuple(ranges), target=limits.target)
    return replace(plan, version=plan.expected_version)


def batches_of(objects: Iterable[ArchivedObject]) -> list[StoredBatch]:
    """Return a partition's batches in the order of offsets."""
    by_range: defaultdict[tuple[int, int, int], list[ArchivedObject]] = defaultdict(list)
    for archived in objects:
        start = archived.batch_start
        # One without a range has at least one message, and may have all that follow.
        end = archived.info.batch.end if archived.info else start + 1
        by_range[start, end, archived.name.generation].append(archived)
    reached = -1
    result: list[StoredBatch] = []
    for (start, end, generation), of_batch in sorted(by_range.items()):
        overlaps = start < reached
        if overlaps and result:
            result[-1] = replace(result[-1], overlaps=True)
        batch = OffsetRange(start, end)
        result.append(StoredBatch(generation, batch, tuple(of_batch), overlaps=overlaps))
        reached = max(reached, end)
    return result


def _batches(
    objects: Sequence[ArchivedObject], waiting: Sequence[OffsetRange], limits: RewriteLimits
) -> list[StoredBatch]:
    """Return a partition's batches in the order of offsets, with what stays as it is."""
    batches = batches_of(objects)
    # The batches are in order, so the last one of each generation stays in the dictionary.
    newest = {batch.generation: batch.range for batch in batches}
    return [
        replace(
            batch,
            fixed=batch.overlaps
            # The newest one may not be complete, and its end is where a lost ledger entry is
            # rebuilt.
            or batch.range == newest[batch.generation]
            # Messages in quarantine may be placed later, into a batch of this very range.
            or any(_meet(batch.range, bad) for bad in waiting)
            or not _may_be_joined(batch, limits),
        )
        for batch in batches
    ]


def _meet(first: OffsetRange, second: OffsetRange) -> bool:
    return first.start < second.end and second.start < first.end


def _may_be_joined(batch: StoredBatch, limits: RewriteLimits) -> bool:
    places = {archived.name.place for archived in batch.objects}
    return len(places) == len(batch.objects) and all(
        archived.info is not None
        and archived.fault is None
        and not archived.name.replayed
        and archived.name.extension in JOINED
        # Old enough that no put of it is under way, and that readers have listed it as it is.
        and archived.modified < limits.before
        and (archived.size < limits.target_size / 2 or limits.converts(archived.name.extension))
        and archived.info.topic_id == batch.first.topic_id
        and archived.info.fingerprint == batch.first.fingerprint
        for archived in batch.objects
    )


def _runs(batches: Sequence[StoredBatch], limits: RewriteLimits) -> Iterator[list[StoredBatch]]:
    """Give batches to join, whose objects become fewer by a third at least."""
    run: list[StoredBatch] = []
    sizes: defaultdict[tuple[str, str], int] = defaultdict(int)
    for batch in batches:
        last = run[-1] if run else None
        more = {archived.name.place: archived.size for archived in batch.objects}
        fits = sum(sizes.values()) + sum(
            more.values()
        ) <= PLACES_TOGETHER * limits.target_size and all(
            sizes[place] + size <= limits.target_size for place, size in more.items()
        )
        if batch.fixed or (last is not None and not (fits and _follows(last, batch))):
            yield from _worth(run, limits)
            run, sizes = [], defaultdict(int)
        if not batch.fixed:
            run.append(batch)
            for place, size in more.items():
                sizes[place] += size
    yield from _worth(run, limits)


def _follows(last: StoredBatch, batch: StoredBatch) -> bool:
    alike = [
        (
            stored_batch.generation,
            stored_batch.first.fingerprint,
            stored_batch.first.topic_id,
            stored_batch.objects[0].name.extension,
        )
        for stored_batch in (last, batch)
    ]
    return last.range.end == batch.range.start and alike[0] == alike[1]


def _worth(run: list[StoredBatch], limits: RewriteLimits) -> Iterator[list[StoredBatch]]:
    """Give a run without the batches at its ends that have little in common with the others.

    Else what was joined yesterday, hour by hour, would be written again today; and a large one
    each day for the sake of a small one.
    """
    if run and limits.converts(run[0].objects[0].name.extension):
        yield run
        return
    while len(run) > 1 and not _belongs(run[0], run[1:]):
        run = run[1:]
    while len(run) > 1 and not _belongs(run[-1], run[:-1]):
        run = run[:-1]
    objects = [archived for batch in run for archived in batch.objects]
    # By a third at least: else bytes are written again, and hardly an object is saved.
    if objects and 3 * len(_places(run)) <= 2 * len(objects):
        yield run


def _belongs(batch: StoredBatch, others: Sequence[StoredBatch]) -> bool:
    shares = 2 * len(_places([batch]) & _places(others)) >= len(batch.objects)
    return shares and _size([batch]) <= MOST_OF_ONE * _size(others)


def _size(batches: Sequence[StoredBatch]) -> int:
    return sum(archived.size for batch in batches for archived in batch.objects)


def _places(batches: Sequence[StoredBatch]) -> set[tuple[str, str]]:
    return {archived.name.place for batch in batches for archived in batch.objects}


def _range(partition: int, batches: Sequence[StoredBatch], limits: RewriteLimits) -> JoinedRange:
    start, end = batches[0].range.start, batches[-1].range.end
    by_place: defaultdict[tuple[str, str], list[ArchivedObject]] = defaultdict(list)
    for batch in batches:
        for archived in batch.objects:
            by_place[archived.name.place].append(archived)
    rewrite = max(archived.name.rewrite for batch in batches for archived in batch.objects) + 1
    objects = (
        _new_object(of_place, OffsetRange(start, end), rewrite, limits)
        for _, of_place in sorted(by_place.items())
    )
    return JoinedRange(partition, start, end, tuple(objects))


def _new_object(
    inputs: Sequence[ArchivedObject], batch: OffsetRange, rewrite: int, limits: RewriteLimits
) -> NewObject:
    infos = [archived.info for archived in inputs if archived.info is not None]
    name = replace(
        inputs[0].name,
        start_offset=batch.start,
        rewrite=rewrite,
        end=batch.end,
        extension=limits.new_extension(inputs[0].name.extension),
    )
    left_out = [info.left_out for info in infos]
    known = [count for count in left_out if count is not None]
    least = [info.least_timestamp for info in infos if info.least_timestamp is not None]
    greatest = [info.greatest_timestamp for info in infos if info.greatest_timestamp is not None]
    info = replace(
        # All of a run have the same fingerprint, generation and topic id (``_follows``), so the
        # first one says them for all.
        infos[0],
        batch=batch,
        first_offset=infos[0].first_offset,
        records=sum(info.records for info in infos),
        least_timestamp=min(least, default=None),
        greatest_timestamp=max(greatest, default=None),
        # Unknown of one is unknown of the sum: ``verify`` must not count with half a number.
        left_out=sum(known) if len(known) == len(left_out) else None,
        # The least: lists above it are applied to the whole object once more, which changes
        # nothing; the greatest would skip them for the others.
        erasures=min(info.erasures or 0 for info in infos) or None,
    )
    return NewObject(
        key=name.key,
        extension=name.extension,
        inputs={archived.key: archived.size for archived in inputs},
        metadata=info.metadata(),
    )


def superseded(objects: Sequence[ArchivedObject]) -> list[ArchivedObject]:
    """Return the objects of a listing that are in the range of one that replaces them.

    Not new ones of a range that does not count yet: they may be another run's, under way.
    """
    shown = visible(objects)
    keys = {archived.key for archived in shown}
    replacing: defaultdict[tuple[int, int], list[ObjectName]] = defaultdict(list)
    for archived in shown:
        if archived.name.end is not None:
            log = archived.name.partition, archived.name.generation
            replacing[log].append(archived.name)
    return [
        archived
        for archived in objects
        if archived.key not in keys
        and any(
            name.start_offset <= archived.name.start_offset < (name.end or 0)
            and archived.name.rewrite < name.rewrite
            for name in replacing[archived.name.partition, archived.name.generation]
        )
    ]
