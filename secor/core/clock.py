"""The machine's time, for the ``Clock`` port."""

from __future__ import annotations

import time


class SystemClock:
    """A ``Clock`` of the operating system."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
