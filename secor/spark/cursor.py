"""The progress of a stream over the archive; pure, and small enough for a checkpoint.

The batches of one topic partition and generation follow one another, and a batch begins only
after all objects of the batch before it are stored.  So for each of them a cursor keeps

- ``settled``: where the newest batch begins; every object below it is there for good;
- ``open``: the keys of the objects seen at or above it, whose batch may still get more.

As JSON: ``{topic: {"<generation>_<partition>": {"settled": offset, "open": [key, ...]}}}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypedDict

from secor.archive.objects import ArchivedObject


class Position(TypedDict):
    """Of one topic partition and generation."""

    settled: int
    open: list[str]


Cursor = dict[str, dict[str, Position]]


def log_of(archived: ArchivedObject) -> tuple[str, str]:
    """Return the topic, and the name of generation and partition."""
    return archived.topic, f"{archived.name.generation}_{archived.name.partition}"


def newest(objects: Iterable[ArchivedObject]) -> list[ArchivedObject]:
    """Return the last object of each log: it tells where the newest batch begins."""
    last: dict[tuple[str, str], ArchivedObject] = {}
    for archived in objects:
        latest = last.get(log_of(archived))
        if latest is None or archived.name.start_offset > latest.name.start_offset:
            last[log_of(archived)] = archived
    return list(last.values())


def cursor_of(
    objects: Iterable[ArchivedObject],
    starts: Callable[[tuple[str, str]], int],
    *,
    only_committed: bool,
) -> Cursor:
    """Return the cursor behind ``objects``; ``starts`` tells where a log's newest batch begins.

    With ``only_committed`` a batch counts only when another one follows it.
    """
    cursor: Cursor = {}
    for archived in objects:
        topic, log = log_of(archived)
        positions = cursor.setdefault(topic, {})
        position = positions.setdefault(log, {"settled": starts((topic, log)), "open": []})
        if archived.name.start_offset >= position["settled"] and not only_committed:
            position["open"].append(archived.key)
    for positions in cursor.values():
        for position in positions.values():
            position["open"].sort()
    return cursor


def never_back(last: Cursor, now: Cursor) -> Cursor:
    """Return ``now``, but for logs whose newest objects have been deleted since ``last``."""
    result = {topic: dict(positions) for topic, positions in now.items()}
    for topic, positions in last.items():
        for log, before in positions.items():
            after = result.setdefault(topic, {}).get(log)
            if after is None or after["settled"] < before["settled"]:
                result[topic][log] = before
    # Spark takes two cursors for the same when their JSON is.
    return {topic: dict(sorted(result[topic].items())) for topic in sorted(result)}


def delivered(cursor: Cursor, archived: ArchivedObject) -> bool:
    """Tell whether a stream at this cursor has given the object."""
    topic, log = log_of(archived)
    position = cursor.get(topic, {}).get(log)
    if position is None:
        return False
    return archived.name.start_offset < position["settled"] or archived.key in position["open"]


def between(objects: Iterable[ArchivedObject], start: Cursor, end: Cursor) -> list[ArchivedObject]:
    """Return the objects behind ``start`` and up to ``end``."""
    return [
        archived
        for archived in objects
        if delivered(end, archived) and not delivered(start, archived)
    ]


def vanished(objects: Iterable[ArchivedObject], start: Cursor) -> Iterator[tuple[str, str, str]]:
    """Give topic, log and key of the open objects of ``start`` that are no longer there."""
    keys = {archived.key for archived in objects}
    for topic, positions in start.items():
        for log, position in positions.items():
            for key in position["open"]:
                if key not in keys:
                    yield topic, log, key
