"""One local file in the making, and what the file system may refuse."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from crc32c import crc32c

from secor.core.errors import (
    DescriptorsExhausted,
    DiskFull,
    LocalFilesRefused,
    RestartPartition,
)

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_OUR_FAULT = frozenset({errno.EBADF, errno.EINVAL, errno.EFAULT})

SPILL_ABOVE = 128
"""Files in the making, beyond which each should do without a compressor at first: hours of a day
in four topic partitions still have one each, hundreds of output partitions do not."""


class LocalFiles(Protocol):
    """What a file asks of its workspace."""

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

    ``spilled`` are bytes on disk that are taken back before the file's own are written.
    """

    def __init__(self, workspace: LocalFiles, path: Path) -> None:
        """Name the file; it is created by the first write or by ``finish``."""
        self._workspace = workspace
        self.path = path
        self.size = 0
        self.crc32c = 0
        self.spilled = 0
        self._spilled_crc32c = 0
        self._longer = False

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Append ``data`` whole.  Raises ``LocalFilesExhausted``; the file is of no use then."""
        assert not self.spilled
        self.size += self._write(data, self.size)
        self.crc32c = crc32c(data, self.crc32c)

    @property
    def should_spill(self) -> bool:
        """Whether so many files are in the making that it should spill."""
        return self._workspace.in_the_making > SPILL_ABOVE

    def spill(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Keep ``data`` on disk, to be taken before anything is written; raises as ``write``."""
        assert not self.size
        self.spilled += self._write(data, self.spilled)
        self._spilled_crc32c = crc32c(data, self._spilled_crc32c)
        self._longer = True

    def take_spilled(self) -> bytes:
        """Return what was spilled; what is written next takes its place.

        Raises ``LocalFilesExhausted``, also if it is not the same any more.
        """
        descriptor = self._workspace.descriptor(self)
        with retryable(self.path):
            data = os.pread(descriptor, self.spilled, 0)
            if len(data) != self.spilled or crc32c(data) != self._spilled_crc32c:
                raise OSError(errno.EIO, "somebody has changed it")
        self.spilled, self._spilled_crc32c = 0, 0
        return data

    def _write(self, data: bytes | bytearray | memoryview | pa.Buffer, position: int) -> int:
        """Write ``data`` whole; return its bytes."""
        view = memoryview(data).cast("B")
        descriptor = self._workspace.descriptor(self)
        written = 0
        with retryable(self.path):
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], position + written)
        return written

    def finish(self) -> None:
        """Close it; it stands on disk even if nothing was written."""
        descriptor = self._workspace.descriptor(self)
        if self._longer or not self.size:
            with retryable(self.path):
                os.ftruncate(descriptor, self.size)
        self._workspace.finished(self)

    def check_readable(self) -> None:
        """Raise ``RestartPartition`` where somebody has deleted the file, or taken the right."""
        try:
            with self.path.open("rb"):
                pass
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                return  # who puts it tries again
            raise RestartPartition(
                f"{self.path}: {error.strerror}; its messages are read again"
            ) from error

    def delete(self) -> None:
        """Close and delete it; what cannot be deleted goes with the directory, at last."""
        self._workspace.finished(self)
        self._workspace.remove(self.path)


@contextlib.contextmanager
def exhaustion(path: Path) -> Iterator[None]:
    """Turn what another try may mend into ``LocalFilesExhausted``."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(f"{path}: {error.strerror}; free some room") from error
        if error.errno in _NO_DESCRIPTOR:
            raise DescriptorsExhausted(
                f"{path}: {error.strerror}; raise this process's limit of open files, or lower"
                " limits.open_files"
            ) from error
        raise


@contextlib.contextmanager
def retryable(path: Path) -> Iterator[None]:
    """Turn what the file system refuses while the process runs into ``LocalFilesExhausted``."""
    try:
        with exhaustion(path):
            yield
    except OSError as error:
        if error.errno in _OUR_FAULT:
            raise
        raise LocalFilesRefused(
            f"{path}: {error.strerror}; this user has to be able to write in local.directory, and"
            " nobody else may delete there"
        ) from error
