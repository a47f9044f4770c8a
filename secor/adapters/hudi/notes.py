"""Notes of the group's commits to Hudi tables: objects in the group's store, one for each commit.

A note without its commit tells that the table was rolled back, or, where the timeline no longer
reaches back so far, that the commit was archived.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.adapters.hudi.definitions import directory_of
from secor.core.errors import CorruptFile
from secor.core.foreign_json import load_json
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.tables.group_record import property_name
from secor.tables.hudi import REQUESTED

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
    """What a note says: Hudi's times of the commit, and the group's properties after it.

    ``requested`` is None in a note that does not tell it.
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
        return sorted(notes, key=lambda it: it.completed)

    def _key(self, identifier: str, name: str) -> str:
        return f"{directory_of(self._prefix, identifier)}{self._group}/commit-{name}"

    def read(self, note: Note) -> NotedCommit:
        """Read one.  Raises ``CorruptFile``."""
        body = read_bytes(self._own, note.key)
        try:
            data = {str(name): str(it) for name, it in load_json(body or b"").items()}
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
        noted = {name: it for name, it in properties.items() if name.startswith(own)}
        body = json.dumps({**noted, REQUESTED: requested}, sort_keys=True).encode()
        put_bytes(self._own, self._key(identifier, f"{completed}.json"), body)
        for note in notes[: -KEPT + 1]:
            self._own.delete(note.key)
