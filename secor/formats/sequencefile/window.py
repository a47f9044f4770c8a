"""A window over the file being read that moves forward; errors name the place in the file."""

from __future__ import annotations

from typing import BinaryIO

from secor.core.errors import CorruptFile

PIECE = 4 << 20
"""Bytes read at once."""


class Window:
    """``data`` holds the file's bytes from position ``base`` on; ``grow`` and ``drop`` move it."""

    def __init__(self, file: BinaryIO, name: str, base: int = 0) -> None:
        self.data = b""
        self.base = base
        self.ended = False
        self._file = file
        self._name = name

    def grow(self, least: int = PIECE) -> bool:
        """Read ``least`` bytes, and at least as many as there are; False at the file's end.

        A length that lies therefore costs no more memory than the file has bytes.
        """
        missing = max(least, len(self.data))
        parts = [self.data]
        while missing and not self.ended:
            part = self._file.read(min(missing, PIECE))
            self.ended = not part
            parts.append(part)
            missing -= len(part)
        size = len(self.data)
        self.data = b"".join(parts)
        return len(self.data) > size

    def drop(self, size: int) -> None:
        """Forget the first ``size`` bytes."""
        self.data = self.data[size:]
        self.base += size

    def check_marker(self, position: int, marker: bytes) -> None:
        """Raise ``CorruptFile`` where ``data[at]`` is not the escape and the sync marker."""
        if self.data[position : position + len(marker)] != marker:
            raise self.corrupt(position, "a sync marker that is not the file's")

    def corrupt(self, position: int, what: str) -> CorruptFile:
        """Return the error for what is wrong at ``data[at]``."""
        return CorruptFile(f"{self._name}: at byte {self.base + position}: {what}")

    def cut_short(self, position: int, what: str) -> CorruptFile:
        """Return the error for a file that ends within what begins at ``data[at]``."""
        size = self.base + len(self.data)
        return self.corrupt(
            position, f"the file ends at byte {size}, within {what}; it was cut short"
        )
