"""Times as people write them on a command line."""

from __future__ import annotations

from datetime import datetime

import click


def milliseconds(text: str) -> int:
    """Return an ISO 8601 time with a zone in milliseconds since 1970.  Raises ``UsageError``."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{text!r} is no time: write ISO 8601 with a zone, such as 2026-11-21T06:00:00Z"
        ) from error
    if time.tzinfo is None:
        raise click.UsageError(f"{text!r} names no time zone: add Z, or an offset such as +01:00")
    return round(time.timestamp() * 1000)
