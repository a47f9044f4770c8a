"""A stored object as a seekable file, read ahead in windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from secor.adapters.ranged_object import FIRST_WINDOW, RangedObject

if TYPE_CHECKING:
    from typing_extensions import Buffer

LARGEST_WINDOW = 8 << 20

Fetch = Callable[[int, int], "tuple[Buffer, int, str | None]"]
"""Gives the bytes from a start to an end, fewer at the object's end, its size and its ETag."""


class ObjectReader(RangedObject):
    """An object as a raw, seekable file; one thread at a time.

    The first window after a seek has 256 KiB, each next one twice as much, to 8 MiB, so that
    reading on costs few requests and a look at a footer few bytes.  The first is asked for at
    once: its answer tells the size.  Raises what ``fetch`` raises, and ``Unavailable`` where the
    object was replaced meanwhile.
    """

    def __init__(self, fetch: Fetch, name: str) -> None:
        super().__init__(name)
        self._fetch = fetch
        self._next_window = FIRST_WINDOW
        self._start = 0
        self._window, self.size = self._ask(FIRST_WINDOW)

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
        if self._position != self._start + len(self._window):
            self._next_window = FIRST_WINDOW
        end = min(self._position + self._next_window, self.size)
        self._window, _ = self._ask(end)
        self._start = self._position

    def _ask(self, end: int) -> tuple[memoryview, int]:
        window, size, etag = self._fetch(self._position, end)
        self._require_same(etag)
        self._next_window = min(2 * self._next_window, LARGEST_WINDOW)
        return memoryview(window), size
