"""Times and ages in ``/status.json``."""

from __future__ import annotations

from datetime import UTC, datetime


def age(now: float, then: float | None) -> float | None:
    """Return seconds since ``then``, never less than 0; None for None."""
    return None if then is None else round(max(0.0, now - then), 3)


def iso_time(seconds: float) -> str:
    """Return seconds since the epoch in ISO 8601; plain text for what no calendar has.

    Whoever writes messages may give them any timestamp.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} seconds since 1970"
