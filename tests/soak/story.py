"""What happened, when: told while it happens, and kept for the summary."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click


@dataclass(slots=True)
class Happening:
    """A fault from ``begun`` to ``ended`` (None while it lasts), in seconds of the story."""

    kind: str
    detail: str
    begun: float
    ended: float | None = None


class Story:
    """Lines for a person, happenings and violations for the summary; threads may share it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self.happenings: list[Happening] = []
        self.violations: list[str] = []

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print a line with its time."""
        minutes, seconds = divmod(self.now(), 60)
        with self._lock:
            click.echo(f"{minutes:02.0f}:{seconds:04.1f}  {text}")

    def begin(self, kind: str, detail: str) -> Happening:
        """Tell that a fault begins."""
        self.say(f"{kind}: {detail}")
        happening = Happening(kind, detail, self.now())
        with self._lock:
            self.happenings.append(happening)
        return happening

    def end(self, happening: Happening) -> None:
        """Tell that it is over."""
        happening.ended = self.now()
        self.say(f"  {happening.kind} over after {happening.ended - happening.begun:.1f} s")

    def violated(self, text: str) -> None:
        """Tell what must not be; each only once."""
        with self._lock:
            new = text not in self.violations
            if new:
                self.violations.append(text)
        if new:
            self.say(f"VIOLATION: {text}")

    def lasting(self) -> Sequence[Happening]:
        """Return the faults that have not ended."""
        return [one for one in self.happenings if one.ended is None]
