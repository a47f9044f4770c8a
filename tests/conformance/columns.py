"""Columns of the source tables: values to write, and what readers of the table must find."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

TEXTS = (
    "",
    " ",
    "null",
    "ä",
    "日本語",
    "😀",
    "a'b\"c\\d",
    "line\nbreak",
    "\t",
    "{}",
    "0",
    "é" * 50,
    "a:b, c=d",
)
LARGE = 3000
"""Characters from which a value is stored outside of its row."""

Random = random.Random


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of PostgreSQL.

    ``literals`` are values at its ends as SQL has them, ``draw`` makes an ordinary one.  ``arrow``
    is the type that a table must have.  ``parse`` makes of the source's text what ``value`` makes
    of the table's value.
    """

    sql: str
    arrow: pa.DataType
    draw: Callable[[Random], str]
    parse: Callable[[str], Any]
    literals: Sequence[str] = ()
    value: Callable[[Any], Any] = lambda value: value
    text: str = "{}::text"
    """SQL for the source's text of a value."""

    mark: str = "%s"
    """SQL for a value that is written."""


def digits(rng: Random, precision: int, scale: int) -> str:
    return rng.choice(("", "-")) + scaled(rng.randrange(10 ** rng.randint(1, precision)), scale)


def scaled(number: int, scale: int) -> str:
    """Return a number with ``scale`` digits behind the point; no context rounds it."""
    return f"{Decimal((0, tuple(map(int, str(number))), -scale)):f}"


def numeric(precision: int, scale: int) -> Kind:
    most = scaled(10**precision - 1, scale)
    return Kind(
        f"numeric({precision},{scale})",
        pa.decimal128(precision, scale),
        lambda rng: digits(rng, precision, scale),
        Decimal,
        (most, f"-{most}", "0", "-0.0"),
    )


def floating(sql: str, arrow: pa.DataType, kind: Callable[[str], Any], ends: Sequence[str]) -> Kind:
    # As text, in which NaN equals NaN and -0 does not equal 0.
    return Kind(
        sql,
        arrow,
        lambda rng: str(kind(str(rng.gauss(0, 1e6)))),
        lambda text: str(kind(text)),
        ("NaN", "Infinity", "-Infinity", "0", "-0", *ends),
        value=lambda number: str(kind(str(number))),
    )


def integer(sql: str, arrow: pa.DataType, bits: int) -> Kind:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return Kind(
        sql, arrow, lambda rng: str(rng.randint(low, high)), int, (str(low), str(high), "0")
    )


def words(rng: Random) -> str:
    return rng.choice(TEXTS) if rng.random() < 0.3 else f"w{rng.getrandbits(40):x}"


def textual(sql: str, draw: Callable[[Random], str] = words, *literals: str) -> Kind:
    return Kind(sql, pa.string(), draw, str, literals)


def large_text(rng: Random) -> str:
    """Return a text that is mostly stored outside of its row."""
    return f"{rng.getrandbits(64):x} ä" * (LARGE // 10) if rng.random() < 0.8 else "short"


def day(rng: Random) -> str:
    return (date(1970, 1, 1) + timedelta(days=rng.randint(-60_000, 60_000))).isoformat()


def moment(rng: Random) -> str:
    seconds = rng.randint(-4_000_000_000, 8_000_000_000)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=seconds, microseconds=rng.choice((0, 1, 999_999, rng.randrange(1_000_000)))
    )
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def clock(rng: Random) -> str:
    moment = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(
        microseconds=rng.randrange(86_400_000_000)
    )
    return moment.strftime("%H:%M:%S.%f")


def clock_text(text: str) -> str:
    """Return a time with six digits behind the point."""
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction:0<6}"


def iso_moment(text: str) -> str:
    return datetime.fromisoformat(text.replace("+00", "+00:00")).isoformat()


def iso(value: Any) -> str:
    return str(value.isoformat())


def uuid_value(value: Any) -> str:
    return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)


def bits(text: str) -> bytes:
    """Return bits as Debezium's messages have them: the last ones first, no zeros behind."""
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0")


def or_null(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads texts, with null for what no column holds, as docs/cdc.md says."""
    return lambda text: None if text.lower() in ("infinity", "-infinity", "nan") else parse(text)


def time_in_utc(text: str) -> time:
    """Debezium writes times with a zone in UTC."""
    if text[-3] in "+-":
        text += ":00"
    zoned = time.fromisoformat(text.replace("Z", "+00:00"))
    moment = datetime.combine(date(2000, 1, 2), zoned).astimezone(UTC)
    return moment.timetz()


def array(
    sql: str,
    item: pa.DataType,
    draw: Callable[[Random], str],
    parse: Callable[[Any], Any],
    *,
    as_texts: bool = False,
    item_value: Callable[[Any], Any] | None = None,
    nulls: bool = True,
) -> Kind:
    """``as_texts``: the source's items are those of ``text[]``; ``nulls``: they may be null."""

    def literal(rng: Random) -> str:
        items = [
            "NULL" if nulls and rng.random() < 0.1 else json.dumps(draw(rng), ensure_ascii=False)
            for _ in range(rng.randint(0, 4))
        ]
        return "{" + ",".join(items) + "}"

    def parsed(text: str) -> list[Any]:
        items = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        return [None if it is None else parse(it) for it in items]

    def value(items: Any) -> list[Any]:
        return [None if it is None else (item_value or _plain)(it) for it in items]

    text = "to_json({}::text[])::text" if as_texts else "to_json({})::text"
    return Kind(
        f"{sql}[]",
        pa.list_(item),
        literal,
        parsed,
        ("{}", "{NULL}") if nulls else ("{}",),
        value,
        text,
    )


def _plain(item: Any) -> Any:
    if isinstance(item, uuid.UUID):
        return str(item)
    return item.isoformat() if isinstance(item, date | time) else item


def uuid_text(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


def interval(rng: Random) -> str:
    return (
        f"{rng.randint(0, 99)} years {rng.randint(0, 11)} months {rng.randint(-30, 30)} days"
        f" {rng.randint(0, 99)} hours {rng.randint(0, 59)} minutes {rng.randint(0, 59)} seconds"
    )


def micros(text: str) -> int:
    hours, minutes, seconds = text.removeprefix("-").split(":")
    count = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
    return -count if text.startswith("-") else count


def unscaled(text: str) -> str:
    """Return a number as Debezium writes it without a schema: its digits, in base64."""
    number = int(text.replace(".", ""))
    size = (number if number >= 0 else -number - 1).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def stored_kind(kind: Kind, *, uuids: bool) -> Kind:
    """Return what a column holds if its table's format has ``uuids``, or not."""
    if not uuids and kind.arrow == pa.uuid():
        kind = replace(kind, arrow=pa.string())
    if not uuids and kind.arrow == pa.list_(pa.uuid()):
        kind = replace(kind, arrow=pa.list_(pa.string()))
    return kind


def is_equal(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, and of one type."""
    return bool(one == other) and type(one) is type(other)
