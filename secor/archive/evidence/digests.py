"""Digests of objects: the hashes of their bytes, and what evidence has of each."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from crc32c import crc32c

from secor.archive.evidence.record import (
    ObjectRecord,
)
from secor.core.errors import NotFound
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore

WORKERS = 8
_AHEAD = 64
_BLOCK = 4 << 20

Progress = Callable[[int], None]
"""Called with how many bytes were just read."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Size in bytes, and hashes in hexadecimal, of an object's bytes."""

    size: int
    sha256: str
    crc32c: str


def digest_of_bytes(data: bytes) -> Digest:
    """Return the hashes of an object's bytes."""
    return Digest(len(data), hashlib.sha256(data).hexdigest(), f"{crc32c(data):08x}")


def digest_of(store: ObjectStore, key: str, progress: Progress) -> Digest | None:
    """Read a whole object; None where there is none.  Raises ``Unavailable``, ``AccessDenied``."""
    sha256, checksum, size = hashlib.sha256(), 0, 0
    try:
        with store.open(key) as file:
            while block := file.read(_BLOCK):
                sha256.update(block)
                checksum = crc32c(block, checksum)
                size += len(block)
                progress(len(block))
    except NotFound:
        return None
    return Digest(size, sha256.hexdigest(), f"{checksum:08x}")


def digests_of(
    store: ObjectStore, keys: Iterable[str], progress: Progress
) -> Iterator[tuple[str, Digest | None]]:
    """Read objects, several at a time; the order stays."""
    waiting: deque[tuple[str, Future[Digest | None]]] = deque()
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="hash")
    try:
        for key in keys:
            waiting.append((key, pool.submit(digest_of, store, key, progress)))
            if len(waiting) == _AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
        for key, future in waiting:
            yield key, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def object_record(key: str, digest: Digest, info: ObjectInfo | None) -> ObjectRecord:
    """Return what evidence has of an object."""
    return ObjectRecord(
        key,
        info.batch.start if info else None,
        info.batch.end if info else None,
        info.records if info else None,
        digest.size,
        digest.sha256,
        digest.crc32c,
        info.fingerprint if info else None,
    )
