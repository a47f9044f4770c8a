"""Local files of a process: directory, lock, file descriptors, disk full; a cache, never synced."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from secor.batch.local_file import LocalFile, exhausted, retryable
from secor.batch.parse_trail import Death, death_of
from secor.batch.shared_file import KEPT, NO_ROOM, SharedFile
from secor.core.errors import ConfigurationError

# Only these are ever deleted: a local.directory that somebody pointed at a folder of their own must
# not cost them their files.
_OUR_FILES = re.compile(r"\d{9,}|\.lock|\.parsing|\.shared")


class Workspace:
    """A directory of its own for this process, below one that all processes share.

    Directories of processes that ended without cleaning up are deleted when one opens.
    At most ``open_files`` descriptors are open; the longest unused is closed first and
    opened again when it is written.  ``shared`` is for small files, as there are many: ext4
    makes a file several times slower after many were deleted.
    """

    def __init__(
        self, directory: Path, instance: str, open_files: int = 512, most_bytes: int = 8 * KEPT
    ) -> None:
        """Make the directory.  Raises ``ConfigurationError`` or ``LocalFilesExhausted``.

        ``most_bytes`` is the limit of all files; an eighth of it may be room on disk that is kept
        for files to come.
        """
        self._limit = open_files
        self._open: OrderedDict[LocalFile, int] = OrderedDict()
        self._count = 0
        self._making: set[LocalFile] = set()
        self.deaths: list[Death] = []
        """Over what processes of the directories that were deleted had died."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with _starting(directory, self.deaths):
                self.directory = directory / instance
                self.directory.mkdir()
                self._lock = self._take_lock()
                kept = min(KEPT, most_bytes // 8)
                self.shared = SharedFile(self.directory, self._open_file, kept)
        except OSError as error:
            if (full := exhausted(error, directory)) is not None:
                raise full from error
            raise ConfigurationError(
                f"local.directory {directory}: {error.strerror}; name a directory that this "
                "user may write"
            ) from error

    def create(self) -> LocalFile:
        """Begin a file."""
        self._count += 1
        file = LocalFile(self, self.directory / f"{self._count:09d}")
        self._making.add(file)
        return file

    @property
    def in_the_making(self) -> int:
        """Files that are not finished."""
        return len(self._making)

    @property
    def open_files(self) -> int:
        """Descriptors open now."""
        return len(self._open)

    @property
    def free_bytes(self) -> int:
        """Bytes that this process may still write to the file system."""
        room = os.fstatvfs(self._lock)
        return room.f_bavail * room.f_frsize

    def descriptor(self, file: LocalFile) -> int:
        """Return an open descriptor that appends to ``file``."""
        if file in self._open:
            self._open.move_to_end(file)
            return self._open[file]
        while len(self._open) >= self._limit:
            # The longest unused. The file is opened again, at its position, when it is written
            # next.
            os.close(self._open.popitem(last=False)[1])
        flags = os.O_RDWR | os.O_CLOEXEC
        if not file.created:  # else somebody has deleted what was written before
            flags |= os.O_CREAT
        with retryable(file.path):
            descriptor = self._open_file(file.path, flags)
        file.created = True
        self._open[file] = descriptor
        return descriptor

    def finished(self, file: LocalFile) -> None:
        """Close the file's descriptor, if one is open; it is no longer in the making."""
        self._making.discard(file)
        descriptor = self._open.pop(file, None)
        if descriptor is not None:
            with contextlib.suppress(OSError):  # a cache: what is not whole is not stored
                os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Delete a file, as far as that is possible."""
        with contextlib.suppress(OSError):
            path.unlink()

    def _open_file(self, path: Path, flags: int) -> int:
        """Open a file; where somebody has deleted the directory, it is made anew."""
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make_directory()
        except OSError as error:
            if error.errno not in NO_ROOM or not self.shared.make_room():
                raise
        return os.open(path, flags, 0o600)

    def _make_directory(self) -> None:
        if not (self.directory / ".lock").exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            # The new lock before the old one is let go: without any, another process that starts
            # would take the directory for abandoned.
            former, self._lock = self._lock, self._take_lock()
            os.close(former)

    def _take_lock(self) -> int:
        descriptor = os.open(self.directory / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def close(self) -> None:
        """Delete the directory and everything in it."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        self.shared.close()
        # The lock goes last: a process that starts meanwhile leaves a locked directory alone.
        _delete(self.directory)
        os.close(self._lock)


def _delete(directory: Path) -> None:
    """Delete our files, and the directory if nothing else is in it; as far as that is possible."""
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if _OUR_FILES.fullmatch(path.name):
                path.unlink()
        directory.rmdir()


@contextlib.contextmanager
def _starting(directory: Path, deaths: list[Death]) -> Iterator[None]:
    """Delete what was abandoned, unless another process starts at this moment.

    A directory whose owner is only just about to lock it looks abandoned.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete_abandoned(directory, deaths)
        # Shared by all that are starting: while one of them holds it, nobody gets it exclusively,
        # so nobody takes a directory that is made but not locked yet for abandoned.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _delete_abandoned(directory: Path, deaths: list[Death]) -> None:
    """Delete the directories whose lock nobody holds: their processes are gone.

    Over what they died is added to ``deaths``.  Links are nobody's: they lead elsewhere.
    """
    for lock in directory.glob("*/.lock"):
        if lock.parent.is_symlink():
            continue
        with contextlib.suppress(OSError):  # gone, another user's, or no file: none of ours
            descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Read before the directory is deleted: it is the only note of what the process died
                # over.
                death = death_of(lock.parent)
                deaths += [death] if death is not None else []
                _delete(lock.parent)
            except BlockingIOError:
                pass  # a living process holds it
            finally:
                os.close(descriptor)
