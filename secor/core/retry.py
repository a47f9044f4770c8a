"""How long to wait before trying again: a value, not a loop."""

from __future__ import annotations

import random

BASE = 0.2
CAP = 30.0


def delay(attempt: int, *, rng: random.Random, base: float = BASE, cap: float = CAP) -> float:
    """Return seconds before the attempt after ``attempt`` (0 is the first).

    Exponential from ``base`` to at most ``cap``, with the upper half random, so that
    processes that failed together do not come back together and none comes back at once.
    """
    most = min(cap, base * 2.0 ** min(attempt, 64))  # a long outage must not overflow
    return most / 2 + rng.random() * most / 2
