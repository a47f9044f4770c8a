"""Which objects a read needs, and how they become tasks, by names, before any object is opened."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from secor.archive.beginning import Beginning, Beginnings, parse_beginning
from secor.archive.objects import Archive, ArchivedObject, visible
from secor.core.errors import ConfigurationError, NotFound
from secor.core.model import OffsetRange
from secor.core.naming import is_copy, least_offset, parse_key, topic_of
from secor.core.object_info import ObjectInfo
from secor.core.text import how_many
from secor.spark.filter_pushdown import NO_BOUNDS, FilterBounds
from secor.spark.options import ReadOptions, Selection, Span

_log = logging.getLogger("secor.spark")

OPEN_COST = 1 << 20
"""What opening an object costs, in bytes that could have been read meanwhile."""

LEAST_SPLIT = 4 << 20
"""No object is split finer, in bytes."""

MOST_ASKED = 4096
"""With a range of time, metadata of so many objects is asked for while planning; of more, by
the tasks."""

ASKED_AT_ONCE = 8

NOTHING_GIVEN: Mapping[str, OffsetRange] = MappingProxyType({})

_GLOB = re.compile(r"[*?\[]")
_SPLITTABLE = ("", ".seq")
"""Extensions of what may be a SequenceFile; Java Secor's have none."""


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """The bytes ``[start, end)`` of an object; ``asked`` says that its metadata was looked at.

    ``given`` are the offsets that are given of it, where a stream has read the others.
    """

    archived: ArchivedObject
    start: int
    end: int
    asked: bool = False
    given: OffsetRange | None = None

    @property
    def whole(self) -> bool:
        """Return whether it is all of the object."""
        return self.start == 0 and self.end >= self.archived.size


@dataclass(frozen=True, slots=True)
class ReadTask:
    """The pieces of one Spark task, in the order of reading."""

    pieces: tuple[ObjectPart, ...]


def plan(
    archive: Archive, options: ReadOptions, bounds: FilterBounds = NO_BOUNDS
) -> list[ReadTask]:
    """Return the tasks of a batch read; ``bounds`` are those of the query's filters.

    Raises ``ConfigurationError`` where there is nothing at all, or nothing of a topic that
    was named: that is a wrong path far more often than it is an answer.
    """
    selection = bounds.narrowed(options.selection)
    objects = listed(archive, selection)
    if selection.topics == options.selection.topics:
        # Only where the query's filters do not name topics themselves: of those an empty result is
        # an answer.
        _refuse_nothing(objects, options)
    allowed = [archived for archived in filter_names(objects, selection) if bounds.allow(archived)]
    chosen = by_offset(allowed, selection.offsets)
    asked = selection.timestamps.bounded and len(chosen) <= MOST_ASKED
    if asked:
        chosen = [
            archived
            for archived in described(archive, chosen)
            if archived.info is None or may_hold(archived.info, selection)
        ]
    return tasks_of(chosen, options, asked=asked)


def tasks_of(
    objects: Iterable[ArchivedObject],
    options: ReadOptions,
    *,
    asked: bool = False,
    given: Mapping[str, OffsetRange] = NOTHING_GIVEN,
) -> list[ReadTask]:
    """Split what is large and put together what is small, in the order of offsets.

    ``given`` has, by key, the offsets that are given of an object if these are not all.
    """
    ordered = sorted(objects, key=_order)
    total = sum(archived.size + OPEN_COST for archived in ordered)
    target = min(options.split_size, max(LEAST_SPLIT, -(-total // options.min_partitions)))
    # An object is skipped as a whole, so a task that may skip it must see all of it.
    size = None if options.skip_corrupt else target
    pieces = [
        replace(piece, given=given.get(archived.key))
        for archived in ordered
        for piece in split(archived, size, asked=asked)
    ]
    return list(packed(pieces, target))


def listed(archive: Archive, selection: Selection) -> list[ArchivedObject]:
    """Return the objects of the topics asked for, each prefix of the store listed once.

    Those that are superseded are not among them.
    """
    beginnings: dict[str, list[Beginning]] = {}
    present = visible(_listed(archive, selection, beginnings))
    if selection.output_partitions:  # then the records are not among what is listed
        for topic in {archived.topic for archived in present}:
            beginnings[topic] = list(archive.beginnings(topic).agreed)
    agreed = {
        topic: Beginnings(tuple(agreed_beginnings))
        for topic, agreed_beginnings in beginnings.items()
        if agreed_beginnings
    }
    return [
        archived
        for archived in present
        if archived.topic not in agreed or not agreed[archived.topic].is_expired(archived.name)
    ]


def _listed(
    archive: Archive, selection: Selection, beginnings: dict[str, list[Beginning]]
) -> Iterator[ArchivedObject]:
    """Give the objects that are listed; agreed beginnings go to ``beginnings``, by topic."""
    roots: dict[str, str | None] = {}  # by topic; None where it is not asked for
    copies: list[str] = []
    level = sum(1 for part in archive.prefix.split("/") if part) + int(archive.hashed)
    for prefix in _prefixes(archive, selection):
        for stored in archive.store.list(prefix):
            parts = stored.key.split("/", level + 1)
            topic = topic_of(parts[level]) if level < len(parts) - 1 else None
            if topic is None:
                continue
            if topic not in roots:
                asked = _matches(topic, selection.topics)
                roots[topic] = archive.root(topic) if asked else None
            root = roots[topic]
            name = None if root is None else parse_key(root, stored.key)
            if name is not None:
                yield ArchivedObject(topic, name, stored.size, stored.modified)
            elif root is not None and (beginning := parse_beginning(root, stored.key)):
                beginnings.setdefault(topic, []).append(beginning)
            elif root is not None and is_copy(stored.key):
                copies.append(stored.key)
    if copies:
        _log.warning(
            "%s with names of copies not read, such as %s",
            how_many(len(copies), "object"),
            copies[0],
        )


def filter_names(objects: Iterable[ArchivedObject], selection: Selection) -> list[ArchivedObject]:
    """Return the objects that their names allow."""
    partitions, generations = selection.partitions, selection.generations
    return [
        archived
        for archived in objects
        if (partitions is None or archived.name.partition in partitions)
        and (generations is None or archived.name.generation in generations)
        and _matches(archived.name.output_partition, selection.output_partitions)
    ]


def by_offset(objects: Sequence[ArchivedObject], offsets: Span) -> list[ArchivedObject]:
    """Return the objects that may hold one of these offsets, by their names.

    An object begins at or after the offset in its name and ends before the next one of the
    same topic partition, generation and output partition begins.  (Of another output
    partition it need not: objects of earlier versions are named by their first message.)
    """
    if not offsets.bounded:
        return list(objects)
    start = offsets.start or 0
    floors: dict[tuple[str, int, int, str], int] = {}
    for archived in objects:
        first = archived.name.start_offset
        if first <= start:
            # The last object that begins at or before the first offset may hold it; those before it
            # end too early.
            floors[_series(archived)] = max(first, floors.get(_series(archived), 0))
    return [
        archived
        for archived in objects
        if archived.name.start_offset >= floors.get(_series(archived), 0)
        and (offsets.end is None or archived.name.start_offset < offsets.end)
    ]


def may_hold(info: ObjectInfo, selection: Selection) -> bool:
    """Return whether an object's metadata allow that it holds a message asked for."""
    offsets, timestamps = selection.offsets, selection.timestamps
    if offsets.start is not None and info.batch.end <= offsets.start:
        return False
    least, greatest = info.least_timestamp, info.greatest_timestamp
    if least is None or greatest is None:
        return True
    return not timestamps.misses(least, greatest)


def described(archive: Archive, objects: Iterable[ArchivedObject]) -> Iterator[ArchivedObject]:
    """Give the objects with their metadata, several requests at a time."""
    with ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="head") as pool:
        yield from pool.map(lambda archived: describe(archive, archived) or archived, objects)


def describe(archive: Archive, archived: ArchivedObject) -> ArchivedObject | None:
    """Return the object with its metadata; None when the object is gone.

    A directory that Secor did not write has no metadata at all.
    """
    try:
        return archive.describe(archived)
    except NotFound:
        try:
            # Another look that needs no metadata: "not found" may mean that there are none.
            archive.store.open(archived.key).close()
        except NotFound:
            return None
        return archived


def split(
    archived: ArchivedObject, size: int | None, *, asked: bool = False
) -> Iterator[ObjectPart]:
    """Cut an object into pieces of about ``size`` bytes, if its format may allow that."""
    count = 1
    if size is not None and archived.name.extension in _SPLITTABLE:
        count = max(1, round(archived.size / size))
    for index in range(count):
        # In whole numbers, from the same product: neither a gap nor an overlap between two pieces.
        start, end = archived.size * index // count, archived.size * (index + 1) // count
        yield ObjectPart(archived, start, end, asked)


def packed(pieces: Iterable[ObjectPart], target: int) -> Iterator[ReadTask]:
    """Put consecutive pieces together up to ``target`` bytes."""
    gathered: list[ObjectPart] = []
    size = 0
    for piece in pieces:
        cost = piece.end - piece.start + OPEN_COST
        if gathered and size + cost > target + OPEN_COST:
            yield ReadTask(tuple(gathered))
            gathered, size = [], 0
        gathered.append(piece)
        size += cost
    if gathered:
        yield ReadTask(tuple(gathered))


def _order(archived: ArchivedObject) -> tuple[str, int, int, int, str]:
    name = archived.name
    return (
        archived.topic,
        name.partition,
        name.generation,
        least_offset(name),
        name.output_partition,
    )


def _series(archived: ArchivedObject) -> tuple[str, int, int, str]:
    return (
        archived.topic,
        archived.name.partition,
        archived.name.generation,
        archived.name.output_partition,
    )


def _matches(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(name == glob or fnmatchcase(name, glob) for glob in globs)


def _prefixes(archive: Archive, selection: Selection) -> list[str]:
    """Return the prefixes to list: as few as names and globs need, none within another."""
    if not selection.topics or any(_GLOB.search(topic) for topic in selection.topics):
        prefix = "/".join(part for part in archive.prefix.split("/") if part)
        return ["" if archive.hashed or not prefix else prefix + "/"]
    below = [_GLOB.split(glob)[0] for glob in selection.output_partitions] or [""]
    candidates = {f"{archive.root(topic)}/{start}" for topic in selection.topics for start in below}
    return sorted(
        candidate
        for candidate in candidates
        # Objects below two prefixes would be listed twice, and read twice.
        if not any(candidate != other and candidate.startswith(other) for other in candidates)
    )


def _refuse_nothing(objects: Sequence[ArchivedObject], options: ReadOptions) -> None:
    selection = options.selection
    if not objects and not selection.output_partitions:
        what = f" of topic {', '.join(selection.topics)}" if selection.topics else ""
        raise ConfigurationError(
            f"no objects{what} below {options.path}: give the directory that holds the topics"
            " ([output] prefix of the group), and hashPrefix where the group sets hash_prefix"
        )
    topics = {candidate.topic for candidate in objects}
    for wanted in selection.topics:
        if not selection.output_partitions and not any(
            _matches(candidate, [wanted]) for candidate in topics
        ):
            raise ConfigurationError(f"no objects of topic {wanted} below {options.path}")
