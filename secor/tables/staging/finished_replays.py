"""Replays whose rows every table has: one object for each, for ever.

A table's properties name the replays that it has.  They would grow without end.  So once all of
its tables have a replay, it is *finished*: ``<prefix>/_replayed/…`` is put, then the manifest is
deleted, and then tables may forget the replay.  A process that wakes late and stages the replay
again finds the object.
"""

from __future__ import annotations

from secor.core.errors import NotFound
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes
from secor.tables.staging.manifest import staged_prefix
from secor.tables.staging.staged_manifests import Staged

DIRECTORY = "_replayed"


class FinishedReplays:
    """The objects below a group's prefix; for any thread."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._staged = staged_prefix(prefix)
        parts = [part for part in prefix.split("/") if part]
        self._root = "/".join([*parts, DIRECTORY]) + "/"

    def key(self, manifest_key: str) -> str:
        """Return the key of a manifest's record."""
        return self._root + manifest_key.removeprefix(self._staged)

    def has(self, manifest_key: str) -> bool:
        """Return whether a replay is finished.  Raises ``Unavailable``, ``AccessDenied``."""
        try:
            self._store.head(self.key(manifest_key))
        except NotFound:
            return False
        return True

    def add(self, item: Staged) -> None:
        """Finish a replay that all of its tables have."""
        assert item.manifest is not None
        # With the manifest's content, for people: readers only ask whether it is there.
        put_bytes(self._store, self.key(item.listed.key), item.manifest.dump())
