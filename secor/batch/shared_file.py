"""One file for the bytes of many small files: the file system makes no file for each of them."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from crc32c import crc32c

SLOT = 64 * 1024
"""Bytes of the file that belong to one extent; they are used again when it is freed."""

KEPT = 128 * 1024 * 1024 // SLOT
"""Most slots at the end of the file that nobody has."""

NAME = ".shared"


class SharedFile:
    """Slots of a file; threads may share it.  Raises ``OSError`` for what the system refuses.

    A slot that is written again costs less than a new one: the system has its pages already.
    The lowest are taken first, so that the end of the file gets free, and is cut off.
    """

    def __init__(self, directory: Path, open_file: Callable[[Path, int], int]) -> None:
        """Name the file; the first byte makes it, by ``open_file`` (a path, flags)."""
        self.path = directory / NAME
        self._open_file = open_file
        self._descriptor: int | None = None
        self._used = bytearray()  # of each slot: 1 if somebody has it
        self._lock = threading.Lock()

    def descriptor(self) -> int:
        """Return the file's descriptor; it is opened once."""
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = self._open_file(self.path, flags)
        return self._descriptor

    def take_slot(self) -> int:
        """Return a slot that nobody has."""
        with self._lock:
            slot = self._used.find(0)
            if slot < 0:
                slot = len(self._used)
                self._used.append(1)
            self._used[slot] = 1
            return slot

    def free(self, slots: list[int]) -> None:
        """Let others have these slots."""
        with self._lock:
            for slot in slots:
                self._used[slot] = 0
            end = self._used.rfind(1) + 1
            if len(self._used) - end > KEPT:
                del self._used[end:]
                os.ftruncate(self.descriptor(), end * SLOT)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Extent:
    """Bytes in slots of a shared file; ``size`` and ``crc32c`` grow with every write.

    One thread writes it.  Raises ``OSError``.
    """

    def __init__(self, shared: SharedFile) -> None:
        """Begin without a slot."""
        self.size = 0
        self.crc32c = 0
        self._shared = shared
        self._slots: list[int] = []

    def write(self, data: memoryview) -> None:
        """Append bytes."""
        descriptor = self._shared.descriptor()
        self.crc32c = crc32c(data, self.crc32c)
        while data.nbytes:
            begun = self.size % SLOT
            if self.size == len(self._slots) * SLOT:
                self._slots.append(self._shared.take_slot())
            position = self._slots[-1] * SLOT + begun
            written = os.pwrite(descriptor, data[: SLOT - begun], position)
            self.size, data = self.size + written, data[written:]

    def read(self) -> Iterator[bytes]:
        """Yield the bytes of each slot; at the end, an error if they are not the same any more."""
        checksum = 0
        for number, slot in enumerate(self._slots):
            length = min(SLOT, self.size - number * SLOT)
            data = os.pread(self._shared.descriptor(), length, slot * SLOT)
            checksum = crc32c(data, checksum)
            yield data
        if checksum != self.crc32c:
            raise OSError(errno.EIO, "somebody has changed it")

    def free(self) -> None:
        """Give the bytes up, and begin again."""
        slots, self._slots = self._slots, []
        self.size = self.crc32c = 0
        self._shared.free(slots)
