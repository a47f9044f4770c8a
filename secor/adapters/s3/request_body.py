"""A part of a local file as the body of an S3 request."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Self

import crc32c as checksum

from secor.adapters.s3.failures import translated

BLOCK = 1 << 20


class Slice:
    """The bytes ``[start, start + length)`` of a file as the body of a request.

    It has what botocore asks of a body, and gives blocks of 1 MiB whatever size is asked for:
    the HTTP client would otherwise send 16 KiB at a time, at several times the CPU.
    """

    def __init__(self, path: Path, start: int, length: int) -> None:
        """Open the file.  Raises ``Unavailable`` when no file descriptor is free."""
        with translated(f"read {path}"):
            self._file = path.open("rb", buffering=0)
        self._start = start
        self._length = length
        self._at = 0

    def __len__(self) -> int:
        return self._length

    def read(self, size: int = -1) -> bytes:
        """Return the next block, empty at the end."""
        self._file.seek(self._start + self._at)
        most = BLOCK if size >= 0 else self._length
        block = self._file.read(min(most, self._length - self._at))
        self._at += len(block)
        return block

    def tell(self) -> int:
        """Return the position in the slice."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position in the slice; botocore does so before it sends the body again."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = base + offset
        return self._at

    def checksum(self, crc32c: int = 0) -> int:
        """Return the CRC32C of the whole slice, going on from ``crc32c``; rewinds."""
        self.seek(0)
        while block := self.read(BLOCK):
            crc32c = checksum.crc32c(block, crc32c)
        self.seek(0)
        return crc32c

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
