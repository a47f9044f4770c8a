"""One store for a group's own objects and for data files in other stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from secor.core.model import StoredObject
from secor.core.ports import ObjectStore

SCHEME = "://"

CLOUD_SCHEMES = ("gs", "abfs", "abfss")
"""URI schemes of Google Cloud Storage and Azure Blob Storage."""

SCHEMES = ("s3", "s3a", "s3n", "file", *CLOUD_SCHEMES)
"""URI schemes that have a store."""

OpenStore = Callable[[str], tuple[str, ObjectStore]]
"""Takes a URI; returns the part of it that is the store's (ends with a slash), and the store.

Raises ``ConfigurationError`` for a place that no store is known for, ``AccessDenied``.
"""


class UriStore:
    """An ``ObjectStore`` whose keys may be whole URIs: each goes to the store of its location.

    ``own`` takes all other keys.  A store is opened when its first key comes.
    """

    def __init__(self, own: ObjectStore, open_store: OpenStore) -> None:
        self._own = own
        self._open_store = open_store
        self._stores: dict[str, ObjectStore] = {}
        self._lock = threading.Lock()

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Store a file or bytes; see ``ObjectStore``."""
        store, inner, _ = self._of(key)
        store.put(inner, content, crc32c, metadata)

    def head(self, key: str) -> StoredObject:
        """Return an object with its metadata; see ``ObjectStore``."""
        store, inner, root = self._of(key)
        return _named(store.head(inner), root)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give objects by key; see ``ObjectStore``."""
        store, inner, root = self._of(prefix)
        for stored in store.list(inner):
            yield _named(stored, root)

    def open(self, key: str) -> BinaryIO:
        """Open for reading; see ``ObjectStore``."""
        store, inner, _ = self._of(key)
        return store.open(inner)

    def delete(self, key: str) -> None:
        """Delete; see ``ObjectStore``."""
        store, inner, _ = self._of(key)
        store.delete(inner)

    def _of(self, key: str) -> tuple[ObjectStore, str, str]:
        """Return the store of a key, the key in that store, and the root before that key."""
        if SCHEME not in key:
            return self._own, key, ""
        with self._lock:
            for root, store in self._stores.items():
                if key.startswith(root):
                    return store, key[len(root) :], root
            root, store = self._open_store(key)
            self._stores[root] = store
        return store, key[len(root) :], root


def _named(stored: StoredObject, root: str) -> StoredObject:
    if not root:
        return stored
    return StoredObject(root + stored.key, stored.size, stored.modified, stored.metadata)
