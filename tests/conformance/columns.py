"""Columns of the source tables: values to write, and what readers of the table must find."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
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


def _numeric(precision: int, scale: int) -> Kind:
    most = scaled(10**precision - 1, scale)
    return Kind(
        f"numeric({precision},{scale})",
        pa.decimal128(precision, scale),
        lambda rng: digits(rng, precision, scale),
        Decimal,
        (most, f"-{most}", "0", "-0.0"),
    )


def _floating(
    sql: str, arrow: pa.DataType, kind: Callable[[str], Any], ends: Sequence[str]
) -> Kind:
    # As text, in which NaN equals NaN and -0 does not equal 0.
    return Kind(
        sql,
        arrow,
        lambda rng: str(kind(str(rng.gauss(0, 1e6)))),
        lambda text: str(kind(text)),
        ("NaN", "Infinity", "-Infinity", "0", "-0", *ends),
        value=lambda number: str(kind(str(number))),
    )


def _integer(sql: str, arrow: pa.DataType, bits: int) -> Kind:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return Kind(
        sql, arrow, lambda rng: str(rng.randint(low, high)), int, (str(low), str(high), "0")
    )


def words(rng: Random) -> str:
    return rng.choice(TEXTS) if rng.random() < 0.3 else f"w{rng.getrandbits(40):x}"


def _text(sql: str, draw: Callable[[Random], str] = words, *literals: str) -> Kind:
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


def _iso_moment(text: str) -> str:
    return datetime.fromisoformat(text.replace("+00", "+00:00")).isoformat()


def iso(value: Any) -> str:
    return str(value.isoformat())


def uuid_value(value: Any) -> str:
    return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)


def bits(text: str) -> bytes:
    """Return bits as Debezium's messages have them: the last ones first, no zeros behind."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0")


def _or_null(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads texts, with null for what no column holds, as docs/cdc.md says."""
    return lambda text: None if text.lower() in ("infinity", "-infinity", "nan") else parse(text)


def _time_in_utc(text: str) -> time:
    """Debezium writes times with a zone in UTC."""
    if text[-3] in "+-":
        text += ":00"
    zoned = time.fromisoformat(text.replace("Z", "+00:00"))
    moment = datetime.combine(date(2000, 1, 2), zoned).astimezone(UTC)
    return moment.timetz()


def _array(
    sql: str, item: pa.DataType, draw: Callable[[Random], str], parse: Callable[[Any], Any]
) -> Kind:
    def literal(rng: Random) -> str:
        items = [
            "NULL" if rng.random() < 0.1 else json.dumps(draw(rng), ensure_ascii=False)
            for _ in range(rng.randint(0, 4))
        ]
        return "{" + ",".join(items) + "}"

    def parsed(text: str) -> list[Any]:
        items = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        return [None if it is None else parse(it) for it in items]

    def value(items: Any) -> list[Any]:
        return [None if it is None else _plain(it) for it in items]

    return Kind(f"{sql}[]", pa.list_(item), literal, parsed, ("{}",), value, "to_json({})::text")


def _plain(item: Any) -> Any:
    if isinstance(item, uuid.UUID):
        return str(item)
    return item.isoformat() if isinstance(item, date | time) else item


def uuid_text(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


def _interval(rng: Random) -> str:
    return (
        f"{rng.randint(0, 99)} years {rng.randint(0, 11)} months {rng.randint(-30, 30)} days"
        f" {rng.randint(0, 99)} hours {rng.randint(0, 59)} minutes {rng.randint(0, 59)} seconds"
    )


INTERVAL = (
    "concat('P', extract(year from {0})::int, 'Y', extract(month from {0})::int, 'M',"
    " extract(day from {0})::int, 'DT', extract(hour from {0})::int, 'H',"
    " extract(minute from {0})::int, 'M', extract(second from {0})::float, 'S')"
)
"""SQL for an interval as Debezium writes it with ``interval.handling.mode = string``; concat makes
text of null, which ``workload.source_rows`` prevents."""

_NUMBERS: dict[str, Kind] = {
    "c_smallint": _integer("smallint", pa.int32(), 16),
    "c_integer": _integer("integer", pa.int32(), 32),
    "c_bigint": _integer("bigint", pa.int64(), 64),
    "c_real": _floating("real", pa.float32(), np.float32, ("3.4e38", "1e-45")),
    "c_double": _floating("double precision", pa.float64(), float, ("1.7e308", "5e-324")),
    "c_numeric_1_0": _numeric(1, 0),
    "c_numeric_9_2": _numeric(9, 2),
    "c_numeric_18_6": _numeric(18, 6),
    "c_numeric_38_10": _numeric(38, 10),
    "c_numeric_50_20": _text(
        "numeric(50,20)", lambda rng: digits(rng, 50, 20), scaled(10**50 - 1, 20), "0"
    ),
    "c_numeric": Kind(
        "numeric",
        pa.string(),
        lambda rng: digits(rng, rng.randint(1, 60), rng.randint(0, 30)),
        _or_null(Decimal),  # Debezium leaves zeros at the end out
        ("0", "1e40", "0.00000000000000000001", "NaN", "Infinity", "-Infinity"),
        Decimal,
    ),
    "c_money": Kind(
        "money",
        pa.decimal128(38, 2),
        lambda rng: digits(rng, 12, 2),
        Decimal,
        ("92233720368547758.07", "-92233720368547758.08", "0"),
        text="{}::numeric::text",
    ),
    "c_oid": Kind("oid", pa.int64(), lambda rng: str(rng.getrandbits(32)), int),
    "c_boolean": Kind(
        "boolean", pa.bool_(), lambda rng: rng.choice(("t", "f")), lambda text: text == "true"
    ),
    "c_bit": Kind("bit(1)", pa.bool_(), lambda rng: rng.choice("01"), lambda text: text == "1"),
    "c_bits": Kind(
        "bit(13)", pa.binary(), lambda rng: f"{rng.getrandbits(13):013b}", bits, ("0" * 13,)
    ),
}

_CHARACTERS: dict[str, Kind] = {
    "c_varchar": _text("varchar(60)"),
    "c_char": Kind(
        "char(8)",
        pa.string(),
        lambda rng: f"{rng.getrandbits(24):x}",
        str,
        ("", "ä"),
        text="rpad({}::text, 8)",
    ),
    "c_bytea": Kind(
        "bytea",
        pa.binary(),
        lambda rng: "\\x" + rng.randbytes(rng.randint(0, 40)).hex(),
        lambda text: bytes.fromhex(text[2:]),
        ("\\x", "\\x00", "\\xff00ff"),
    ),
    "c_uuid": Kind(
        "uuid",
        pa.uuid(),
        uuid_text,
        str,
        (str(uuid.UUID(int=0)), str(uuid.UUID(int=(1 << 128) - 1))),
        uuid_value,
    ),
    "c_json": _text(
        "json",
        lambda rng: json.dumps({"n": rng.getrandbits(60), "t": words(rng)}),
        *("null", "[]", "{}", "1e400", '"text"', '{"a": 1, "a": 2}'),
    ),
    "c_jsonb": _text(
        "jsonb",
        lambda rng: json.dumps({"n": [rng.random(), None], "t": words(rng)}),
        *("null", "[]", "{}", "12345678901234567890.123"),
    ),
    "c_enum": _text("mood", lambda rng: rng.choice(("sad", "ok", "happy day"))),
    "c_inet": _text(
        "inet",
        lambda rng: f"10.{rng.randrange(256)}.0.1/{rng.randint(8, 31)}",
        *("::1/64", "2001:db8::/32"),
    ),
    "c_cidr": _text("cidr", lambda rng: f"10.{rng.randrange(256)}.0.0/16"),
    "c_macaddr": _text("macaddr", lambda rng: rng.randbytes(6).hex(":")),
    "c_tsvector": _text("tsvector", lambda rng: f"a{rng.getrandbits(9)}:1"),
    "c_int4range": _text(
        "int4range",
        lambda rng: f"[{rng.randint(-9, 9)},{rng.randint(10, 99)})",
        *("empty", "(,)", "[1,)"),
    ),
    "c_numrange": _text("numrange", lambda rng: f"[{rng.random()},{1 + rng.random()}]", "empty"),
    "c_tstzrange": _text("tstzrange", lambda rng: f"[{day(rng)},infinity)", "empty"),
    "c_daterange": _text("daterange", lambda rng: f"[{day(rng)},)"),
}

_TIMES: dict[str, Kind] = {
    "c_date": Kind("date", pa.date32(), day, str, ("1970-01-01", "0001-01-01", "9999-12-31"), iso),
    "c_date_infinite": Kind(
        "date", pa.date32(), day, _or_null(str), ("infinity", "-infinity"), iso
    ),
    "c_time": Kind(
        "time",
        pa.string(),
        clock,
        clock_text,
        ("00:00:00", "23:59:59.999999"),
    ),
    "c_time_24": Kind("time", pa.string(), clock, clock_text, ("24:00:00",)),
    "c_timetz": Kind(
        "timetz",
        pa.string(),
        lambda rng: clock(rng) + "+02",
        _time_in_utc,
        ("00:00:00+00",),
        _time_in_utc,
    ),
    "c_timestamp": Kind(
        "timestamp",
        pa.timestamp("us"),
        moment,
        _iso_moment,
        ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00"),
        iso,
    ),
    "c_timestamp_3": Kind("timestamp(3)", pa.timestamp("us"), moment, _iso_moment, (), iso),
    "c_timestamp_infinite": Kind(
        "timestamp",
        pa.timestamp("us"),
        moment,
        _or_null(_iso_moment),
        ("infinity", "-infinity"),
        iso,
    ),
    "c_timestamptz": Kind(
        "timestamptz",
        pa.timestamp("us", "UTC"),
        lambda rng: moment(rng) + rng.choice(("+00", "+05:30", "-11")),
        _iso_moment,
        ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
        iso,
    ),
    "c_timestamptz_infinite": Kind(
        "timestamptz",
        pa.timestamp("us", "UTC"),
        lambda rng: moment(rng) + "+00",
        _or_null(_iso_moment),
        ("infinity", "-infinity"),
        iso,
    ),
    "c_interval": Kind("interval", pa.string(), _interval, str, ("0",), text=INTERVAL),
}

_ARRAYS: dict[str, Kind] = {
    "c_ints": _array("integer", pa.int32(), lambda rng: str(rng.getrandbits(31)), int),
    "c_texts": _array("text", pa.string(), words, str),
    "c_numerics": _array(
        "numeric(12,3)", pa.decimal128(12, 3), lambda rng: digits(rng, 12, 3), Decimal
    ),
    "c_dates": _array("date", pa.date32(), day, str),
    "c_uuids": _array("uuid", pa.uuid(), uuid_text, str),
}

KINDS: Mapping[str, Kind] = MappingProxyType({**_NUMBERS, **_CHARACTERS, **_TIMES, **_ARRAYS})
"""One column for each type."""


def micros(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)


def unscaled(text: str) -> str:
    """Return a number as Debezium writes it without a schema: its digits, in base64."""
    number = int(text.replace(".", ""))
    size = (number if number >= 0 else -number - 1).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


WITHOUT_SCHEMA: Mapping[str, Kind] = MappingProxyType(
    {
        "c_numeric_50_20": replace(KINDS["c_numeric_50_20"], parse=unscaled),
        "c_time": replace(KINDS["c_time"], arrow=pa.int64(), parse=micros),
        "c_time_24": replace(KINDS["c_time_24"], arrow=pa.int64(), parse=micros),
    }
)
"""What columns hold where messages do not say what a value is."""


UNLIKE = ("c_date_infinite", "c_timestamp_infinite", "c_timestamptz_infinite", "c_numeric")
"""Columns with values that are null in the table, as docs/cdc.md says."""

TIME_UNITS = {"c_timestamp_3": "ms"}
"""The units of times that are not in microseconds, where messages have no schema."""


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
