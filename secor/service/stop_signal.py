"""SIGTERM and SIGINT as something to wait for."""

from __future__ import annotations

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType


class StopSignal:
    """Set once by SIGTERM or SIGINT; the main thread makes it and waits for it.

    No ``threading.Event``: a signal may interrupt the very thread that holds its lock, in
    ``wait`` or in another signal's ``set``, and would wait for it for ever.
    """

    def __init__(self) -> None:
        """Take the signals over."""
        self._is_set = False
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def is_set(self) -> bool:
        """Tell whether a signal came."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most so long; tell whether one came."""
        if not self._is_set:
            with suppress(Empty):
                self._wakeups.get(timeout=max(0.0, seconds))
        return self._is_set

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_set = True
        self._wakeups.put(None)  # which a signal may interrupt, too
