"""Runs the coordinator in a thread of its own, because catalogs may be slow."""

from __future__ import annotations

import threading

from secor.tables.coordinator import Coordinator


class CoordinatorThread:
    """Steps a coordinator until it is closed."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def check(self) -> None:
        """Raise if the thread has ended by itself, with a traceback: a confused process stops."""
        if self._thread.ident is not None and not self._thread.is_alive():
            raise RuntimeError("the coordinator's thread has ended; the log says why")

    def close(self, timeout: float = 60.0) -> None:
        """Let the present step end, at most ``timeout`` seconds."""
        self._closing.set()
        # Bounded: a commit that waits for Spark must not hold up the end of the process. What it
        # leaves is staged, and the next coordinator settles it.
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._closing.is_set():
            self._closing.wait(self._coordinator.step())
