"""One object for each commit of a table, with its whole vector and files, for later rollbacks.

``<prefix>/_commits/<table uuid>/<commit id>.json`` is put, if absent, before its commit.  If the
commit is refused, its object is an orphan, which ``secor tables expire`` removes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from secor.core.errors import CorruptFile, NotFound, Unavailable
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes
from secor.core.text import load_json
from secor.tables.commit.vector import Vector
from secor.tables.staging.finished_replays import FinishedReplays
from secor.tables.staging.manifest import TableFiles, parse_table_files, table_files_data

DIRECTORY = "_commits"
VERSION = 1


@dataclass(frozen=True, slots=True)
class CommitObject:
    """A commit that is about to be made.

    ``manifests`` are the keys that its ``files`` come from; ``previous`` is the group's commit
    before it; ``time`` wall clock milliseconds.  With ``previous_in_part`` the branch has only the
    lower snapshot of the commit before: a person went on without the rows that it had appended.
    """

    id: str
    group: str
    table: str
    uuid: str
    previous: str | None
    time: int
    vector: Vector
    manifests: tuple[str, ...]
    files: tuple[TableFiles, ...]
    previous_in_part: bool = False

    def dump(self) -> bytes:
        """Return the object's bytes."""
        data = {
            "id": self.id,
            "group": self.group,
            "table": self.table,
            "uuid": self.uuid,
            "previous": self.previous,
            "at": self.time,
            "vector": load_json(self.vector.dump()),
            "manifests": self.manifests,
            "files": [table_files_data(files) for files in self.files],
            "version": VERSION,
        }
        if self.previous_in_part:
            data["previous_in_part"] = True
        return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, body: bytes, key: str) -> Self:
        """Read it back.  Raises ``CorruptFile`` naming ``key``."""
        try:
            data: dict[str, Any] = load_json(body)
            version = data.pop("version")
            if version != VERSION:
                raise ValueError(f"version {version}; this Secor reads {VERSION}")
            read: Mapping[str, Any] = {
                "time": data.pop("at"),
                "vector": Vector.parse(json.dumps(data["vector"]), key),
                "manifests": tuple(data["manifests"]),
                "files": tuple(parse_table_files(files) for files in data["files"]),
            }
            return cls(**{**data, **read})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFile(f"{key}: no commit of Secor's ({error})") from error


@dataclass(frozen=True, slots=True)
class ListedCommit:
    """A commit object as the listing shows it; ``modified`` in seconds since the epoch."""

    key: str
    uuid: str
    id: str
    size: int
    modified: float


class CommitHistory:
    """The commit objects below a group's prefix."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self.replays = FinishedReplays(store, prefix)
        parts = [part for part in prefix.split("/") if part]
        self._root = "/".join([*parts, DIRECTORY]) + "/"

    def key(self, uuid: str, commit_id: str) -> str:
        """Return the key of a commit of the table ``uuid``."""
        return f"{self._root}{uuid}/{commit_id}.json"

    def put(self, commit: CommitObject) -> None:
        """Put it.  Raises ``Unavailable`` if there is one of this id: an id is used once."""
        key = self.key(commit.uuid, commit.id)
        # The id of an attempt is used once: an object that is there is that of an attempt which may
        # be in the table.
        if not put_bytes(self._store, key, commit.dump()):
            raise Unavailable(f"{key}: a commit of this id was started before; trying another")

    def read(self, uuid: str, commit_id: str) -> CommitObject:
        """Read one.  Raises ``NotFound``, ``CorruptFile``."""
        key = self.key(uuid, commit_id)
        with self._store.open(key) as file:
            body = file.read()
        return CommitObject.parse(body, key)

    def back_from(self, uuid: str, commit_id: str | None) -> Iterator[CommitObject]:
        """Give commits from ``commit_id`` back, as far as their objects are kept."""
        while commit_id is not None:
            try:
                commit = self.read(uuid, commit_id)
            except NotFound:
                return
            yield commit
            commit_id = commit.previous

    def list(self) -> Iterator[ListedCommit]:
        """Give all commit objects of all tables."""
        for stored in self._store.list(self._root):
            uuid, _, name = stored.key[len(self._root) :].partition("/")
            if name.endswith(".json") and "/" not in name:
                commit_id = name.removesuffix(".json")
                yield ListedCommit(stored.key, uuid, commit_id, stored.size, stored.modified)

    def tables(self) -> set[str]:
        """Return the names of all tables that have commit objects, by their newest objects.

        Raises ``CorruptFile``.
        """
        newest: dict[str, ListedCommit] = {}
        for listed in self.list():
            known = newest.get(listed.uuid)
            # The newest object has the present name: a table that was renamed keeps its uuid.
            if known is None or listed.modified >= known.modified:
                newest[listed.uuid] = listed
        return {self.read(commit.uuid, commit.id).table for commit in newest.values()}
