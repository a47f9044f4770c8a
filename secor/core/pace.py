"""Limits of bytes and messages a second for a whole process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from secor.core.ports import Clock


@dataclass(slots=True)
class Pace:
    """One budget for all partitions of a process; None is no limit.

    What was taken is owed afterwards: a reader or writer finishes what it started, such
    as a transaction, and waits before it starts more.
    """

    clock: Clock
    bytes_per_second: float | None = None
    messages_per_second: float | None = None
    _free_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, size: int, messages: int) -> None:
        """Count what was read or written; ``size`` in bytes."""
        seconds = max(
            size / self.bytes_per_second if self.bytes_per_second else 0.0,
            messages / self.messages_per_second if self.messages_per_second else 0.0,
        )
        with self._lock:
            # Time in which nothing was read is not saved up: no burst follows an idle hour.
            self._free_at = max(self._free_at, self.clock.monotonic()) + seconds

    def debt(self) -> float:
        """Return seconds until more may begin."""
        with self._lock:
            return max(0.0, self._free_at - self.clock.monotonic())
