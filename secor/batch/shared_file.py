"""One file for the bytes of many small files: the file system makes no file for each of them."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from crc32c import crc32c

# Of Linux's falloc.h.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def punch_hole(descriptor: int, position: int, length: int) -> None:
    """Let so many bytes from ``position`` on take no room, and be read as zeros.

    Where the system or the file system cannot, they keep their room.
    """
    fallocate = _fallocate()
    if fallocate is not None:
        fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, position, length)


@cache
def _fallocate() -> Any:
    """Return the C library's function; None where there is none, as on macOS."""
    if os.uname().sysname != "Linux":
        return None
    library = ctypes.CDLL(None)
    # fallocate64 takes 64 bits on every machine; musl has the other name, with 64 bits.
    function = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


SLOT = 64 * 1024
"""Bytes of the file that belong to one extent; they are used again when it is freed."""

KEPT = 128 * 1024 * 1024
"""Most bytes on disk of slots that nobody has."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when the disk, a quota or the largest file is full."""

NAME = ".shared"

_EMPTY, _USED, _FREE = range(3)
"""States of a slot: without room on disk, somebody's, nobody's but with room."""


class SharedFile:
    """Slots of a file; threads may share it.  Raises ``OSError`` for what the system refuses.

    A slot that is written again costs less than a new one: the system has its pages already.
    So slots that nobody has keep their room on disk, at most ``kept`` bytes in all, and until the
    disk is full.  The lowest are taken first, so that the end of the file gets free, and is cut
    off.
    """

    def __init__(
        self, directory: Path, open_file: Callable[[Path, int], int], kept: int = KEPT
    ) -> None:
        """Name the file; the first byte makes it, by ``open_file`` (a path, flags)."""
        self.path = directory / NAME
        self._open_file = open_file
        self._most_free = kept // SLOT
        self._descriptor: int | None = None
        self._slots = bytearray()  # the state of each
        self._lock = threading.RLock()

    def descriptor(self) -> int:
        """Return the file's descriptor; it is opened once."""
        with self._lock:
            if self._descriptor is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = self._open_file(self.path, flags)
            return self._descriptor

    def take_slot(self) -> int:
        """Return a slot that nobody has."""
        with self._lock:
            # A slot with room on disk before an empty one, and the lowest of each: what is free
            # gathers at the end of the file, which can be cut off.
            slot = self._slots.find(_FREE)
            if slot < 0:
                slot = self._slots.find(_EMPTY)
            if slot < 0:
                slot = len(self._slots)
                self._slots.append(_EMPTY)
            self._slots[slot] = _USED
            return slot

    def free(self, slots: list[int]) -> None:
        """Let others have these slots."""
        with self._lock:
            for slot in slots:
                self._slots[slot] = _FREE
            free = self._slots.count(_FREE)
            if free > self._most_free:
                # More than it must be: each time costs as much, however little it is.
                self._give_room_back(free - self._most_free * 3 // 4)

    def pwrite(self, descriptor: int, data: memoryview, position: int) -> int:
        """Write to a file of the same disk as ``os.pwrite``; where it is full, make room once."""
        try:
            return os.pwrite(descriptor, data, position)
        except OSError as error:
            if error.errno not in NO_ROOM or not self.make_room():
                raise
        return os.pwrite(descriptor, data, position)

    def make_room(self) -> bool:
        """Give back the room of all slots that nobody has; return whether there were any."""
        with self._lock:
            free = self._slots.count(_FREE)
            if free:
                self._give_room_back(free)
            return bool(free)

    def _give_room_back(self, count: int) -> None:
        """Give back the room of the last ``count`` slots that nobody has."""
        end = len(self._slots)
        while count:
            last = self._slots.rfind(_FREE, 0, end)
            first = last
            while first > 0 and last - first + 1 < count and self._slots[first - 1] == _FREE:
                first -= 1
            length = last - first + 1
            # ``bytes(n)`` is n zeros, and zero is _EMPTY.
            self._slots[first : last + 1] = bytes(length)
            if last + 1 < len(self._slots):  # else it is cut off
                punch_hole(self.descriptor(), first * SLOT, length * SLOT)
            count -= length
            end = first
        # Cut off rather than punched: the end of a file is given back by every file system.
        end = max(self._slots.rfind(_USED), self._slots.rfind(_FREE)) + 1
        if end < len(self._slots):
            del self._slots[end:]
            os.ftruncate(self.descriptor(), end * SLOT)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class FileSlots:
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
            used = self.size % SLOT
            if self.size == len(self._slots) * SLOT:
                self._slots.append(self._shared.take_slot())
            position = self._slots[-1] * SLOT + used
            written = self._shared.pwrite(descriptor, data[: SLOT - used], position)
            self.size, data = self.size + written, data[written:]

    def read(self) -> Iterator[bytes]:
        """Yield the bytes of each slot; at the end, an error if they are not the same any more."""
        checksum = 0
        for number, slot in enumerate(self._slots):
            length = min(SLOT, self.size - number * SLOT)
            data = os.pread(self._shared.descriptor(), length, slot * SLOT)
            checksum = crc32c(data, checksum)
            yield data
        # Spilled bytes go to a compressor next: without this, bytes that somebody changed on the
        # disk would become a wrong object with a right checksum.
        if checksum != self.crc32c:
            raise OSError(errno.EIO, "somebody has changed it")

    def free(self) -> None:
        """Give the bytes up, and begin again."""
        # Forgotten here first: freed twice, a slot would soon belong to two files.
        slots, self._slots = self._slots, []
        self.size = self.crc32c = 0
        self._shared.free(slots)
