"""Files of tables in Google's and Azure's stores, read and written by the group's own store.

So metadata has the same credentials, endpoint, proxy and retries as data files, and is put if
absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Self, cast

import crc32c
from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

from secor.core.errors import AccessDenied, AlreadyExists, NotFound, SecorError
from secor.core.ports import ObjectStore
from secor.tables.staging.uri_store import CLOUD_SCHEMES

MOST_CACHED = 32
"""Sets of properties; a catalog may lend other credentials with each load."""

CONNECTION_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")
"""Prefixes of the properties with a file system's address and credentials."""

FileSystems = Callable[[str, str | None], FileSystem]
"""Returns the file system of a scheme and, for example, a bucket."""


class ArrowFiles(PyArrowFileIO):
    """The library's file access by pyarrow; instances with equal properties share file systems."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self.fs_by_scheme = _file_systems(_connecting(properties))


def _connecting(properties: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    named = {
        name: str(value)
        for name, value in properties.items()
        if name.startswith(CONNECTION_PREFIXES)
    }
    # Sorted: equal properties in another order share a file system, too.
    return tuple(sorted(named.items()))


@lru_cache(maxsize=MOST_CACHED)
def _file_systems(properties: tuple[tuple[str, str], ...]) -> FileSystems:
    file_systems: FileSystems = PyArrowFileIO(dict(properties)).fs_by_scheme
    return file_systems


STORE = "secor.store"
"""The property of the catalog that has the store: an ``ObjectStore`` that takes URIs as keys."""

_BEGINNINGS = tuple(f"{scheme}://" for scheme in CLOUD_SCHEMES)


class StoreFiles(FileIO):
    """The library's file access: locations in the clouds are in the store of ``STORE``.

    All others are pyarrow's, which the library uses by itself.
    """

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self._store = cast(ObjectStore, properties[STORE])
        self._others = ArrowFiles(properties)

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        if location.startswith(_BEGINNINGS):
            return StoredFile(self._store, location)
        return self._others.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        if location.startswith(_BEGINNINGS):
            return StoredFile(self._store, location)
        return self._others.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; one that is absent is no error."""
        path = location if isinstance(location, str) else location.location
        if not path.startswith(_BEGINNINGS):
            self._others.delete(path)
            return
        with _as_library_errors():
            self._store.delete(path)


class StoredFile(InputFile, OutputFile):
    """One object, by its URI."""

    def __init__(self, store: ObjectStore, location: str) -> None:
        super().__init__(location)
        self._store = store

    @property
    def location(self) -> str:
        """The URI."""
        return self._location

    def __len__(self) -> int:
        """Return the size in bytes."""
        with _as_library_errors():
            return self._store.head(self._location).size

    def exists(self) -> bool:
        """Return whether the object is there."""
        with _as_library_errors():
            try:
                self._store.head(self._location)
            except NotFound:
                return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """Open for reading, seekable."""
        with _as_library_errors():
            return self._store.open(self._location)

    def to_input_file(self) -> InputFile:
        """Return the file to read it."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return a stream whose bytes are put when it is closed, whole or not at all."""
        if not overwrite and self.exists():
            raise FileExistsError(self._location)
        return _Upload(self, overwrite=overwrite)

    def put(self, content: bytes, *, overwrite: bool) -> None:
        """Put the object.

        An object that is there and has the same content may be our own, after a lost answer.
        Raises ``FileExistsError`` for another one that must not be replaced.
        """
        with _as_library_errors():
            try:
                self._store.put(self._location, content, crc32c.crc32c(content), {})
            except AlreadyExists:
                with self._store.open(self._location) as file:
                    if file.read() == content:
                        return
                if not overwrite:
                    raise
                # Stores here know put-if-absent alone. Only the library's own rewriting of a file
                # comes this way.
                self._store.delete(self._location)
                self._store.put(self._location, content, crc32c.crc32c(content), {})


class _Upload:
    """The library's ``OutputStream``: metadata is small, so its bytes wait in memory."""

    def __init__(self, file: StoredFile, *, overwrite: bool) -> None:
        self._file = file
        self._overwrite = overwrite
        self._content: bytearray | None = bytearray()

    def write(self, content: bytes) -> int:
        """Append bytes; return how many."""
        if self._content is None:
            raise ValueError(f"{self._file.location} is closed")
        self._content += content
        return len(content)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return len(self._content or b"")

    def close(self) -> None:
        """Put the object, the first time."""
        content, self._content = self._content, None
        if content is not None:
            self._file.put(bytes(content), overwrite=self._overwrite)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._content = None  # half of a file is never put
        self.close()


@contextmanager
def _as_library_errors() -> Iterator[None]:
    """Raise ``OSError``s: by these the library distinguishes files from the catalog."""
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(str(error)) from error
    except AlreadyExists as error:
        raise FileExistsError(str(error)) from error
    except AccessDenied as error:
        raise PermissionError(str(error)) from error
    except SecorError as error:
        raise OSError(str(error)) from error
