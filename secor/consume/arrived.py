"""Messages of a topic partition that were fetched and are in no batch yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from secor.batch.cut import held_bytes
from secor.core.errors import CorruptBatch
from secor.core.model import Chunk
from secor.core.ports import Fetched

LARGE = 16 << 20
"""A chunk of so many bytes is one large message; all of its fetch is nearly as large."""


class Arrived:
    """Chunks in the order of offsets, decoded one by one; ``size`` is what they hold.

    A large chunk is given when the one behind it is decoded as well: mostly there is none, and
    the fetch is given up before a file is made, which takes several times as much memory.
    """

    def __init__(self, fetched: Fetched) -> None:
        """Decode nothing yet."""
        self._fetches: deque[tuple[Iterator[Chunk], int]] = deque()
        self._fetches.append((fetched.chunks(), fetched.size))
        self._decoded: deque[Chunk | CorruptBatch] = deque()

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end.  Raises ``CorruptBatch``."""
        if not self._decoded:
            self._decode()
        if not self._decoded:
            return None
        decoded = self._decoded.popleft()
        if isinstance(decoded, CorruptBatch):
            raise decoded
        if not self._decoded and held_bytes(decoded) >= LARGE:
            self._decode()
        return decoded

    def _decode(self) -> None:
        """Decode a chunk more, if there is one; fetches that are at their end are given up."""
        while self._fetches:
            try:
                chunk = next(self._fetches[0][0], None)
            except CorruptBatch as error:
                self._decoded.append(error)
                return
            if chunk is not None:
                self._decoded.append(chunk)
                return
            self._fetches.popleft()

    def put_back(self, rest: Chunk) -> None:
        """Have ``rest``, the end of the chunk that was given last, come next."""
        self._decoded.appendleft(rest)

    def extend(self, later: Arrived | None) -> None:
        """Take what was fetched after this, if anything."""
        if later is not None:
            assert not later._decoded
            self._fetches += later._fetches

    @property
    def size(self) -> int:
        """Bytes in memory, at most: of fetches that are not decoded whole, and of chunks."""
        decoded = sum(held_bytes(it) for it in self._decoded if isinstance(it, Chunk))
        return decoded + sum(size for _, size in self._fetches)
