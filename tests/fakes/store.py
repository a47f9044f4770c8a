from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import crc32c as checksum

from secor.core.errors import AlreadyExists, NotFound, RestartPartition
from secor.core.model import StoredObject

Hook = Callable[[str, str], None]


def nothing(call: str, key: str) -> None:
    """Let the call go on."""


@dataclass(frozen=True, slots=True)
class _Object:
    content: bytes
    modified: float
    metadata: dict[str, str]


@dataclass
class FakeStore:
    """An ``ObjectStore`` in memory that fails on command.

    ``before`` and ``after`` are called with the name of each call (``put``, ``head``, ``list``,
    ``open``, ``delete``) and its key or prefix, before and after its effect, and may raise.
    ``audit`` has every put that took effect, in order: its key and the SHA-256 of its bytes.
    ``now`` gives the times of objects.
    """

    before: Hook = nothing
    after: Hook = nothing
    now: Callable[[], float] = lambda: 0.0
    audit: list[tuple[str, str]] = field(default_factory=list)
    objects: dict[str, _Object] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        self.before("put", key)
        if isinstance(content, Path):
            if not content.is_file():
                raise RestartPartition(f"{content} is gone")
            content = content.read_bytes()
        if checksum.crc32c(content) != crc32c:
            raise RestartPartition(f"the content of {key} does not have CRC32C {crc32c:08x}")
        names = {name.lower(): value for name, value in metadata.items()}
        with self._lock:
            if key in self.objects:
                raise AlreadyExists(f"{key} exists")
            self.objects[key] = _Object(content, self.now(), names)
            self.audit.append((key, hashlib.sha256(content).hexdigest()))
        self.after("put", key)

    def head(self, key: str) -> StoredObject:
        self.before("head", key)
        found = self._get(key)
        self.after("head", key)
        return StoredObject(key, len(found.content), found.modified, dict(found.metadata))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.before("list", prefix)
        with self._lock:
            found = [
                (key, self.objects[key]) for key in sorted(self.objects) if key.startswith(prefix)
            ]
        self.after("list", prefix)
        for key, stored in found:
            yield StoredObject(key, len(stored.content), stored.modified)

    def open(self, key: str) -> BinaryIO:
        self.before("open", key)
        content = self._get(key).content
        self.after("open", key)
        return io.BytesIO(content)

    def delete(self, key: str) -> None:
        self.before("delete", key)
        with self._lock:
            self.objects.pop(key, None)
        self.after("delete", key)

    def content(self, key: str) -> bytes:
        """The bytes of an object, past the hooks: for what looks on from outside."""
        return self._get(key).content

    def _get(self, key: str) -> _Object:
        with self._lock:
            if key not in self.objects:
                raise NotFound(f"{key} does not exist")
            return self.objects[key]
