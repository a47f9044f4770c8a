"""One answer for all topic partitions that came together: a topic is not asked for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from secor.ports import Clock

Answer = TypeVar("Answer")


class Shared(Generic[Answer]):
    """Answers by key; each serves those topic partitions that came before it was asked for."""

    def __init__(self, ask: Callable[[str], Answer], clock: Clock) -> None:
        """``ask`` is called without a lock: threads that come at once may all ask."""
        self._ask = ask
        self._clock = clock
        self._known: dict[str, tuple[float, Answer]] = {}

    def get(self, key: str, since: float) -> Answer:
        """Return an answer that was asked for later than ``since`` (monotonic seconds).

        What ``ask`` raises is raised, and not kept.
        """
        known = self._known.get(key)
        if known is None or known[0] <= since:
            asked = self._clock.monotonic()
            known = asked, self._ask(key)
            self._known[key] = known
        return known[1]
