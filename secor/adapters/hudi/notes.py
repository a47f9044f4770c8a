"""Notes of the group's commits to Hudi tables: objects in the group's store, one for each commit.

A note without its commit means that the table was rolled back, or, where the timeline no longer
reaches back so far, that the commit was archived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.adapters.hudi.definitions import directory_of
from secor.adapters.hudi.fence import is_undone
from secor.adapters.hudi.timeline import Timeline, TimelineReader
from secor.core.errors import CorruptFile
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.core.text import load_json
from secor.tables.commit.group_record import property_name
from secor.tables.hudi import BACKUPS, REQUESTED

_DATA_FILE = re.compile(r"_(\d{14,17})\.(?:parquet|orc|hfile|log\.[^/]*)$")
_ARCHIVES = (".hoodie/timeline/history/", ".hoodie/archived/")


def delete_leftovers(timelines: TimelineReader, location: str) -> list[str]:
    """Delete files of writes that the timeline of a table does not know; return their keys.

    Also copies of instants whose rollbacks the timeline does not know any more.
    Raises ``Unavailable``, ``AccessDenied``.
    """
    store = timelines.store
    # Files first: each write that goes on is on the timeline before its files are there.
    times = {
        stored.key: matched[1]
        for stored in store.list(f"{location}/")
        if not stored.key.startswith(f"{location}/.hoodie/")
        if (matched := _DATA_FILE.search(stored.key)) is not None
    }
    backups = f"{location}/.hoodie/{BACKUPS}/"
    copies = [stored.key for stored in store.list(backups) if stored.key != backups]
    timeline = timelines.read(location)
    if timeline is None:
        return []
    # Archived commits are on no timeline any more, and their files are the table's: what is older
    # than the oldest known commit is left alone.
    archives = (stored.key for folder in _ARCHIVES for stored in store.list(f"{location}/{folder}"))
    archived = any(not key.endswith("/") for key in archives)
    oldest = _oldest_known(timeline, archived=archived)
    if oldest is None:
        return []
    known = {instant.requested for instant in timeline.completed} | timeline.pending
    left = [
        key
        for key, requested in sorted(times.items())
        if requested not in known and requested >= oldest
    ]
    for key in left:
        store.delete(key)
    planned = timelines.planned_rollbacks(timeline)
    for copy in copies:
        if copy[len(backups) :].partition("_")[0].partition(".")[0] not in planned:
            store.delete(copy)
    return left


def delete_empty_table(timelines: TimelineReader, location: str) -> None:
    """Delete the directories of a table that was not made to the end, if nothing is in them.

    Raises ``Unavailable``, ``AccessDenied``.
    """
    if timelines.read(location) is not None:
        return
    keys = [stored.key for stored in timelines.store.list(f"{location}/.hoodie/")]
    # Only directories: one file means that somebody has begun the table.
    if all(key.endswith("/") for key in keys):
        # The deepest first: a file system does not delete a directory that has something in it.
        for key in sorted(keys, key=len, reverse=True):
            timelines.store.delete(key)


def allow_rollbacks(timelines: TimelineReader, location: str, timeline: Timeline) -> list[str]:
    """Let Hudi roll back writes that it refuses to; return the keys of what was put for that.

    Hudi does not roll a write back where a later one was completed ("please rollback greater
    commits first"), and nobody can begin to write until it is rolled back: one that is unfinished,
    and one that was completed after a rival had planned its rollback.  It makes an exception where
    the write has a heartbeat.  Raises ``Unavailable``, ``AccessDenied``, ``CorruptFile``.
    """
    newest = max((commit.requested for commit in timeline.commits), default="")
    planned = timelines.planned_rollbacks(timeline)
    undone = {
        written.requested
        for written in timeline.commits
        if is_undone(planned, written.requested, written.completed)
        and planned[written.requested] in timeline.pending
    }
    blocking = sorted(instant for instant in timeline.writing | undone if instant < newest)
    keys = [f"{location}/.hoodie/.heartbeat/{instant}" for instant in blocking]
    return [key for key in keys if put_bytes(timelines.store, key, b"")]


def _oldest_known(timeline: Timeline, *, archived: bool) -> str | None:
    """Return since when each commit is on the timeline; None where nobody knows.

    The oldest commits are archived first, unless savepoints keep some of them.
    """
    if not archived:
        return ""
    if any(instant.action == "savepoint" for instant in timeline.completed):
        return None
    return min((commit.requested for commit in timeline.commits), default=None)


KEPT = 100
"""Notes of commits that are kept: of the newest ones.  A rollback beyond them is noticed, and
cannot be replayed.
"""


@dataclass(frozen=True, slots=True)
class Note:
    """A commit that was seen on the timeline; ``completed`` is Hudi's time."""

    key: str
    completed: int


@dataclass(frozen=True, slots=True)
class NotedCommit:
    """The content of a note: Hudi's times of the commit, and the group's properties after it.

    ``requested`` is None in a note without it.
    """

    completed: int
    requested: str | None
    properties: Mapping[str, str]


class CommitNotes:
    """The notes of one group."""

    def __init__(self, own: ObjectStore, prefix: str, group: str) -> None:
        """``own`` is the group's store."""
        self._own = own
        self._prefix = prefix
        self._group = group

    def list(self, identifier: str) -> list[Note]:
        """Return the notes of a table, the oldest first."""
        before = self._key(identifier, "")
        notes = []
        for stored in self._own.list(before):
            number = stored.key[len(before) :].removesuffix(".json")
            if number.isdigit():
                notes.append(Note(stored.key, int(number)))
        return sorted(notes, key=lambda note: note.completed)

    def _key(self, identifier: str, name: str) -> str:
        return f"{directory_of(self._prefix, identifier)}{self._group}/commit-{name}"

    def read(self, note: Note) -> NotedCommit:
        """Read one.  Raises ``CorruptFile``."""
        body = read_bytes(self._own, note.key)
        try:
            data = {str(name): str(value) for name, value in load_json(body or b"").items()}
        except (ValueError, AttributeError) as error:
            raise CorruptFile(f"{note.key}: no note of a commit ({error})") from error
        requested = data.pop(REQUESTED, None)
        return NotedCommit(note.completed, requested, MappingProxyType(data))

    def put(
        self, identifier: str, completed: int, requested: str, properties: Mapping[str, str]
    ) -> None:
        """Note the newest commit, unless it is noted; the oldest notes go."""
        notes = self.list(identifier)
        if notes and completed <= notes[-1].completed:
            return
        own = property_name(self._group, "")
        noted = {name: value for name, value in properties.items() if name.startswith(own)}
        body = json.dumps({**noted, REQUESTED: requested}, sort_keys=True).encode()
        put_bytes(self._own, self._key(identifier, f"{completed}.json"), body)
        for note in notes[: -KEPT + 1]:
            self._own.delete(note.key)
