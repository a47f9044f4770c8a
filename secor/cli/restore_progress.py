"""One line that says how far a restore is, for a person who watches."""

from __future__ import annotations

import sys
import time

from secor.cli.progress import duration
from secor.wiring.restore_run import Progress

EVERY = 1.0


class ProgressLine:
    """Writes over itself; ``total`` is the sum of the archived offsets' ends."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._began = time.monotonic()
        self._shown = 0.0

    def show(self) -> None:
        """Write the line, once a second at most."""
        now = time.monotonic()
        if now - self._shown < EVERY:
            return
        self._shown = now
        elapsed = max(now - self._began, 0.001)
        rate = self._progress.messages / elapsed
        left = max(0, self._total - sum(self._progress.next_offsets.values()))
        remaining = f", {duration(left / rate)} left" if rate and left else ""
        line = f"{self._progress.messages:,} messages, {rate:,.0f} a second{remaining}"
        sys.stderr.write(f"\r{line:<78}")
        sys.stderr.flush()
