"""One file for the bytes that many local files keep out of memory for a while."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

SLOT = 64 * 1024
"""Bytes of the file that belong to one local file; they are used again when it is done."""

NAME = ".spilled"


class SpillFile:
    """Slots of a file.  Not for threads to share.

    Written again and again, they cost a third of the CPU of a file for each: the system has their
    pages already.  The file is emptied when nobody has a slot.  Everything raises ``OSError``.
    """

    def __init__(self) -> None:
        """The file is made when a first byte is spilled."""
        self._descriptor: int | None = None
        self._free: list[int] = []
        self._slots = 0

    def append(self, path: Path, slots: list[int], size: int, data: memoryview) -> None:
        """Write ``data`` behind the ``size`` bytes of ``slots``, which get those that it needs.

        ``path`` is where the file is made if there is none.
        """
        if self._descriptor is None:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while data.nbytes:
            if size == len(slots) * SLOT:
                slots.append(self._take_slot())
            position = slots[-1] * SLOT + size % SLOT
            written = os.pwrite(self._descriptor, data[: SLOT - size % SLOT], position)
            size, data = size + written, data[written:]

    def read(self, slots: Sequence[int], size: int) -> Iterator[bytes]:
        """Yield the bytes of each slot; ``size`` bytes in all."""
        assert self._descriptor is not None
        for slot in slots:
            length = min(size, SLOT)
            data = os.pread(self._descriptor, length, slot * SLOT)
            if len(data) != length:
                raise OSError(errno.EIO, "somebody has cut the spilled bytes short")
            size -= length
            yield data

    def free(self, slots: Sequence[int]) -> None:
        """Let others have these slots."""
        self._free += slots
        if slots and len(self._free) == self._slots and self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self._free, self._slots = [], 0

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots += 1
        return self._slots - 1
