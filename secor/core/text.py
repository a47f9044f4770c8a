"""Numbers in sentences."""

from __future__ import annotations


def how_many(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 message`` or ``2,000 messages``; ``many`` where no ``s`` at the end makes it."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
