"""Columns of MariaDB's source tables: values to write, and what readers of the table must find."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from tests.conformance.columns import (
    LARGE,
    TEXTS,
    Kind,
    Random,
    clock,
    clock_text,
    day,
    digits,
    iso,
    large_text,
    micros,
    moment,
    scaled,
    unscaled,
    uuid_value,
    words,
)
from tests.conformance.source_tables import Alteration, SourceTable

_CHAR = "CAST({} AS CHAR)"
_BYTES = {"text": "HEX({})", "mark": "UNHEX(%s)"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _kind(
    sql: str,
    arrow: pa.DataType,
    draw: Callable[[Random], str],
    parse: Callable[[str], Any],
    *literals: str,
    **more: Any,
) -> Kind:
    return Kind(sql, arrow, draw, parse, literals, **{"text": _CHAR, **more})


def _integer(sql: str, arrow: pa.DataType, bits: int) -> Kind:
    unsigned = sql.endswith("unsigned")
    low = 0 if unsigned else -(1 << (bits - 1))
    high = low + (1 << bits) - 1
    return _kind(sql, arrow, lambda rng: str(rng.randint(low, high)), int, str(low), str(high), "0")


def _decimal(precision: int, scale: int) -> Kind:
    most = scaled(10**precision - 1, scale)
    return _kind(
        f"decimal({precision},{scale})",
        pa.decimal128(precision, scale),
        lambda rng: digits(rng, precision, scale),
        Decimal,
        *(most, f"-{most}", "0"),
    )


def _text(sql: str, draw: Callable[[Random], str] = words, *literals: str) -> Kind:
    return _kind(sql, pa.string(), draw, str, *literals)


def _bytes(sql: str, size: int, *literals: str) -> Kind:
    def draw(rng: Random) -> str:
        return rng.randbytes(rng.randint(0, size)).hex()

    return _kind(sql, pa.binary(), draw, bytes.fromhex, *literals, **_BYTES)


def _hours(text: str) -> str:
    """Return a time with six digits behind the point."""
    return clock_text(text)


def _or_zero(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return what reads dates, with null for MariaDB's zero: no column holds it."""
    return lambda text: None if text.startswith("0000-00-00") else parse(text)


def _iso_moment(text: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def _stamp(rng: Random) -> str:
    """Return a moment that MariaDB's timestamp takes."""
    seconds = timedelta(seconds=rng.randint(1, (1 << 31) - 1), microseconds=rng.randrange(10**6))
    return (_EPOCH + seconds).replace(tzinfo=None).isoformat(sep=" ")


def _moments(sql: str, *literals: str) -> Kind:
    return _kind(sql, pa.timestamp("us"), moment, _iso_moment, *literals, value=iso)


def _stamps(sql: str, *literals: str) -> Kind:
    return _kind(
        sql,
        pa.timestamp("us", "UTC"),
        _stamp,
        lambda text: f"{_iso_moment(text)}+00:00",
        *literals,
        value=iso,
    )


def _document(rng: Random) -> str:
    return json.dumps({"n": rng.getrandbits(60), "t": words(rng)})


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "c_boolean": _kind("boolean", pa.int32(), lambda rng: rng.choice("01"), int),
        "c_tinyint": _integer("tinyint", pa.int32(), 8),
        "c_tinyint_unsigned": _integer("tinyint unsigned", pa.int32(), 8),
        "c_smallint": _integer("smallint", pa.int32(), 16),
        "c_smallint_unsigned": _integer("smallint unsigned", pa.int32(), 16),
        "c_mediumint": _integer("mediumint", pa.int32(), 24),
        "c_mediumint_unsigned": _integer("mediumint unsigned", pa.int32(), 24),
        "c_int": _integer("int", pa.int32(), 32),
        "c_int_unsigned": _integer("int unsigned", pa.int64(), 32),
        "c_bigint": _integer("bigint", pa.int64(), 64),
        "c_bigint_unsigned": replace(
            _integer("bigint unsigned", pa.decimal128(20, 0), 64), parse=Decimal
        ),
        # The server shows six digits of a float, and the connector's snapshot reads what it shows.
        "c_float": _kind(
            "float",
            pa.float32(),
            lambda rng: f"{rng.gauss(0, 1e6):.5e}",
            lambda text: str(np.float32(text)),
            *("3.40282e38", "-1.17549e-38", "0"),
            value=lambda number: str(np.float32(number)),
            text="CAST(CAST({} AS DOUBLE) AS CHAR)",
        ),
        "c_double": _kind(
            "double",
            pa.float64(),
            lambda rng: str(rng.gauss(0, 1e6)),
            lambda text: str(float(text)),
            *("1.7e308", "-1.7e308", "2.3e-308", "0"),
            value=str,
        ),
        "c_decimal_9_2": _decimal(9, 2),
        "c_decimal_38_10": _decimal(38, 10),
        "c_decimal_65_30": _text(
            "decimal(65,30)", lambda rng: digits(rng, 65, 30), scaled(10**65 - 1, 30), "0"
        ),
        "c_bit": _kind(
            "bit(1)",
            pa.bool_(),
            lambda rng: rng.choice("01"),
            lambda text: text == "1",
            text="BIN({})",
            mark="CAST(CONV(%s, 2, 10) AS UNSIGNED)",
        ),
        "c_bits": _kind(
            "bit(13)",
            pa.binary(),
            lambda rng: f"{rng.getrandbits(13):013b}",
            lambda text: int(text, 2).to_bytes(2, "little"),
            "0" * 13,
            text="LPAD(BIN({}), 13, '0')",
            mark="CAST(CONV(%s, 2, 10) AS UNSIGNED)",
        ),
        "c_varchar": _text("varchar(60)"),
        "c_char": _text("char(8)", lambda rng: f"{rng.getrandbits(24):x}", "", "ä"),
        "c_text": _text("text"),
        "c_enum": _text("enum('sad', 'ok', 'happy day')", lambda rng: rng.choice(("sad", "ok"))),
        "c_set": _text("set('a', 'b c', 'ä')", lambda rng: rng.choice(("a", "a,b c", "b c,ä")), ""),
        "c_json": _text("json", _document, "null", "[]", "{}", "1e400", '{"a": 1, "a": 2}'),
        "c_uuid": _kind(
            "uuid",
            pa.uuid(),
            lambda rng: str(UUID(int=rng.getrandbits(128), version=4)),
            str,
            value=uuid_value,
        ),
        "c_binary": _kind(
            "binary(8)",
            pa.binary(),
            lambda rng: rng.randbytes(8).hex(),
            bytes.fromhex,
            *("00" * 8, "ff00"),
            **_BYTES,
        ),
        "c_varbinary": _bytes("varbinary(40)", 40, "", "00", "ff00ff"),
        "c_blob": _bytes("blob", 40, "", "00"),
        "c_year": _kind("year", pa.int32(), lambda rng: str(rng.randint(1901, 2155)), int, "0"),
        "c_date": _kind("date", pa.date32(), day, str, "1000-01-01", "9999-12-31", value=iso),
        "c_date_zero": _kind("date", pa.date32(), day, _or_zero(str), "0000-00-00", value=iso),
        "c_time": _kind(
            "time(6)",
            pa.string(),
            clock,
            _hours,
            *("-838:59:59.999999", "838:59:59.999999", "24:00:00", "-00:00:01", "00:00:00"),
        ),
        "c_datetime": _moments("datetime", "1000-01-01 00:00:00", "9999-12-31 23:59:59"),
        "c_datetime_3": _moments("datetime(3)"),
        "c_datetime_6": _moments("datetime(6)", "9999-12-31 23:59:59.999999"),
        "c_datetime_zero": replace(
            _moments("datetime(6)", "0000-00-00 00:00:00"), parse=_or_zero(_iso_moment)
        ),
        "c_timestamp": _stamps("timestamp", "1970-01-01 00:00:01", "2038-01-19 03:14:07"),
        "c_timestamp_6": _stamps("timestamp(6)", "2038-01-19 03:14:07.999999"),
    }
)
"""One column for each type."""

TIME_UNITS = {"c_datetime": "ms", "c_datetime_3": "ms"}
"""The units of times that are not in microseconds, where messages have no schema."""

WITHOUT_SCHEMA: Mapping[str, Kind] = MappingProxyType(
    {
        "c_decimal_65_30": replace(KINDS["c_decimal_65_30"], parse=unscaled),
        "c_time": replace(KINDS["c_time"], arrow=pa.int64(), parse=micros),
    }
)
"""What columns hold where messages do not say what a value is."""


def _large_hex(rng: Random) -> str:
    return rng.randbytes(LARGE if rng.random() < 0.8 else 5).hex()


_TEXT = replace(KINDS["c_text"], sql="longtext", draw=large_text)
_BLOB = replace(KINDS["c_blob"], sql="longblob", draw=_large_hex, literals=())

SOURCES: Mapping[str, SourceTable] = MappingProxyType(
    {
        "kinds": SourceTable("kinds", ("id",), {"id": KINDS["c_bigint"], **KINDS}),
        "notes": SourceTable(
            "notes",
            ("id",),
            {
                "id": KINDS["c_bigint"],
                "title": KINDS["c_varchar"],
                "version": KINDS["c_int"],
                "body": _TEXT,
                "picture": _BLOB,
            },
        ),
        "moves": SourceTable(
            "moves",
            ("place", "number"),
            {
                "place": KINDS["c_varchar"],
                "number": KINDS["c_decimal_9_2"],
                "day": KINDS["c_date"],
                "amount": KINDS["c_decimal_38_10"],
            },
            partition_by=("place",),
        ),
        "wide": SourceTable(
            "wide",
            ("id",),
            {
                "id": replace(KINDS["c_char"], sql="char(36)", literals=()),
                "seen": KINDS["c_timestamp_6"],
                "body": _TEXT,
                "title": KINDS["c_varchar"],
            },
            alterations=(
                Alteration(0, "ALTER TABLE wide ADD COLUMN extra int", {"extra": KINDS["c_int"]}),
                Alteration(1, "ALTER TABLE wide MODIFY extra bigint", {"extra": KINDS["c_bigint"]}),
            ),
            key_of=lambda number: {"id": f"00000000-0000-0000-0000-{number:012}"},
            partition_by=("bucket(4, id)",),
        ),
        # Capitals, words of SQL, and rows that are emptied once.
        "select": SourceTable(
            "select",
            ("Order", "group"),
            {
                "Order": KINDS["c_int"],
                "group": replace(KINDS["c_char"], sql="varchar(60)", literals=()),
                "from": KINDS["c_date"],
                "User": KINDS["c_varchar"],
            },
            key_of=lambda number: {"Order": str(number), "group": TEXTS[number % len(TEXTS)]},
            truncate="ignore",
        ),
    }
)
