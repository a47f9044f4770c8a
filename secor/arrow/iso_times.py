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
    """Return which texts have date and time of day, in the unit, and an offset if a zone has one.

    A day may be one that its month does not have.
    """
    return pc.match_substring_regex(texts, rf"\A{_ANY_DAY}{moment(kind)}\z")


_OTHER_FORMS = (
    (r"\A([0-9]{4})([0-9]{2})([0-9]{2})([Tt])([0-9]{2})([0-9]{2})([0-9]{2})", r"\1-\2-\3T\5:\6:\7"),
    (r"\A([0-9]{4}-[0-9]{2}-[0-9]{2})t", r"\1T"),
    (r"([0-9])z\z", r"\1Z"),
    (r"(:[0-9]{2}),([0-9])", r"\1.\2"),
    (r"(\.[0-9]{6})0+([Z+-]|\z)", r"\1\2"),
)
"""Forms of ISO 8601 that Arrow does not read, with those that it does: without separators, in small
letters, with a comma for the point, with zeros behind microseconds.
"""

_MAY_BE_OTHER = r"[tz,]|\A[0-9]{8}[Tt]|[0-9]{7}"


def in_usual_form(texts: pa.Array) -> pa.Array:
    """Return times of ISO 8601 as Arrow reads them; other text as it is, or as bad."""
    if not pc.any(pc.match_substring_regex(texts, _MAY_BE_OTHER)).as_py():
        return texts
    for pattern, form in _OTHER_FORMS:
        texts = pc.replace_substring_regex(texts, pattern, form)
    return texts


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
