"""Ages in ``/status.json``."""

from __future__ import annotations


def age(now: float, then: float | None) -> float | None:
    """Return seconds since ``then``, never less than 0; None for None."""
    return None if then is None else round(max(0.0, now - then), 3)
