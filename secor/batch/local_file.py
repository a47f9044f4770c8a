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

from secor.batch.spill_file import NAME, SpillFile
from secor.core.errors import (
    DescriptorsExhausted,
    DiskFull,
    LocalFilesExhausted,
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

    directory: Path
    spill_file: SpillFile

    @property
    def in_the_making(self) -> int:
        """Files that are not finished."""

    def descriptor(self, file: LocalFile) -> int:
        """Return an open descriptor that appends to ``file``."""

    def finished(self, file: LocalFile) -> None:
        """Close the file's descriptor, if one is open."""

    def remove(self, path: Path, size: int) -> None:
        """Delete a file of ``size`` bytes, as far as that is possible."""


class LocalFile:
    """A file in the making: its size in bytes and its CRC32C grow with every write.

    ``spilled`` are bytes on disk, in a file that all share, until they are taken back.
    """

    def __init__(self, workspace: LocalFiles, path: Path) -> None:
        """Name the file; it is created by the first write or by ``finish``."""
        self._workspace = workspace
        self.path = path
        self.size = 0
        self.crc32c = 0
        self.spilled = 0
        self._spilled_crc32c = 0
        self._slots: list[int] = []

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Append ``data`` whole.  Raises ``LocalFilesExhausted``; the file is of no use then."""
        view = memoryview(data).cast("B")
        descriptor = self._workspace.descriptor(self)
        written = 0
        with retryable(self.path):
            while written < len(view):
                written += os.pwrite(descriptor, view[written:], self.size + written)
        self.size += written
        self.crc32c = crc32c(data, self.crc32c)

    @property
    def should_spill(self) -> bool:
        """Whether so many files are in the making that it should spill."""
        return self._workspace.in_the_making > SPILL_ABOVE

    def spill(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        """Keep ``data`` on disk until it is taken; raises as ``write``."""
        view = memoryview(data).cast("B")
        path = self._workspace.directory / NAME
        with retryable(path):
            self._workspace.spill_file.append(path, self._slots, self.spilled, view)
        self.spilled += view.nbytes
        self._spilled_crc32c = crc32c(data, self._spilled_crc32c)

    def take_spilled(self) -> Iterator[bytes]:
        """Yield what was spilled, piece by piece.

        Raises ``LocalFilesExhausted``, also, at the end, if it is not the same any more.
        """
        checksum = 0
        with retryable(self._workspace.directory / NAME):
            for data in self._workspace.spill_file.read(self._slots, self.spilled):
                checksum = crc32c(data, checksum)
                yield data
            if checksum != self._spilled_crc32c:
                raise OSError(errno.EIO, "somebody has changed the spilled bytes")
        self._forget_spilled()

    def _forget_spilled(self) -> None:
        slots, self._slots = self._slots, []
        self.spilled, self._spilled_crc32c = 0, 0
        with retryable(self._workspace.directory / NAME):
            self._workspace.spill_file.free(slots)

    def finish(self) -> None:
        """Close it; it stands on disk even if nothing was written."""
        descriptor = self._workspace.descriptor(self)
        with retryable(self.path):
            if os.fstat(descriptor).st_size != self.size:  # of the file that it was before
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
        with contextlib.suppress(LocalFilesExhausted):
            self._forget_spilled()
        self._workspace.finished(self)
        self._workspace.remove(self.path, self.size)


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
