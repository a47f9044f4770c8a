"""What this process and all below it use: the JVM, and Spark's Python workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psutil

EVERY = 0.2
"""Seconds between two looks at the memory."""


def cpu_seconds() -> float:
    """Return the CPU seconds so far, also of children that have ended."""
    return sum(_of_each(lambda process: sum(process.cpu_times()[:4])))


def resident_bytes() -> int:
    """Return the resident bytes of all of them."""
    return int(sum(_of_each(lambda process: process.memory_info().rss)))


class PeakMemory:
    """Watches their resident bytes in a thread: the greatest sum of all is ``peak``."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self.peak = max(self.peak, resident_bytes())


def _of_each(look: Callable[[psutil.Process], float]) -> Iterator[float]:
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            yield look(process)
        except psutil.NoSuchProcess:
            continue
