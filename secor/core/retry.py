"""Trying again: how long to wait, and a loop with a bounded number of attempts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

BASE = 0.2
CAP = 30.0

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def delay(attempt: int, *, rng: random.Random, base: float = BASE, cap: float = CAP) -> float:
    """Return seconds before the attempt after ``attempt`` (0 is the first).

    Exponential from ``base`` to at most ``cap``, with the upper half random, so that
    processes that failed together do not come back together and none comes back at once.
    """
    most = min(cap, base * 2.0 ** min(attempt, 64))  # a long outage must not overflow
    return most / 2 + rng.random() * most / 2


def _ignore(_: Exception) -> None:
    """Report nothing."""


def _always() -> bool:
    return True


def retry(
    action: Callable[[], T],
    errors: tuple[type[E], ...],
    *,
    attempts: int,
    sleep: Callable[[float], object],
    rng: random.Random,
    failed: Callable[[E], object] = _ignore,
    wanted: Callable[[], bool] = _always,
) -> T:
    """Return what ``action`` returns; call it up to ``attempts`` times, with delays between.

    Only ``errors`` are tried again; ``failed`` gets each of them, also the last.  ``wanted`` is
    asked after each delay: False gives up.  Raises the last error.
    """
    attempt = 0
    while True:
        try:
            return action()
        except errors as error:
            failed(error)
            if attempt + 1 >= attempts:
                raise
            sleep(delay(attempt, rng=rng))
            # After the wait: a partition that was revoked meanwhile must not begin another attempt.
            if not wanted():
                raise
            attempt += 1


@dataclass(frozen=True, slots=True)
class EndedErrors:
    """A row of errors that is over: how long it lasted in seconds, how many there were."""

    seconds: float
    times: int


class RepeatedErrors:
    """Errors that come back with each attempt: the first is worth a line, the others are counted.

    ``monotonic`` gives seconds.  For any number of threads.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """Begin with none."""
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._open: dict[Hashable, tuple[float, int, str]] = {}

    def failed(self, key: Hashable, kind: str = "") -> bool:
        """Count an error of ``key``; return whether it begins a row, or is of another kind."""
        with self._lock:
            since, times, before = self._open.get(key, (self._monotonic(), 0, kind))
            self._open[key] = since, times + 1, kind
            return times == 0 or kind != before

    def ended(self, key: Hashable) -> EndedErrors | None:
        """Return the row that a success ends; None if there was none."""
        if key not in self._open:
            return None
        with self._lock:
            row = self._open.pop(key, None)
        # Another thread has ended it since the look without the lock.
        if row is None:
            return None
        since, times, _ = row
        return EndedErrors(self._monotonic() - since, times)
