"""Reads pieces without a thread."""

from __future__ import annotations

from collections.abc import Iterator

from secor.restore.model import Piece, Silence


class DirectReader:
    """A ``PieceReader`` that reads when it is asked."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces

    def next(self, wait: float) -> Piece | Silence:
        """Return the next piece; takes the time that reading takes."""
        return next(self._pieces, Silence.EXHAUSTED)

    def close(self) -> None:
        """Do nothing: nothing is read that nobody asks for."""
