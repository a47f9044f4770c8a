"""ISO 8601 text of dates and times, as expressions of RE2."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

DAY = (
    r"[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    r"|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
)
"""A date that is in every year."""

FIRST_VALUES = 1000
"""A field of text becomes one of times if so many values, its first, are times."""

INSTANT = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")

_ANY_DAY = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,%d})?)?"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_FRACTION = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})


def clock(unit: str) -> str:
    """Return what a time of day looks like that has no more digits than ``unit``."""
    digits = _FRACTION[unit]
    return _CLOCK % digits if digits else _CLOCK.replace(r"(\.[0-9]{1,%d})?", "")


def moment(kind: pa.TimestampType) -> str:
    """Return what follows the date: a time, with an offset if ``kind`` has a zone."""
    return rf"[ T]{clock(kind.unit)}{_ZONE if kind.tz else ''}"


def is_written_as(texts: pa.Array, kind: pa.TimestampType) -> pa.Array:
    """Tell which texts have date and time of day, in the unit, and an offset if a zone has one.

    A day may be one that its month does not have.
    """
    return pc.match_substring_regex(texts, rf"\A{_ANY_DAY}{moment(kind)}\z")


def time_type(texts: pa.Array) -> pa.TimestampType | None:
    """Return the type of times in which all ``texts`` are written; None if there is none."""
    for kind in (INSTANT, LOCAL):
        if pc.all(is_written_as(texts, kind)).as_py():
            try:
                texts.cast(kind)
            except pa.ArrowException:
                return None
            return kind
    return None
