"""The object store port on obstore: conditional puts, listings, reads."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import crc32c as checksum
import obstore
from obstore.exceptions import BaseError

from secor.adapters.clouds.failures import status_of, translated
from secor.adapters.ranged_object import FIRST_WINDOW, RangedObject, read_ahead
from secor.core.errors import (
    NotFound,
    RestartPartition,
    StopPartition,
    Unavailable,
    damaged_content,
)
from secor.core.model import StoredObject
from secor.core.small_objects import with_sha256

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from secor.adapters.clouds.failures import Provider


LARGEST_WINDOW = 8 << 20

Fetch = Callable[[int, int], "tuple[Buffer, int, str | None]"]
"""Gives the bytes from a start to an end, fewer at the object's end, its size and its ETag."""


class CloudObjectReader(RangedObject):
    """An object as a raw, seekable file; one thread at a time.

    The first window after a seek has 256 KiB, each next one twice as much, to 8 MiB, so that
    reading on costs few requests and a look at a footer few bytes.  The first is asked for at
    once: its answer has the size.  Raises what ``fetch`` raises, and ``Unavailable`` where the
    object was replaced meanwhile.
    """

    def __init__(self, fetch: Fetch, name: str) -> None:
        super().__init__(name)
        self._fetch = fetch
        self._next_window = FIRST_WINDOW
        self._start = 0
        self._window, self.size = self._ask(FIRST_WINDOW)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read what the window has, at least a byte before the end."""
        view = memoryview(buffer).cast("B")
        if not len(view) or self._position >= self.size:
            return 0
        if not self._start <= self._position < self._start + len(self._window):
            self._go_on()
        start = self._position - self._start
        piece = self._window[start : start + len(view)]
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def _go_on(self) -> None:
        if self._position != self._start + len(self._window):
            self._next_window = FIRST_WINDOW
        end = min(self._position + self._next_window, self.size)
        self._window, _ = self._ask(end)
        self._start = self._position

    def _ask(self, end: int) -> tuple[memoryview, int]:
        window, size, etag = self._fetch(self._position, end)
        self._require_same(etag)
        self._next_window = min(2 * self._next_window, LARGEST_WINDOW)
        return memoryview(window), size


_CONTENT_TYPE = "Content-Type"
_STORAGE_CLASS = "Storage-Class"
_OF_THE_SERVER = frozenset(
    {
        *(_CONTENT_TYPE, _STORAGE_CLASS, "Cache-Control"),
        *("Content-Disposition", "Content-Encoding", "Content-Language"),
    }
)
_PAGE = 1000


class CloudStore:
    """An ``ObjectStore`` in one bucket or container; threads may share it.

    ``client`` is a store of obstore, ``address`` such as ``gs://bucket``.  An object goes in one
    request, however large it is: obstore's multipart uploads cannot be conditional.  Its file is
    mapped and not read into memory.  With ``sha256`` the metadata has the hash of the bytes.
    """

    def __init__(
        self,
        client: Any,
        address: str,
        provider: Provider,
        *,
        server: str,
        storage_class: str | None = None,
        sha256: bool = False,
    ) -> None:
        self._client = client
        self.address = address
        self._provider = provider
        self._server = server
        self._sha256 = sha256
        self._attributes = {_CONTENT_TYPE: "application/octet-stream"}
        if storage_class is not None:
            self._attributes[_STORAGE_CLASS] = storage_class

    def check(self) -> None:
        """Ask whether the bucket can be listed with these credentials.

        Raises ``AccessDenied`` saying what to correct, ``Unavailable``.
        """
        try:
            with translated(self._provider, f"reach {self.address}"):
                next(iter(obstore.list(self._client, "_secor_check", chunk_size=1)), None)
        except Unavailable as error:
            raise Unavailable(
                f"{error}; look at {self._server} and the network to it, or correct endpoint_url"
                f" of {self._provider.section}"
            ) from error

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Store a file's bytes, or these; see ``ObjectStore``.

        Raises ``RestartPartition`` when the content does not have this CRC32C: it is compared
        before the request, and TLS guards its bytes; obstore sends no checksum.
        """
        if key != key.strip("/"):
            raise StopPartition(f"{key!r} cannot be the key of an object: correct the prefix")
        if self._sha256:
            metadata = with_sha256(metadata, content)
        with _opened(content) as body:
            seen = checksum.crc32c(body)
            if seen != crc32c:
                name = content if isinstance(content, Path) else self._name(key)
                raise damaged_content(name, seen, crc32c)
            with self._translated("put", key, writes=True):
                obstore.put(
                    self._client,
                    key,
                    body,
                    attributes={**self._attributes, **self._provider.encode(metadata)},
                    mode="create",
                    # One request: parts could not be put on the condition that nothing is there.
                    use_multipart=False,
                )

    def head(self, key: str) -> StoredObject:
        """Return the object with its metadata, names in lower case; see ``ObjectStore``."""
        with self._translated("look at", key):
            answer = obstore.get(self._client, key, options={"head": True})
            attributes, meta = answer.attributes, answer.meta
        metadata = {name: text for name, text in attributes.items() if name not in _OF_THE_SERVER}
        modified = meta["last_modified"].timestamp()
        return StoredObject(key, meta["size"], modified, self._provider.decode(metadata))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects by key; see ``ObjectStore``.

        Where the cloud does not promise the order, the keys of the directory are sorted here.
        """
        listed = self._list_directory(prefix)
        if self._provider.sorted_listings:
            yield from listed
        else:
            yield from sorted(listed, key=lambda stored: stored.key)

    def open(self, key: str) -> BinaryIO:
        """Open for reading, seekable, reading ahead; a small object costs one request in all.

        See ``ObjectStore``.
        """

        def fetch(start: int, end: int) -> tuple[Buffer, int, str | None]:
            with self._translated("read", key):
                try:
                    answer = obstore.get(self._client, key, options={"range": (start, end)})
                    return answer.bytes(), answer.meta["size"], answer.meta["e_tag"]
                except BaseError as error:
                    if status_of(error) != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                        raise
            return b"", 0, None  # an empty object has no first byte

        raw = CloudObjectReader(fetch, self._name(key))
        return read_ahead(raw)

    def delete(self, key: str) -> None:
        """Delete; see ``ObjectStore``."""
        try:
            with self._translated("delete", key):
                obstore.delete(self._client, key)
        except NotFound:
            return

    def _list_directory(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects of a prefix as they come: obstore lists whole directories."""
        directory, _, beginning = prefix.rpartition("/")
        # Listed are greater keys than the offset, so what is left away is below every match.
        offset = f"{directory}/{beginning[:-1]}".lstrip("/") if len(beginning) > 1 else None
        with self._translated("list", prefix):
            pages = obstore.list(self._client, directory or None, offset=offset, chunk_size=_PAGE)
            for page in pages:
                for item in page:
                    key = item["path"]
                    if key.startswith(prefix):
                        yield StoredObject(key, item["size"], item["last_modified"].timestamp())
                    elif key > prefix and self._provider.sorted_listings:
                        return

    @contextmanager
    def _translated(self, verb: str, key: str, *, writes: bool = False) -> Iterator[None]:
        with translated(self._provider, f"{verb} {self._name(key)}", writes=writes):
            yield

    def _name(self, key: str) -> str:
        return f"{self.address}/{key}"


@contextmanager
def _opened(content: Path | bytes) -> Iterator[Buffer]:
    """Give the bytes of a file without reading them into memory, or these."""
    if isinstance(content, bytes):
        yield content
        return
    if not content.is_file():
        raise RestartPartition(f"{content} is gone: its messages are read again")
    with content.open("rb") as file:
        if not content.stat().st_size:
            yield b""  # which cannot be mapped
            return
        # Never closed: a connection that is given up may hold the bytes for a while.  The file is
        # unmapped with the last reference to it.
        yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
