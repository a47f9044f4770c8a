"""Trying again: how long to wait, and a loop with a bounded number of attempts."""

from __future__ import annotations

import random
from collections.abc import Callable
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
            if not wanted():
                raise
            attempt += 1
