"""Small objects of a store, read and put as bytes; and the SHA-256 that objects may record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from crc32c import crc32c

from secor.core.errors import AlreadyExists, NotFound, RestartPartition
from secor.core.ports import ObjectStore

SHA256 = "sha256"
"""Name of the metadata with which ``store.sha256`` has an object's hash recorded."""


def with_sha256(metadata: Mapping[str, str], content: Path | bytes) -> dict[str, str]:
    """Return metadata with the hash of an object's bytes, in hexadecimal.

    Raises ``RestartPartition`` where the file is gone.
    """
    if isinstance(content, bytes):
        return {**metadata, SHA256: hashlib.sha256(content).hexdigest()}
    try:
        with content.open("rb") as file:
            return {**metadata, SHA256: hashlib.file_digest(file, "sha256").hexdigest()}
    # The partition was given up meanwhile, and its files are deleted: nothing is wrong with the
    # store.
    except FileNotFoundError as error:
        raise RestartPartition(f"{content} is gone: its messages are read again") from error


def without_sha256(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """Return metadata without it: the setting may have changed between two puts."""
    return {name: value for name, value in (metadata or {}).items() if name != SHA256}


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
    """Put an object if it is absent; return whether it was.

    Raises as ``ObjectStore.put``, but not ``AlreadyExists``.
    """
    try:
        store.put(key, body, crc32c(body), metadata or {})
    except AlreadyExists:
        return False
    return True
