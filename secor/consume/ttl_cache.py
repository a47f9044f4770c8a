"""A cache that asks once for several callers and forgets after a short time (time to live)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from secor.core.ports import Clock

Answer = TypeVar("Answer")


class TtlCache(Generic[Answer]):
    """Answers by key, each for ``lifetime`` seconds.

    A caller gets only an answer that was asked for after the caller's own need arose, so that
    partitions of one topic that come together share one, and a later one asks again.
    """

    def __init__(self, ask: Callable[[str], Answer], clock: Clock, lifetime: float) -> None:
        """``ask`` is called without a lock: threads that come at once may all ask."""
        self._ask = ask
        self._clock = clock
        self._lifetime = lifetime
        self._answers: dict[str, tuple[float, Answer]] = {}

    def get(self, key: str, since: float) -> Answer:
        """Return an answer that was asked for later than ``since`` (monotonic seconds).

        What ``ask`` raises is raised, and not kept.
        """
        now = self._clock.monotonic()
        known = self._answers.get(key)
        # ``<=``: an answer of the very moment may have been asked for before the need arose. The
        # time that is kept is that of the question, not of the answer, which may have taken long.
        if known is None or known[0] <= since or now - known[0] > self._lifetime:
            known = now, self._ask(key)
            self._answers[key] = known
        return known[1]
