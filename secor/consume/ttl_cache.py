"""What concerns a topic is asked once for all of its partitions that are looked for together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from secor.core.ports import Clock

Answer = TypeVar("Answer")


class AskedOnce(Generic[Answer]):
    """Answers by key; each serves who came before it was asked for, for ``lifetime`` seconds."""

    def __init__(self, ask: Callable[[str], Answer], clock: Clock, lifetime: float) -> None:
        """``ask`` is called without a lock: threads that come at once may all ask."""
        self._ask = ask
        self._clock = clock
        self._lifetime = lifetime
        self._known: dict[str, tuple[float, Answer]] = {}

    def get(self, key: str, since: float) -> Answer:
        """Return an answer that was asked for later than ``since`` (monotonic seconds).

        What ``ask`` raises is raised, and not kept.
        """
        now = self._clock.monotonic()
        known = self._known.get(key)
        if known is None or known[0] <= since or now - known[0] > self._lifetime:
            known = now, self._ask(key)
            self._known[key] = known
        return known[1]
