"""When a transaction ends: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from secor.restore.model import Piece

Kind = Literal["poll", "interval", "source"]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """``interval`` in seconds; the caps hold for every kind but ``source``."""

    kind: Kind = "interval"
    interval: float = 5.0
    max_bytes: int = 64 << 20
    max_records: int = 1_000_000

    def due(self, piece: Piece, *, elapsed: float, size: int, records: int) -> bool:
        """Tell whether a transaction ends behind ``piece``.

        ``elapsed``, ``size`` and ``records`` are the transaction's, that piece included.
        """
        if self.kind == "source":
            return piece.boundary is not None
        if self.kind == "poll":
            return True
        full = size >= self.max_bytes or records >= self.max_records
        return full or elapsed >= self.interval

    def patience(self, elapsed: float) -> float:
        """Return seconds that a transaction may wait for its next piece."""
        if self.kind == "source":
            return self.interval
        return max(0.0, self.interval - elapsed)
