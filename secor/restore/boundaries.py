"""The boundaries of transactions; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from secor.restore.model import Piece
from secor.wire.encoding import record_sizes

Kind = Literal["poll", "interval", "source"]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """``interval`` in seconds; the caps hold for every kind but ``source``.

    ``max_bytes`` counts records in memory.
    """

    kind: Kind = "interval"
    interval: float = 5.0
    max_bytes: int = 64 << 20
    max_records: int = 1_000_000

    def due(self, piece: Piece, *, elapsed: float, size: int, records: int) -> bool:
        """Return whether a transaction ends behind ``piece``.

        ``elapsed``, ``size`` and ``records`` are the transaction's, that piece included.
        """
        if self.kind == "source":
            return piece.boundary is not None
        if self.kind == "poll":
            return True
        full = size >= self.max_bytes or records >= self.max_records
        return full or elapsed >= self.interval

    def cut(self, piece: Piece, *, size: int, records: int) -> tuple[Piece | None, Piece | None]:
        """Return what of ``piece`` a transaction still takes, and the rest for the next one.

        ``size`` and ``records`` are the transaction's so far.  An empty one takes a record at
        least, however large it is.
        """
        if self.kind == "source":
            return piece, None
        rows, room = self.max_records - records, self.max_bytes - size
        if piece.records.num_rows <= rows and piece.size <= room:
            return piece, None
        fitting = int(np.searchsorted(np.cumsum(record_sizes(piece.records)), room, side="right"))
        # An empty transaction takes one record, however large: else it would never be written.
        count = max(min(rows, fitting), 0 if records else 1)
        if count >= piece.records.num_rows:
            return piece, None
        return (_before(piece, count) if count else None), _from(piece, count)

    def patience(self, elapsed: float) -> float:
        """Return seconds that a transaction may wait for its next piece."""
        if self.kind == "source":
            return self.interval
        return max(0.0, self.interval - elapsed)


def _before(piece: Piece, row: int) -> Piece:
    """Return the piece up to a row: reading goes on at that row's offset."""
    following = piece.records.column("offset")[row].as_py()
    return Piece(piece.records.slice(0, row), following)


def _from(piece: Piece, row: int) -> Piece:
    return replace(piece, records=piece.records.slice(row))
