"""Messages of a topic partition that were fetched and are in no batch yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from secor.batch.cut import held_bytes
from secor.core.model import Chunk
from secor.core.ports import Fetched


class Arrived:
    """Chunks in the order of offsets, decoded one by one; ``size`` is what they hold."""

    def __init__(self, fetched: Fetched) -> None:
        """Decode nothing yet."""
        self._fetches: deque[tuple[Iterator[Chunk], int]] = deque()
        self._fetches.append((fetched.chunks(), fetched.size))
        self._rest: Chunk | None = None

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end.  Raises ``CorruptBatch``."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return rest
        while self._fetches:
            chunk = next(self._fetches[0][0], None)
            if chunk is not None:
                return chunk
            self._fetches.popleft()
        return None

    def put_back(self, rest: Chunk) -> None:
        """Have ``rest``, the end of the chunk that was given last, come next."""
        assert self._rest is None
        self._rest = rest

    def extend(self, later: Arrived | None) -> None:
        """Take what was fetched after this, if anything."""
        if later is not None:
            assert later._rest is None
            self._fetches += later._fetches

    @property
    def size(self) -> int:
        """Bytes in memory, at most: of fetches that are not decoded whole, and of the rest."""
        rest = held_bytes(self._rest) if self._rest is not None else 0
        return rest + sum(size for _, size in self._fetches)
