"""Small objects of a store: markers, receipts, manifests, read and put as bytes."""

from __future__ import annotations

from collections.abc import Mapping

from crc32c import crc32c

from secor.core.errors import AlreadyExists, NotFound
from secor.core.ports import ObjectStore


def read_bytes(store: ObjectStore, key: str) -> bytes | None:
    """Return an object's bytes, None when there is none.  Raises as ``ObjectStore.open``."""
    try:
        with store.open(key) as file:
            return file.read()
    except NotFound:
        return None


def put_bytes(
    store: ObjectStore, key: str, body: bytes, metadata: Mapping[str, str] | None = None
) -> bool:
    """Put an object if it is absent; tell whether it was.

    Raises as ``ObjectStore.put``, but not ``AlreadyExists``.
    """
    try:
        store.put(key, body, crc32c(body), metadata or {})
    except AlreadyExists:
        return False
    return True
