"""The declared columns of fuzzed schemas, and what a JSON value means in each type."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

UNKNOWN = object()
"""The meaning of a value that a path may store in more than one way, or refuse."""

DECLARED: Mapping[str, Any] = {
    "id": "int64",
    "s": "string",
    "l": "int64",
    "i": "int32",
    "d": "double",
    "dec": "decimal(38, 10)",
    "day": "date",
    "ts": "timestamp(us, UTC)",
    "b": "binary",
    "yes": "bool",
    "many": {"list": "string"},
    "o": {"struct": [{"name": "k", "type": "int64"}, {"name": "t", "type": "string"}]},
    "m": {"map": "double"},
}
SCHEMA_FILE = json.dumps({"fields": [{"name": n, "type": t} for n, t in DECLARED.items()]})

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)


def microseconds(moment: dt.datetime) -> int:
    """Return a time as microseconds since the epoch."""
    return (moment - EPOCH) // MICROSECOND


def _whole(value: object) -> object:
    return value if type(value) is int else UNKNOWN


def _double(value: object) -> object:
    number = type(value) in (int, Decimal)
    try:
        return float(value) if number else UNKNOWN  # type: ignore[arg-type]
    except OverflowError:
        return UNKNOWN


def _decimal(value: object) -> object:
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation:
        return UNKNOWN
    return number if type(value) in (int, Decimal, str) and number.is_finite() else UNKNOWN


def _day(value: object) -> object:
    if not isinstance(value, str) or len(value) != 10:
        return UNKNOWN
    try:
        return dt.date.fromisoformat(value).toordinal() - dt.date(1970, 1, 1).toordinal()
    except ValueError:
        return UNKNOWN


def _time(value: object) -> object:
    if not isinstance(value, str) or not value.isascii() or len(value) > 32:
        return UNKNOWN
    try:
        moment = dt.datetime.fromisoformat(value)
        return microseconds(moment) if moment.tzinfo is not None else UNKNOWN
    except (ValueError, OverflowError):
        return UNKNOWN


def _text(value: object) -> object:
    return value if isinstance(value, str) else UNKNOWN


def _binary(value: object) -> object:
    try:
        return value.encode() if isinstance(value, str) else UNKNOWN
    except UnicodeEncodeError:
        return UNKNOWN


def _flag(value: object) -> object:
    return value if isinstance(value, bool) else UNKNOWN


MEANINGS: Mapping[str, Callable[[object], object]] = {
    "id": _whole,
    "s": _text,
    "l": _whole,
    "i": _whole,
    "d": _double,
    "dec": _decimal,
    "day": _day,
    "ts": _time,
    "b": _binary,
    "yes": _flag,
}


def meanings(value: bytes | None) -> dict[str, object]:
    """Return what each declared scalar column of a message has to hold, where that is clear."""
    try:
        fields = json.loads(value or b"", parse_float=Decimal, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(fields, dict):
        return {}
    return {
        name: None if fields.get(name) is None else meaning(fields[name])
        for name, meaning in MEANINGS.items()
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object with a name twice: no standard says which value counts."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)
