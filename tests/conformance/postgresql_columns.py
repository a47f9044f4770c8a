"""Columns of PostgreSQL's source tables: one for each type."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from tests.conformance.columns import (
    Kind,
    array,
    bits,
    clock,
    clock_text,
    day,
    digits,
    floating,
    integer,
    interval,
    iso,
    iso_moment,
    micros,
    moment,
    numeric,
    or_null,
    scaled,
    textual,
    time_in_utc,
    unscaled,
    uuid_text,
    uuid_value,
    words,
)

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
"""Those of Debian's package postgresql, whose extensions have types, too; else the sandbox's."""

TYPES = (
    *(f"CREATE EXTENSION {name}" for name in ("citext", "hstore", "ltree") if PROGRAMS),
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy day')",
    "CREATE DOMAIN amount AS numeric(9,2) CHECK (value > -1e9)",
    "CREATE DOMAIN short_text AS varchar(12)",
)
"""Statements that make the types of columns that are no types of PostgreSQL's own."""

INTERVAL = (
    "concat('P', extract(year from {0})::int, 'Y', extract(month from {0})::int, 'M',"
    " extract(day from {0})::int, 'DT', extract(hour from {0})::int, 'H',"
    " extract(minute from {0})::int, 'M', extract(second from {0})::float, 'S')"
)
"""SQL for an interval as Debezium writes it with ``interval.handling.mode = string``; concat makes
text of null, which ``workload.source_rows`` prevents."""

_NUMBERS: dict[str, Kind] = {
    "c_smallint": integer("smallint", pa.int32(), 16),
    "c_integer": integer("integer", pa.int32(), 32),
    "c_bigint": integer("bigint", pa.int64(), 64),
    "c_real": floating("real", pa.float32(), np.float32, ("3.4e38", "1e-45")),
    "c_double": floating("double precision", pa.float64(), float, ("1.7e308", "5e-324")),
    "c_numeric_1_0": numeric(1, 0),
    "c_numeric_9_2": numeric(9, 2),
    "c_numeric_18_6": numeric(18, 6),
    "c_numeric_38_10": numeric(38, 10),
    "c_numeric_50_20": textual(
        "numeric(50,20)", lambda rng: digits(rng, 50, 20), scaled(10**50 - 1, 20), "0"
    ),
    "c_numeric": Kind(
        "numeric",
        pa.string(),
        lambda rng: digits(rng, rng.randint(1, 60), rng.randint(0, 30)),
        or_null(Decimal),  # Debezium leaves zeros at the end out
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
    # PostgreSQL's scales may be negative, or greater than the precision: no decimal column is so.
    "c_numeric_hundreds": Kind(
        "numeric(5,-2)",
        pa.string(),
        lambda rng: digits(rng, 5, 0) + "00",
        Decimal,
        ("0", "-9999900"),
        Decimal,  # Debezium takes the scale for 2046
    ),
    "c_numeric_fine": textual("numeric(3,5)", lambda rng: digits(rng, 3, 5), "0.00000"),
    "c_numeric_100_50": textual(
        "numeric(100,50)", lambda rng: digits(rng, 100, 50), f"-{scaled(10**100 - 1, 50)}"
    ),
    "c_domain": Kind(
        "amount", pa.decimal128(9, 2), lambda rng: digits(rng, 9, 2), Decimal, ("0.01",)
    ),
    "c_oid": Kind("oid", pa.int64(), lambda rng: str(rng.getrandbits(32)), int),
    "c_boolean": Kind(
        "boolean", pa.bool_(), lambda rng: rng.choice(("t", "f")), lambda text: text == "true"
    ),
    "c_bit": Kind("bit(1)", pa.bool_(), lambda rng: rng.choice("01"), lambda text: text == "1"),
    "c_bits": Kind(
        "bit(13)", pa.binary(), lambda rng: f"{rng.getrandbits(13):013b}", bits, ("0" * 13,)
    ),
    "c_bit_8": Kind("bit(8)", pa.binary(), lambda rng: f"{rng.getrandbits(8):08b}", bits),
    "c_varbit": Kind(
        "varbit(20)", pa.binary(), lambda rng: f"{rng.getrandbits(9):b}", bits, ("", "0" * 20)
    ),
}

_CHARACTERS: dict[str, Kind] = {
    "c_varchar": textual("varchar(60)"),
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
    "c_json": textual(
        "json",
        lambda rng: json.dumps({"n": rng.getrandbits(60), "t": words(rng)}),
        *("null", "[]", "{}", "1e400", '"text"', '{"a": 1, "a": 2}'),
    ),
    "c_jsonb": textual(
        "jsonb",
        lambda rng: json.dumps({"n": [rng.random(), None], "t": words(rng)}),
        *("null", "[]", "{}", "12345678901234567890.123"),
    ),
    "c_enum": textual("mood", lambda rng: rng.choice(("sad", "ok", "happy day"))),
    "c_inet": textual(
        "inet",
        lambda rng: f"10.{rng.randrange(256)}.0.1/{rng.randint(8, 31)}",
        *("::1/64", "2001:db8::/32"),
    ),
    "c_cidr": textual("cidr", lambda rng: f"10.{rng.randrange(256)}.0.0/16"),
    "c_macaddr": textual("macaddr", lambda rng: rng.randbytes(6).hex(":")),
    "c_tsvector": textual("tsvector", lambda rng: f"a{rng.getrandbits(9)}:1"),
    "c_int4range": textual(
        "int4range",
        lambda rng: f"[{rng.randint(-9, 9)},{rng.randint(10, 99)})",
        *("empty", "(,)", "[1,)"),
    ),
    "c_numrange": textual("numrange", lambda rng: f"[{rng.random()},{1 + rng.random()}]", "empty"),
    "c_tstzrange": textual("tstzrange", lambda rng: f"[{day(rng)},infinity)", "empty"),
    "c_tsrange": textual("tsrange", lambda rng: f"[{day(rng)},)", "empty", "(,)"),
    "c_int8range": textual("int8range", lambda rng: f"[{rng.getrandbits(62)},)", "empty"),
    "c_macaddr8": textual("macaddr8", lambda rng: rng.randbytes(8).hex(":")),
    "c_xml": textual("xml", lambda rng: f"<a b='{rng.getrandbits(20)}'>ä &lt;</a>", "text"),
    "c_domain_text": textual("short_text", lambda rng: f"{rng.getrandbits(12):x}", ""),
    "c_daterange": textual("daterange", lambda rng: f"[{day(rng)},)"),
}

_TIMES: dict[str, Kind] = {
    "c_date": Kind("date", pa.date32(), day, str, ("1970-01-01", "0001-01-01", "9999-12-31"), iso),
    "c_date_infinite": Kind("date", pa.date32(), day, or_null(str), ("infinity", "-infinity"), iso),
    "c_time": Kind(
        "time",
        pa.string(),
        clock,
        clock_text,
        ("00:00:00", "23:59:59.999999"),
    ),
    "c_time_24": Kind("time", pa.string(), clock, clock_text, ("24:00:00",)),
    "c_time_3": Kind(
        "time(3)", pa.string(), clock, clock_text, ("00:00:00", "23:59:59.999", "24:00:00")
    ),
    "c_timetz": Kind(
        "timetz",
        pa.string(),
        lambda rng: clock(rng) + "+02",
        time_in_utc,
        ("00:00:00+00",),
        time_in_utc,
    ),
    "c_timestamp": Kind(
        "timestamp",
        pa.timestamp("us"),
        moment,
        iso_moment,
        ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00"),
        iso,
    ),
    "c_timestamp_3": Kind("timestamp(3)", pa.timestamp("us"), moment, iso_moment, (), iso),
    "c_timestamp_0": Kind("timestamp(0)", pa.timestamp("us"), moment, iso_moment, (), iso),
    "c_timestamptz_3": Kind(
        "timestamptz(3)",
        pa.timestamp("us", "UTC"),
        lambda rng: moment(rng) + "+01",
        iso_moment,
        ("1969-12-31 23:59:59.999+00",),
        iso,
    ),
    "c_timestamp_infinite": Kind(
        "timestamp",
        pa.timestamp("us"),
        moment,
        or_null(iso_moment),
        ("infinity", "-infinity"),
        iso,
    ),
    "c_timestamptz": Kind(
        "timestamptz",
        pa.timestamp("us", "UTC"),
        lambda rng: moment(rng) + rng.choice(("+00", "+05:30", "-11")),
        iso_moment,
        ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
        iso,
    ),
    "c_timestamptz_infinite": Kind(
        "timestamptz",
        pa.timestamp("us", "UTC"),
        lambda rng: moment(rng) + "+00",
        or_null(iso_moment),
        ("infinity", "-infinity"),
        iso,
    ),
    "c_interval": Kind("interval", pa.string(), interval, str, ("0",), text=INTERVAL),
}

_ARRAYS: dict[str, Kind] = {
    "c_ints": array("integer", pa.int32(), lambda rng: str(rng.getrandbits(31)), int),
    "c_texts": array("text", pa.string(), words, str),
    "c_numerics": array(
        "numeric(12,3)", pa.decimal128(12, 3), lambda rng: digits(rng, 12, 3), Decimal
    ),
    "c_dates": array("date", pa.date32(), day, str),
    "c_uuids": array("uuid", pa.uuid(), uuid_text, str),
    "c_bigints": array("bigint", pa.int64(), lambda rng: str(-rng.getrandbits(63)), int),
    "c_smallints": array("smallint", pa.int32(), lambda rng: str(rng.getrandbits(15)), int),
    "c_booleans": array("boolean", pa.bool_(), lambda rng: rng.choice("tf"), bool),
    "c_doubles": array("double precision", pa.float64(), lambda rng: str(rng.random()), float),
    "c_varchars": array("varchar(60)", pa.string(), words, str),
    "c_any_numerics": array(
        "numeric",
        pa.string(),
        lambda rng: digits(rng, rng.randint(1, 40), rng.randint(0, 20)),
        Decimal,
        item_value=Decimal,
    ),
    "c_timestamps": array("timestamp", pa.timestamp("us"), moment, iso_moment),
    "c_timestamptzs": array(
        "timestamptz", pa.timestamp("us", "UTC"), lambda rng: moment(rng) + "+00", iso_moment
    ),
    "c_byteas": array(
        "bytea",
        pa.binary(),
        lambda rng: "\\x" + rng.randbytes(rng.randint(0, 9)).hex(),
        lambda text: bytes.fromhex(text[2:]),
        as_texts=True,
    ),
    # Debezium makes null of a whole array of enums that has a null.
    "c_moods": array(
        "mood", pa.string(), lambda rng: rng.choice(("sad", "happy day")), str, nulls=False
    ),
    "c_jsonbs": array(
        "jsonb", pa.string(), lambda rng: json.dumps({"t": words(rng)}), str, as_texts=True
    ),
    "c_inets": array("inet", pa.string(), lambda rng: f"10.0.{rng.randrange(256)}.1", str),
}

_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64()), ("wkb", pa.binary())])


def _point(text: str) -> dict[str, Any]:
    """Return a point with its well-known bytes, as Debezium has it; its srid is always null."""
    x, y = map(float, text.strip("()").split(","))
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y)}


_SHAPES: dict[str, Kind] = {
    "c_point": Kind(
        "point", _POINT, lambda rng: f"({rng.gauss(0, 99)},{rng.randint(-9, 9)})", _point
    ),
}

_EXTENSIONS: dict[str, Kind] = {
    "c_citext": textual("citext"),
    "c_ltree": textual("ltree", lambda rng: f"top.a{rng.getrandbits(9)}.b", ""),
    "c_hstore": Kind(
        "hstore",
        pa.string(),
        lambda rng: f'a=>{rng.getrandbits(9)}, "b c"=>"d\\"ä", e=>NULL',
        json.loads,
        ("",),
        json.loads,
        "hstore_to_json({})::text",
    ),
}

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        **_NUMBERS,
        **_CHARACTERS,
        **_TIMES,
        **_ARRAYS,
        **_SHAPES,
        **(_EXTENSIONS if PROGRAMS is not None else {}),
    }
)
"""One column for each type."""


WITHOUT_SCHEMA: Mapping[str, Kind] = MappingProxyType(
    {
        "c_numeric_50_20": replace(KINDS["c_numeric_50_20"], parse=unscaled),
        "c_time": replace(KINDS["c_time"], arrow=pa.int64(), parse=micros),
        "c_time_24": replace(KINDS["c_time_24"], arrow=pa.int64(), parse=micros),
        "c_time_3": replace(
            KINDS["c_time_3"], arrow=pa.int32(), parse=lambda text: micros(text) // 1000
        ),
        "c_numeric_fine": replace(KINDS["c_numeric_fine"], parse=unscaled),
        "c_numeric_100_50": replace(KINDS["c_numeric_100_50"], parse=unscaled),
        "c_numeric_hundreds": replace(
            KINDS["c_numeric_hundreds"],
            parse=lambda text: unscaled(text + "0" * 2046),
            value=lambda text: text,
        ),
    }
)
"""What columns hold where messages do not say what a value is."""


UNLIKE = (
    "c_point",
    "c_date_infinite",
    "c_timestamp_infinite",
    "c_timestamptz_infinite",
    "c_numeric",
)
"""Columns with values that are null in the table, as docs/cdc.md says."""

TIME_UNITS = {"c_timestamp_3": "ms", "c_timestamp_0": "ms"}
"""The units of times that are not in microseconds, where messages have no schema."""
