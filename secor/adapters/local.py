"""A store in a local directory.

An object ``a/b`` has its user metadata as JSON in ``a/.b.metadata``; a file without one,
which somebody else has put there, is an object without metadata.  The file ``.secor/lock``
below the directory is held while a name is taken or given up; unfinished files are in
``.secor`` as well.  An object appears by a hard link of a finished, synced file, after its
metadata: whatever is listed is whole.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import crc32c as checksum
import msgspec

from secor.core.errors import (
    AccessDenied,
    AlreadyExists,
    ConfigurationError,
    NotFound,
    OutcomeUnknown,
    RestartPartition,
    StopPartition,
    Unavailable,
    damaged_content,
)
from secor.core.model import StoredObject
from secor.core.small_objects import with_sha256

_PRIVATE = ".secor"
_SIDECAR = ".metadata"
_BLOCK = 1 << 20
_ABANDONED = 24 * 3600.0
_BAD_NAMES = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class DirectoryStore:
    """An ``ObjectStore`` in ``directory``, on one file system that has hard links.

    Many processes may use it at once.  Keys are relative paths; one that leaves the
    directory, or looks like the store's own files, raises ``StopPartition``.
    """

    def __init__(self, directory: Path, *, sha256: bool = False) -> None:
        """``sha256``: the metadata has the hash of the bytes."""
        self._directory = directory
        self._sha256 = sha256
        self._private = directory / _PRIVATE

    def check(self) -> None:
        """Make the directory if needed, and see that it can be written.

        Removes what crashed processes left unfinished over a day ago.
        Raises ``AccessDenied``, ``Unavailable``, ``ConfigurationError`` for what is no directory.
        """
        with _translated("use", self._directory):
            if self._directory.exists() and not self._directory.is_dir():
                raise ConfigurationError(
                    f"{self._directory} is no directory: correct store.local.directory"
                )
        with _translated("use", self._directory), self._locked():
            for file in self._private.glob("*.tmp"):
                if file.stat().st_mtime < time.time() - _ABANDONED:
                    file.unlink(missing_ok=True)

    def put(
        self, key: str, content: Path | bytes, crc32c: int, metadata: Mapping[str, str]
    ) -> None:
        """Store a file's bytes, or these; see ``ObjectStore``.

        Raises ``RestartPartition`` when the content does not have this CRC32C.
        """
        target = self._file(key)
        if self._sha256:
            metadata = with_sha256(metadata, content)
        temporary = self._private / f"{uuid.uuid4().hex}.tmp"
        with _translated("put", target):
            _refuse_existing(target)
            self._private.mkdir(parents=True, exist_ok=True)
            try:
                _write(content, temporary, crc32c)
                with self._locked():
                    _refuse_existing(target)
                    _make_directory(target.parent)
                    # The metadata before the object: whatever is listed is whole. What a crash
                    # leaves is replaced by the next put.
                    self._write_sidecar(target, metadata)
                    _show(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)

    def head(self, key: str) -> StoredObject:
        """Return the object with its metadata; see ``ObjectStore``."""
        target = self._file(key)
        with _translated("look at", target):
            try:
                if not target.is_file():
                    raise _not_found(target)
                metadata = _metadata(_sidecar(target))
                stat = target.stat()  # now: what is being deleted loses its metadata last
            except FileNotFoundError as error:
                raise _not_found(target) from error
        return StoredObject(key, stat.st_size, stat.st_mtime, metadata)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Give the objects by key; see ``ObjectStore``."""
        with _translated("list", self._directory / prefix):
            yield from self._walk(prefix.rpartition("/")[0], prefix)

    def open(self, key: str) -> BinaryIO:
        """Open for reading; see ``ObjectStore``."""
        target = self._file(key)
        with _translated("open", target):
            if not target.is_file():
                raise _not_found(target)
            return target.open("rb")

    def delete(self, key: str) -> None:
        """Delete; directories that it leaves empty stay."""
        target = self._file(key)
        with _translated("delete", target), self._locked():
            if target.is_file():
                # The object first: a reader between the two steps finds none, instead of one
                # without metadata.
                target.unlink()
                _sidecar(target).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        parts = key.split("/")
        hostile = any(part in {"", ".", ".."} or "\0" in part for part in parts)
        if hostile or parts[0] == _PRIVATE or _is_sidecar(parts[-1]):
            raise StopPartition(
                f"{key!r} cannot be the key of an object in {self._directory}: it has empty or"
                " dotted parts, or is a name that the store needs for itself;"
                " change the prefix or the layout"
            )
        return self._directory.joinpath(*parts)

    def _write_sidecar(self, target: Path, metadata: Mapping[str, str]) -> None:
        """Replace what a crashed put may have left, in one step."""
        temporary = self._private / f"{uuid.uuid4().hex}.tmp"
        content = {name.lower(): value for name, value in metadata.items()}
        try:
            with temporary.open("xb") as file:
                file.write(json.dumps(content, sort_keys=True).encode())
                file.flush()
                # Before it gets its name: a power cut could otherwise leave the name with an empty
                # file.
                os.fsync(file.fileno())
            temporary.replace(_sidecar(target))
        finally:
            temporary.unlink(missing_ok=True)

    def _walk(self, directory: str, prefix: str) -> Iterator[StoredObject]:
        """Go through the tree in the order of keys: ``a-b`` comes before ``a/b``."""
        try:
            with os.scandir(self._directory / directory) as entries:
                children = [(entry.name, entry.is_dir()) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in sorted(name + "/" if is_directory else name for name, is_directory in children):
            key = f"{directory}/{name}" if directory else name
            if name.endswith("/"):
                if key != _PRIVATE + "/" and (key.startswith(prefix) or prefix.startswith(key)):
                    yield from self._walk(key[:-1], prefix)
            elif key.startswith(prefix) and not _is_sidecar(name):
                yield from self._listed(key)

    def _listed(self, key: str) -> Iterator[StoredObject]:
        try:
            stat = (self._directory / key).stat()
        except FileNotFoundError:  # deleted since the directory was read
            return
        yield StoredObject(key, stat.st_size, stat.st_mtime)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock, which ends with the process."""
        self._private.mkdir(parents=True, exist_ok=True)
        with (self._private / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _sidecar(target: Path) -> Path:
    return target.with_name(f".{target.name}{_SIDECAR}")


def _is_sidecar(name: str) -> bool:
    return name.startswith(".") and name.endswith(_SIDECAR)


def _metadata(sidecar: Path) -> dict[str, str]:
    """Return what a sidecar says, nothing where there is none.  Raises ``StopPartition``."""
    if not sidecar.exists():
        return {}
    try:
        return msgspec.json.decode(sidecar.read_bytes(), type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise StopPartition(
            f"{sidecar} is damaged: {error}; restore it, or delete it: its object is then"
            " somebody else's"
        ) from error


def _refuse_existing(target: Path) -> None:
    if target.is_dir():
        raise StopPartition(
            f"{target} is a directory: a key cannot begin another key; change the layout"
        )
    if target.exists():
        raise AlreadyExists(f"{target} exists")


def _not_found(target: Path) -> NotFound:
    return NotFound(f"{target} does not exist")


def _write(content: Path | bytes, temporary: Path, crc32c: int) -> None:
    """Write and sync, checking the bytes on their way."""
    seen = 0
    with _opened(content) as source, temporary.open("xb") as sink:
        while block := source.read(_BLOCK):
            seen = checksum.crc32c(block, seen)
            sink.write(block)
        sink.flush()
        # On disk before the link: ``committed`` moves after this, and there is no second copy.
        os.fsync(sink.fileno())
    if seen != crc32c:
        name = content if isinstance(content, Path) else "the content"
        raise damaged_content(name, seen, crc32c)


def _opened(content: Path | bytes) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    if not content.is_file():
        raise RestartPartition(f"{content} is gone: its messages are read again")
    return content.open("rb")


def _make_directory(directory: Path) -> None:
    """Make it and what is above it, each synced into its parent."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync(directory.parent)


def _show(temporary: Path, target: Path) -> None:
    try:
        # A link fails where the name exists; a rename would replace the object.
        target.hardlink_to(temporary)
    except FileExistsError as error:  # by a program that does not know of the lock
        raise AlreadyExists(f"{target} exists") from error
    try:
        _sync(target.parent)
    except OSError as error:
        raise OutcomeUnknown(f"{target} may not survive a power cut: {error}") from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(verb: str, target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FORBIDDEN:
            raise AccessDenied(
                f"cannot {verb} {target}: {error.strerror}; give this user the right"
            ) from error
        if error.errno in _BAD_NAMES:
            raise StopPartition(
                f"cannot {verb} {target}: {error.strerror}; change the prefix or the layout"
            ) from error
        raise Unavailable(f"cannot {verb} {target}: {error}") from error
