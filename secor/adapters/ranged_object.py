"""The shared part of readers of stored objects: a position in the object, and its name."""

from __future__ import annotations

import io
from typing import BinaryIO

from secor.core.errors import Unavailable

FIRST_WINDOW = 256 << 10
"""Bytes that a reader asks for first after a seek."""


class RangedObject(io.RawIOBase):
    """An object that is read in ranges, as a raw, seekable file; one thread at a time."""

    size: int
    """Bytes of the whole object."""

    def __init__(self, name: str) -> None:
        """``name`` is such as ``s3://bucket/key``."""
        super().__init__()
        self._name = name
        self._position = 0
        self._etag: str | None = None

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
        position = base + offset
        if position < 0:
            raise ValueError(f"cannot seek to {position} in {self._name}")
        self._position = position
        return position

    def _require_same(self, etag: str | None) -> None:
        """Raise ``Unavailable`` where an answer is of another object than the first one was.

        Each range is a request of its own, which a server answers from what has this name then.
        """
        if self._etag is None:
            self._etag = etag
        elif etag != self._etag:
            raise Unavailable(f"cannot read {self._name}: it was replaced meanwhile; read it again")


def read_ahead(raw: RangedObject) -> BinaryIO:
    """Return a file that reads ahead; a small object is read whole, by the request before."""
    file = io.BufferedReader(raw, buffer_size=128 << 10)
    if raw.size > FIRST_WINDOW:
        return file
    with file:
        return io.BytesIO(file.read(raw.size))
