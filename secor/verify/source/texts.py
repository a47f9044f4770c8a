"""Texts of a PostgreSQL source as plain values: times, intervals, JSON and arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

DAY = 86_400_000_000
_MONTH_DAYS = Decimal("30.4375")
"""Of Debezium's intervals in microseconds: a twelfth of 365.25 days."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTERVAL = re.compile(
    r"P(?:(?P<years>[-+]?\d+)Y)?(?:(?P<months>[-+]?\d+)M)?(?:(?P<days>[-+]?\d+)D)?"
    r"(?:T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:\.\d+)?)S)?)?"
)
_CLOCK = re.compile(r"(-?)(\d{2,3}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[-+]\d\d(?::?\d\d){0,2})?")
_MOMENT = re.compile(r"(\d{4,})-(\d\d)-(\d\d)[ T]([^ ]+)")


def parse_date(text: str) -> str:
    """Return a date, which may end in ``Z``, in ISO 8601."""
    return date.fromisoformat(text.removesuffix("Z")).isoformat()


def date_text(days: int | None) -> str | None:
    """Return the date that is so many days after 1970 began."""
    if days is None:
        return None
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"{days} days since 1970"


def _clock(text: str) -> tuple[int, int | None]:
    """Return microseconds since midnight, and seconds east of UTC where a zone is named."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction, zone = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
    micros = int((fraction or "").ljust(6, "0")[:6])
    total = (whole * 1_000_000 + micros) * (-1 if sign else 1)
    return total, None if zone is None else _zone_seconds(zone)


def _zone_seconds(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = (int(digits[:2]) * 60 + int(digits[2:4])) * 60 + int(digits[4:6])
    return -seconds if zone[0] == "-" else seconds


def parse_time(text: str) -> int:
    """Return microseconds since midnight, or of MariaDB's spans; a zone is left out."""
    return _clock(text)[0]


def parse_zoned_time(text: str) -> int:
    """Return microseconds since midnight in UTC."""
    micros, zone = _clock(text)
    return (micros - (zone or 0) * 1_000_000) % DAY


def parse_moment(text: str) -> int:
    """Return microseconds since the epoch; a moment without a zone is taken as UTC."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, clock = match.groups()
    days = (date(int(year), int(month), int(day)) - _EPOCH.date()).days
    micros, zone = _clock(clock)
    return days * DAY + micros - (zone or 0) * 1_000_000


def time_text(value: Any) -> str:
    """Return microseconds since midnight as a time of the day; of a span before it with a sign."""
    if not isinstance(value, int):
        return str(value)
    seconds, micros = divmod(abs(value), 1_000_000)
    minutes = seconds // 60
    sign = "-" if value < 0 else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds % 60:02}.{micros:06}"


def moment_text(zone: str) -> Callable[[Any], str]:
    """Return what shows microseconds since the epoch, with ``zone`` at the end."""

    def show(value: Any) -> str:
        if not isinstance(value, int):
            return str(value)
        try:
            moment = _EPOCH.replace(tzinfo=None) + timedelta(microseconds=value)
        except OverflowError:
            return f"{value} microseconds since 1970"
        return moment.isoformat(sep=" ", timespec="microseconds") + zone

    return show


def interval_parts(text: str) -> tuple[int, int, int]:
    """Return months, days and microseconds of an interval in ISO 8601."""
    match = _INTERVAL.fullmatch(text)
    if match is None or text == "P":
        raise ValueError(text)
    part = {name: Decimal(digits or 0) for name, digits in match.groupdict().items()}
    seconds = (part["hours"] * 60 + part["minutes"]) * 60 + part["seconds"]
    months = part["years"] * 12 + part["months"]
    return int(months), int(part["days"]), int(seconds * 1_000_000)


def interval_micros(text: str) -> int:
    """Return the microseconds that Debezium's numbers have: months are of their mean length."""
    months, days, micros = interval_parts(text)
    return int((months * _MONTH_DAYS + days) * DAY + micros)


class _JsonNumber(str):
    """A number by its digits: floats would make equal numbers of different ones."""

    __slots__ = ()


def _scientific(number: Decimal) -> str:
    """Return a number's digits and exponent: 1e400 must not become 400 digits."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    shortened = text.rstrip("0")
    if not shortened:
        return "0"
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{shortened}e{exponent + len(text) - len(shortened)}"


def array_parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads arrays whose items ``parse`` reads."""

    def parse_array(text: str) -> Any:
        items, end = _array_items(text, text.index("{"), parse)
        if end != len(text):
            raise ValueError(text)
        return items

    return parse_array


def _array_items(text: str, start: int, parse: Callable[[str], Any]) -> tuple[Any, int]:
    """Return the items of an array that begins at ``start``, and what is behind its brace."""
    items: list[Any] = []
    at = start + 1
    while text[at] != "}":
        if text[at] == "{":
            item, at = _array_items(text, at, parse)
        elif text[at] == '"':
            raw, at = _quoted_item(text, at + 1)
            item = parse_or_text(parse, raw)
        else:
            end = re.compile("[,}]").search(text, at)
            if end is None:
                raise ValueError(text)
            raw, at = text[at : end.start()], end.start()
            item = None if raw == "NULL" else parse_or_text(parse, raw)
        items.append(item)
        at += text[at] == ","
    return tuple(items), at + 1


def _quoted_item(text: str, start: int) -> tuple[str, int]:
    characters, at = [], start
    while text[at] != '"':
        at += text[at] == "\\"
        characters.append(text[at])
        at += 1
    return "".join(characters), at + 1


def parse_or_text(parse: Callable[[str], Any], text: str) -> Any:
    """Return a parsed value; the text itself where it is no value of the type, as ``infinity``."""
    try:
        return parse(text)
    except (ValueError, InvalidOperation, OverflowError):
        return text


def parse_json(text: str) -> str:
    """Return JSON in one form: names in order, numbers by their value, the last of equal names."""
    return _json_text(json.loads(text, parse_float=_JsonNumber, parse_int=_JsonNumber))


_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, |\Z)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_hstore(text: str) -> str:
    """Return an hstore as ``parse_json`` has the object that Debezium makes of it."""
    members: dict[str, str | None] = {}
    place = 0
    while place < len(text):
        pair = _PAIR.match(text, place)
        if pair is None:
            raise ValueError(text)
        name, value = pair.groups()
        members[_ESCAPED.sub(r"\1", name)] = None if value is None else _ESCAPED.sub(r"\1", value)
        place = pair.end()
    return _json_text(members)


def _json_text(value: Any) -> str:
    if isinstance(value, _JsonNumber):
        return _scientific(Decimal(value))
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}: {_json_text(it)}" for name, it in sorted(value.items()))
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
