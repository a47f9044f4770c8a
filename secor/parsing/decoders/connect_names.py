"""Types that Kafka Connect's and Debezium's names give to plain values, whatever carries them.

The converters of JSON and Avro write the same names: ``io.debezium.time.Date`` makes a day of an
integer.  Infinite times, which a database may have and no column holds, are null and counted.
Sources: ``connect.data`` (``org.apache.kafka``), and Debezium's documentation of its data types
(``io.debezium.time``, ``io.debezium.data``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.core.variant_json import schema_field
from secor.parsing.decoders.columns import Undecodable, decimal_of
from secor.parsing.rows import null_for_infinite

Convert = Callable[[Any], Any]

MOST_DIGITS = 38
"""Digits of the widest decimal that every format has."""

MOST_SCALE = 20_000
"""PostgreSQL's numeric ends at 16,383 digits behind the point."""

DECIMAL = "org.apache.kafka.connect.data.Decimal"

INFINITE_YEAR = 290_000
"""PostgreSQL's infinite timestamps are written as the years 294247 and 292278994, and before
-290000."""

INFINITE_DAY = 2_146_000_000
"""PostgreSQL's last date is a day of the year 5874897, infinite ones are written as days of the
years 5877611 and -5877611."""

EARLIEST_DAY = -2_440_588
"""PostgreSQL's first date, 4714-11-24 BC.  Earlier days are infinite dates, too: what does not fit
into 32 bits is cut off where Debezium's snapshots convert it (-622191234, -625821272)."""

_YEAR = 31_556_952
"""Seconds, on the average."""

INFINITE_COUNTS: Mapping[str, int] = MappingProxyType(
    {
        "ms": INFINITE_YEAR * _YEAR * 10**3,
        "us": INFINITE_YEAR * _YEAR * 10**6,
        "ns": (1 << 63) - 10**12,  # nanoseconds hold fewer years
    }
)
"""Counts of timestamps, of either sign, from which on they are infinite."""
_LONG_YEAR = re.compile(r"[+-]?(\d{5,})-")
_OFFSET = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)\Z")
_OFFSET_OR_NONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Column:
    """Type of a place in a schema; ``convert`` None keeps the values; ``text`` is JSON text,
    ``uuid`` the text of UUIDs.
    """

    type: pa.DataType
    convert: Convert | None = None
    text: bool = False
    uuid: bool = False

    def field(self, name: str) -> pa.Field:
        """Return it as the field of a struct, list or map."""
        return schema_field(name, self.type, text=self.text, uuid=self.uuid)


def named_column(name: Any, parameters: Any, plain: Column) -> Column | None:
    """Return what a name makes of a plain column, its conversion included.

    None if the name is not known, or not one of such values: then it changes nothing.
    """
    kind = _kind_of(plain.type)
    if kind == "bytes" and name == DECIMAL:
        named = decimal_column(parameters)
    elif kind == "struct" and name == "io.debezium.data.VariableScaleDecimal":
        named = Column(pa.string(), _variable_scale)
    else:
        named = _NAMED.get((name, kind))
    # The name is not known: the values stay what the plain type makes of them.
    if named is None or plain.convert is None:
        return named
    if named.convert is None:
        return replace(named, convert=plain.convert)
    read, change = plain.convert, named.convert
    return replace(named, convert=lambda value: change(read(value)))


def decimal_column(parameters: Any) -> Column | None:
    """Return decimals of the unscaled number's bytes; None if the scale is missing.

    The precision is there where Debezium says it; a decimal of unknown precision takes 38 digits,
    and one that no column has is text.
    """
    scale = decimal_scale(parameters)
    if scale is None:
        return None
    try:
        precision = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    except (TypeError, ValueError):
        precision = MOST_DIGITS
    if not 0 <= scale <= precision <= MOST_DIGITS or not precision:
        return Column(pa.string(), lambda raw: format(_unscaled(raw, scale), "f"))
    return Column(pa.decimal128(precision, scale), lambda raw: _unscaled(raw, scale))


def decimal_scale(parameters: Any) -> int | None:
    """Return the scale that a decimal's parameters name; None if there is none."""
    try:
        return int(parameters["scale"])
    except (KeyError, TypeError, ValueError):
        return None


def _unscaled(raw: bytes, scale: int) -> Decimal:
    return decimal_of(int.from_bytes(raw, "big", signed=True), scale)


def _variable_scale(fields: Mapping[str, Any]) -> str:
    """Numbers of any scale, as text, digit by digit: no decimal column takes all of them."""
    scale, raw = fields.get("scale"), fields.get("value")
    if type(scale) is not int or type(raw) is not bytes:
        raise Undecodable("a decimal needs a scale and a value")
    if abs(scale) > MOST_SCALE:
        raise Undecodable(f"a decimal of scale {scale}")
    return format(_unscaled(raw, scale), "f")


def _kind_of(kind: pa.DataType) -> str:
    if pa.types.is_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    return "struct" if pa.types.is_struct(kind) else str(kind)


def _days(value: int) -> int | None:
    return value if EARLIEST_DAY <= value < INFINITE_DAY else null_for_infinite()


def _instants(unit: str) -> Convert:
    limit = INFINITE_COUNTS[unit]
    return lambda value: null_for_infinite() if abs(value) >= limit else value


def is_infinite(text: str) -> bool:
    """Return whether a text is what Debezium writes for an infinite time."""
    if text.lower() in ("infinity", "-infinity"):
        return True
    year = _LONG_YEAR.match(text)
    # Nine digits do: Python refuses to read a number of thousands, which a message may have.
    return year is not None and int(year[1][:9]) >= INFINITE_YEAR


def _zoned(text: str) -> datetime | None:
    if is_infinite(text):
        return null_for_infinite()
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise Undecodable(f"{text[:40]!r} has no time zone")
    return instant.astimezone(UTC)


def _iso_timestamp(text: str) -> datetime | None:
    """Debezium writes times without a zone as if they were of UTC."""
    if is_infinite(text):
        return null_for_infinite()
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)


def _iso_date(text: str) -> date | None:
    if is_infinite(text):
        return null_for_infinite()
    if not _OFFSET_OR_NONE.fullmatch(text, 10):
        raise Undecodable(f"{text[:40]!r} is no date")
    return date.fromisoformat(text[:10])


def _iso_time(text: str) -> time:
    return time.fromisoformat(_OFFSET.sub("", text))


_NAMED: Mapping[tuple[Any, str], Column] = MappingProxyType(
    {
        ("org.apache.kafka.connect.data.Date", "int32"): Column(pa.date32(), _days),
        ("org.apache.kafka.connect.data.Time", "int32"): Column(pa.time32("ms")),
        ("org.apache.kafka.connect.data.Timestamp", "int64"): Column(
            pa.timestamp("ms", "UTC"), _instants("ms")
        ),
        ("io.debezium.time.Date", "int32"): Column(pa.date32(), _days),
        ("io.debezium.time.Time", "int32"): Column(pa.time32("ms")),
        ("io.debezium.time.MicroTime", "int64"): Column(pa.time64("us")),
        ("io.debezium.time.NanoTime", "int64"): Column(pa.time64("ns")),
        ("io.debezium.time.Timestamp", "int64"): Column(pa.timestamp("ms"), _instants("ms")),
        ("io.debezium.time.MicroTimestamp", "int64"): Column(pa.timestamp("us"), _instants("us")),
        ("io.debezium.time.NanoTimestamp", "int64"): Column(pa.timestamp("ns"), _instants("ns")),
        ("io.debezium.time.ZonedTimestamp", "string"): Column(pa.timestamp("us", "UTC"), _zoned),
        ("io.debezium.time.IsoDate", "string"): Column(pa.date32(), _iso_date),
        ("io.debezium.time.IsoTime", "string"): Column(pa.time64("us"), _iso_time),
        ("io.debezium.time.IsoTimestamp", "string"): Column(pa.timestamp("us"), _iso_timestamp),
        ("io.debezium.data.Uuid", "string"): Column(pa.string(), uuid=True),
    }
)
"""What a name makes of a plain type.  Debezium's times without a zone stay without one.

Other names (``Json``, ``Xml``, ``Enum``, ``Bits``, ``Year``, ``ZonedTime``, ``Interval``,
``MicroDuration``, ``Point``, ``FloatVector``, ...) stay what they are: text, numbers, bytes,
structs, lists.
"""
