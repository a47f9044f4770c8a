"""The progress of a stream over the archive; pure, and small enough for a checkpoint.

The batches of one topic partition and generation follow one another, and a batch begins only
after all objects of the batch before it are stored.  So for each of them a cursor keeps

- ``settled``: where the newest batch begins; every object below it is there for good;
- ``open``: the keys of the objects seen at or above it, whose batch may still get more;
- ``reached``: where that batch ends, if its metadata has it.

As JSON: ``{topic: {"<generation>_<partition>": {"settled": offset, "open": [key, ...],
"reached": offset}}}``.

A rewritten object holds what objects held that a stream may have given, all or some of them.  It
is never open: which of its offsets are given follows from where two cursors are.  Where it is the
newest, its batch is settled up to its end: only what was committed is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from secor.archive.objects import ArchivedObject
from secor.core.errors import ObjectConflict
from secor.core.model import OffsetRange


class CursorPosition(TypedDict):
    """A position in one topic partition and generation."""

    settled: int
    open: list[str]
    reached: NotRequired[int]


Cursor = dict[str, dict[str, CursorPosition]]


@dataclass(frozen=True, slots=True)
class NewestBatch:
    """The beginning of a log's newest batch and, if its metadata has it, the end.

    Where it was rewritten: the beginning of the one that follows, which is not there yet.
    """

    start: int
    end: int | None = None


def log_of(archived: ArchivedObject) -> tuple[str, str]:
    """Return the topic, and the name of generation and partition."""
    return archived.topic, f"{archived.name.generation}_{archived.name.partition}"


def newest(objects: Iterable[ArchivedObject]) -> list[ArchivedObject]:
    """Return the last object of each log: the newest batch begins there."""
    last: dict[tuple[str, str], ArchivedObject] = {}
    for archived in objects:
        latest = last.get(log_of(archived))
        if latest is None or archived.name.start_offset > latest.name.start_offset:
            last[log_of(archived)] = archived
    return list(last.values())


def cursor_of(
    objects: Iterable[ArchivedObject],
    newest_batch: Callable[[tuple[str, str]], NewestBatch],
    *,
    only_committed: bool,
) -> Cursor:
    """Return the cursor behind ``objects``; ``newest_batch`` returns that of a log.

    With ``only_committed`` a batch counts only when another one follows it.
    """
    cursor: Cursor = {}
    for archived in objects:
        topic, log = log_of(archived)
        positions = cursor.setdefault(topic, {})
        batch = newest_batch((topic, log))
        position = positions.setdefault(log, {"settled": batch.start, "open": []})
        if batch.end is not None and not only_committed:
            position["reached"] = batch.end
        if archived.name.start_offset >= position["settled"] and not only_committed:
            position["open"].append(archived.key)
    for positions in cursor.values():
        for position in positions.values():
            # Listings of different prefixes come in different orders, and Spark compares cursors as
            # JSON.
            position["open"].sort()
    return cursor


def never_back(last: Cursor, now: Cursor) -> Cursor:
    """Return ``now``, but for logs with newest objects that have been deleted since ``last``."""
    result = {topic: dict(positions) for topic, positions in now.items()}
    for topic, positions in last.items():
        for log, before in positions.items():
            after = result.setdefault(topic, {}).get(log)
            if after is None or after["settled"] < before["settled"]:
                result[topic][log] = before
    # Spark takes two cursors for the same when their JSON is.
    return {topic: dict(sorted(result[topic].items())) for topic in sorted(result)}


def delivered(cursor: Cursor, archived: ArchivedObject) -> bool:
    """Return whether a stream at this cursor has given the object."""
    topic, log = log_of(archived)
    position = cursor.get(topic, {}).get(log)
    if position is None:
        return False
    return archived.name.start_offset < position["settled"] or archived.key in position["open"]


def between(objects: Iterable[ArchivedObject], start: Cursor, end: Cursor) -> list[ArchivedObject]:
    """Return the objects that have messages behind ``start`` and up to ``end``."""
    return [
        archived
        for archived in objects
        if (
            delivered(end, archived) and not delivered(start, archived)
            if archived.name.end is None
            else given(archived, start, end) is not None
        )
    ]


def given(archived: ArchivedObject, start: Cursor, end: Cursor) -> OffsetRange | None:
    """Return which offsets of a rewritten object are behind ``start`` and up to ``end``."""
    assert archived.name.end is not None
    whole = OffsetRange(archived.name.start_offset, archived.name.end)
    low = max(whole.start, _reached(start, archived, whole))
    high = min(whole.end, _reached(end, archived, whole))
    return OffsetRange(low, high) if low < high else None


def _reached(cursor: Cursor, archived: ArchivedObject, whole: OffsetRange) -> int:
    """Return below which offset a stream has given the messages of a rewritten object's place."""
    topic, log = log_of(archived)
    position = cursor.get(topic, {}).get(log)
    if position is None:
        return 0
    directory = archived.key.rpartition("/")[0]
    # Nothing open in its output partition: all that was given there ends where the newest batch
    # begins.
    if all(key.rpartition("/")[0] != directory for key in position["open"]):
        return position["settled"]
    reached = position.get("reached")
    if reached is None and position["settled"] not in whole:
        return position["settled"]
    if reached is None:
        raise ObjectConflict(
            f"{archived.key} has messages that this stream has read from other objects, and others"
            f" behind them; the checkpoint does not say where these ended: begin with a new"
            " checkpoint"
        )
    return reached


def vanished(objects: Iterable[ArchivedObject], start: Cursor) -> Iterator[tuple[str, str, str]]:
    """Give topic, log and key of the open objects of ``start`` that are no longer there."""
    keys = {archived.key for archived in objects}
    for topic, positions in start.items():
        for log, position in positions.items():
            for key in position["open"]:
                if key not in keys:
                    yield topic, log, key
