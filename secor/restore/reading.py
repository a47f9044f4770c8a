"""A thread that reads pieces ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from secor.core.errors import SecorError
from secor.restore.model import Piece, Silence


class ReadAhead:
    """A ``PieceReader`` with a thread that reads while a transaction is written.

    So a slow store never keeps a transaction open: the writer waits for a piece as long as
    the transaction may still last.  ``most_bytes`` bounds what is held.
    """

    def __init__(self, pieces: Iterator[Piece], most_bytes: int = 32 << 20) -> None:
        self._pieces = pieces
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._ready: deque[Piece] = deque()
        self._bytes = 0
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="read-ahead", daemon=True)
        self._thread.start()

    @property
    def is_read(self) -> bool:
        """Return whether nothing is left to read: what there is waits in memory."""
        return self._ended

    def next(self, wait: float) -> Piece | Silence:
        """Return the next piece, an error of the reading, or why there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended, wait)
            if self._ready:
                piece = self._ready.popleft()
                self._bytes -= piece.size
                self._changed.notify_all()
                return piece
            if self._error is not None:
                raise self._error
            return Silence.EXHAUSTED if self._ended else Silence.NOTHING_YET

    def close(self) -> None:
        """Stop soon; does not wait for a read that is on its way."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def _read(self) -> None:
        try:
            for piece in self._pieces:
                if not self._keep(piece):
                    break
        except SecorError as error:
            self._error = error
        except BaseException as error:
            self._error = error
            raise
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _keep(self, piece: Piece) -> bool:
        with self._changed:
            # Looked at before a piece is added, not after: a piece that is larger than the limit
            # still passes.
            self._changed.wait_for(lambda: self._closed or self._bytes < self._most_bytes)
            if self._closed:
                return False
            self._ready.append(piece)
            self._bytes += piece.size
            self._changed.notify_all()
            return True
