"""One local file in the making, and what the file system may refuse."""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
from crc32c import crc32c

from secor.batch.shared_file import NO_ROOM, SLOT, FileSlots, SharedFile
from secor.core.errors import (
    DescriptorsExhausted,
    DiskFull,
    LocalFilesExhausted,
    LocalFilesRefused,
    RestartPartition,
)

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_OUR_FAULT = frozenset({errno.EBADF, errno.EINVAL, errno.EFAULT})

SHARE_ABOVE = 128
"""Files in the making, beyond which each should do without a compressor at first, and without a
file of its own: hours of a day in four topic partitions still have them, hundreds of output
partitions do not."""

LARGEST_SHARED = 4 * SLOT
"""Bytes of a file that is a part of another one; a larger one is worth a file of its own."""


class LocalFiles(Protocol):
    """A file's view of its workspace."""

    shared: SharedFile

    @property
    def in_the_making(self) -> int:
        """Files that are not finished."""

    def descriptor(self, file: LocalFile) -> int:
        """Return an open descriptor that appends to ``file``."""

    def finished(self, file: LocalFile) -> None:
        """Close the file's descriptor, if one is open."""

    def remove(self, path: Path) -> None:
        """Delete a file, as far as that is possible."""


class LocalFile:
    """A file in the making: its size in bytes and its CRC32C grow with every write.

    Where many are in the making, a small one is a part of a file that all share, and is nowhere
    else.  There it also keeps bytes on disk that are to be compressed later.
    """

    def __init__(self, workspace: LocalFiles, path: Path) -> None:
        """Name the file; ``created`` says whether it exists by now."""
        self._workspace = workspace
        self.path = path
        self.created = False
        self.size = 0
        self.crc32c = 0
        self._content = FileSlots(workspace.shared)
        self._spilled = FileSlots(workspace.shared)

    @property
    def spilled(self) -> int:
        """Bytes on disk that are not taken yet."""
        return self._spilled.size

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Append ``data`` whole.  Raises ``LocalFilesExhausted``; the file is of no use then."""
        view = memoryview(data).cast("B")
        if self._shares(view.nbytes):
            with retryable(self._workspace.shared.path):
                self._content.write(view)
        else:
            self._leave_shared()
            self._write_at(view, self.size)
        self.size += view.nbytes
        self.crc32c = crc32c(data, self.crc32c)

    def _shares(self, more: int) -> bool:
        """Return whether it is, with so many bytes more, a part of the shared file."""
        # Decided by the first bytes: a file that began on its own stays there, one that began in
        # the shared file leaves it when it has grown too large.
        is_shared = self._content.size if self.size else self.should_spill
        return bool(is_shared) and self.size + more <= LARGEST_SHARED

    def _leave_shared(self) -> None:
        """Move to a file of its own."""
        if self._content.size:
            position = 0
            with retryable(self._workspace.shared.path):
                for data in self._content.read():
                    self._write_at(memoryview(data), position)
                    position += len(data)
                self._content.free()

    def _write_at(self, view: memoryview, position: int) -> None:
        descriptor = self._workspace.descriptor(self)
        write = self._workspace.shared.pwrite
        written = 0
        with retryable(self.path):
            while written < len(view):
                # Near a full disk the system may take a part of what it is given, without an error.
                written += write(descriptor, view[written:], position + written)

    @property
    def should_spill(self) -> bool:
        """True if so many files are in the making that they spill, and small ones share one."""
        return self._workspace.in_the_making > SHARE_ABOVE

    def spill(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Keep ``data`` on disk until it is taken; raises as ``write``."""
        try:  # many small pieces come here: a context manager costs as much as the rest
            self._spilled.write(memoryview(data).cast("B"))
        except OSError as error:
            raise refused(error, self._workspace.shared.path) from error

    def take_spilled(self) -> Iterator[bytes]:
        """Yield what was spilled, piece by piece.

        Raises ``LocalFilesExhausted``, also, at the end, if it is not the same any more.
        """
        with retryable(self._workspace.shared.path):
            yield from self._spilled.read()
            # Only when all of it was read and its checksum was right.
            self._spilled.free()

    def finish(self) -> None:
        """Close the file; it is on disk even if nothing was written."""
        if not self._content.size:
            self._workspace.descriptor(self)
        self._workspace.finished(self)

    def content(self) -> Path | bytes:
        """Return where its bytes are, or those that it has in the shared file.

        Raises ``RestartPartition`` where somebody has deleted or changed it, or taken the right.
        """
        place = self._workspace.shared.path if self._content.size else self.path
        try:
            if self._content.size:
                return b"".join(self._content.read())
            # Opened to see that it can be: a deleted file is read again from Kafka, and the upload
            # learns that here, not in the midst of a put.
            with self.path.open("rb"):
                return self.path
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                return self.path  # the upload tries again
            raise RestartPartition(
                f"{place}: {error.strerror}; its messages are read again"
            ) from error

    def open(self) -> BinaryIO:
        """Open it for reading.  Raises what ``content`` raises."""
        content = self.content()
        return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")

    def delete(self) -> None:
        """Close and delete it; what cannot be deleted goes with the directory, at last."""
        # Each by itself: that one part cannot be given back must not keep the room of the others.
        with contextlib.suppress(OSError):
            self._content.free()
        with contextlib.suppress(OSError):
            self._spilled.free()
        self._workspace.finished(self)
        if self.created:
            self._workspace.remove(self.path)


def exhausted(error: OSError, path: Path) -> LocalFilesExhausted | None:
    """Return the retryable error for this ``OSError``, or None."""
    if error.errno in NO_ROOM:
        return DiskFull(f"{path}: {error.strerror}; free some room")
    if error.errno in _NO_DESCRIPTOR:
        return DescriptorsExhausted(
            f"{path}: {error.strerror}; raise this process's limit of open files, or lower"
            " limits.open_files"
        )
    return None


def refused(error: OSError, path: Path) -> Exception:
    """Return what the file system refused while the process runs; our own fault as it is."""
    if error.errno in _OUR_FAULT:
        # EBADF, EINVAL, EFAULT: a mistake of this program, which no retry cures.
        return error
    return exhausted(error, path) or LocalFilesRefused(
        f"{path}: {error.strerror}; this user has to be able to write in local.directory, and"
        " nobody else may delete there"
    )


@contextlib.contextmanager
def retryable(path: Path) -> Iterator[None]:
    """Turn what the file system refuses while the process runs into ``LocalFilesExhausted``."""
    try:
        yield
    except OSError as error:
        raise refused(error, path) from error
