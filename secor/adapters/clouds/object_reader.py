"""A stored object as a seekable file, read ahead in windows."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

FIRST_WINDOW = 256 << 10
LARGEST_WINDOW = 8 << 20

Fetch = Callable[[int, int], "tuple[Buffer, int]"]
"""Gives the bytes from a start to an end, fewer at the object's end, and the object's size."""


class ObjectReader(io.RawIOBase):
    """An object as a raw, seekable file; one thread at a time.

    The first window after a seek has 256 KiB, each next one twice as much, to 8 MiB, so that
    reading on costs few requests and a look at a footer few bytes.  The first is asked for at
    once: its answer tells the size.  Raises what ``fetch`` raises.
    """

    def __init__(self, fetch: Fetch, name: str) -> None:
        super().__init__()
        self._fetch = fetch
        self._name = name
        self._position = 0
        self._next_window = 2 * FIRST_WINDOW
        self._start = 0
        window, self.size = fetch(0, FIRST_WINDOW)
        self._window = memoryview(window)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere; nothing is asked for until the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        target = base + offset
        if target < 0:
            raise ValueError(f"cannot seek to {target} in {self._name}")
        if not self._start <= target <= self._start + len(self._window):
            self._next_window = FIRST_WINDOW
        self._position = target
        return target

    def readinto(self, buffer: Buffer, /) -> int:
        """Read what the window has, at least a byte before the end."""
        view = memoryview(buffer).cast("B")
        if not len(view) or self._position >= self.size:
            return 0
        if not self._start <= self._position < self._start + len(self._window):
            self._go_on()
        at = self._position - self._start
        piece = self._window[at : at + len(view)]
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def _go_on(self) -> None:
        end = min(self._position + self._next_window, self.size)
        window, _ = self._fetch(self._position, end)
        self._window, self._start = memoryview(window), self._position
        self._next_window = min(2 * self._next_window, LARGEST_WINDOW)
