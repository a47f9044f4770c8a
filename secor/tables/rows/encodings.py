"""Encodings of values in messages of Debezium that have no schema, as its connector is set.

Source: Debezium's documentation of its connectors (``decimal.handling.mode``,
``time.precision.mode``, ``binary.handling.mode``), and of its data types.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.arrow.time_limits import SECOND
from secor.parsing.decoders.columns import decimal_of
from secor.parsing.decoders.connect_names import (
    EARLIEST_DAY,
    INFINITE_COUNTS,
    INFINITE_DAY,
    MOST_SCALE,
    is_infinite,
)
from secor.parsing.rows import note_infinite, null_for_infinite

Counts = npt.NDArray[np.int64]

DecimalMode = Literal["precise", "string", "double"]
TimeMode = Literal[
    "adaptive",
    "adaptive_time_microseconds",
    "microseconds",
    "connect",
    "isostring",
    "nanoseconds",
]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]

_UNITS: Mapping[str, str] = MappingProxyType({"connect": "ms", "nanoseconds": "ns"})
"""Units of times by mode, if not microseconds: adaptive modes have those of PostgreSQL's columns
without a precision."""

EVERY = "*"
"""In place of a column: all that have no unit of their own."""

NOT_A_NUMBER: Mapping[str, float] = MappingProxyType(
    {
        "nan": math.nan,
        "infinity": math.inf,
        "-infinity": -math.inf,
        "positive_infinity": math.inf,
        "negative_infinity": -math.inf,
    }
)
"""Texts, in small letters, for what is no number: Debezium's own, and those of Connect's JSON."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DAY_WITH_ZONE = re.compile(r"(\d{4}-\d\d-\d\d)(Z|[+-]\d\d:?\d\d)")
_ZONE = re.compile(r"(?<=\d)(Z|[+-]00:?00)\Z")


@dataclass(frozen=True, slots=True)
class Encodings:
    """Settings of Debezium's connector; ``units`` are those of single columns, by dotted path."""

    decimals: DecimalMode = "precise"
    times: TimeMode = "adaptive"
    binary: BinaryMode = "bytes"
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """All that changes what becomes of a value."""
        units = ",".join(f"{path}={unit}" for path, unit in sorted(self.units.items()))
        return f"debezium-2:{self.decimals}:{self.times}:{self.binary}:{units}"

    def unit(self, path: str) -> str:
        """Return what a column's times are counted in."""
        every = self.units.get(EVERY) or _UNITS.get(self.times, "us")
        return self.units.get(path, every)

    def digits(self, text: str | None, scale: int) -> str | None:
        """Return a decimal by its digits, null for no number; other text stays as it is."""
        if text is None:
            return None
        if text.lower() in NOT_A_NUMBER:
            return null_for_infinite()
        # Only there: "1234" is base64, too.
        raw = from_base64(text) if self.decimals == "precise" else None
        return _written(raw, scale) if raw else text

    def number(self, text: str) -> float | None:
        """Return the double that a text encodes; None if it is no such text."""
        known = NOT_A_NUMBER.get(text.lower())
        if known is not None or not _NUMBER.fullmatch(text):
            return known
        number = float(text)
        return number if math.isfinite(number) else None

    def bytes_of(self, text: str) -> bytes | None:
        """Return the bytes that a text encodes; None if it is no such text."""
        return _BINARY[self.binary](text)

    @property
    def binary_name(self) -> str:
        """The name of the encoding of bytes: Connect's JSON converter has a text for them, too."""
        return "base64" if self.binary == "bytes" else self.binary


def variable_digits(item: Mapping[str, Any]) -> str | None:
    """Return the digits of a decimal of any scale, ``{"scale": 2, "value": "AeJA"}``; else None."""
    scale, raw = item.get("scale"), item.get("value")
    if isinstance(raw, str):
        raw = from_base64(raw)
    if type(scale) is not int or abs(scale) > MOST_SCALE or not isinstance(raw, bytes):
        return None
    return _written(raw, scale) if item.keys() == {"scale", "value"} else None


def _written(raw: bytes, scale: int) -> str:
    return format(decimal_of(int.from_bytes(raw, "big", signed=True), scale), "f")


def times_of(column: pa.Array, kind: pa.DataType, unit: str) -> pa.Array:
    """Return integers as times of a column's type; infinite dates and timestamps are null, and
    counted.
    """
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_date(kind):
        infinite = (numbers < EARLIEST_DAY) | (numbers >= INFINITE_DAY)
        note_infinite(int(infinite.sum()))
        missing = missing | infinite
        days = np.where(missing, 0, numbers).astype(np.int32)
        return pa.array(days, mask=missing).view(pa.date32())
    if pa.types.is_timestamp(kind):
        # Debezium writes PostgreSQL's infinity as the greatest count of the unit, rounded as its
        # conversion goes: so a limit, not one number.
        limit = INFINITE_COUNTS[unit]
        infinite = (numbers >= limit) | (numbers <= -limit)
        note_infinite(int(infinite.sum()))
        missing = missing | infinite
    if SECOND[unit] > SECOND[kind.unit]:  # refused later if it is not whole
        counts, kind = numbers, _with_unit(kind, unit)
    else:
        counts = _in_unit(numbers, SECOND[kind.unit] // SECOND[unit])
    return pa.array(counts, mask=missing).view(kind)


def _with_unit(kind: pa.DataType, unit: str) -> pa.DataType:
    return pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) else pa.time64(unit)


def _in_unit(numbers: Counts, factor: int) -> Counts:
    """Return counts in a finer unit."""
    limit = np.iinfo(np.int64).max // factor
    # What would overflow is no time of a day, and of no year: any count beyond says so.
    return np.clip(numbers, -limit, limit) * factor


def time_text(text: str | None, kind: pa.DataType) -> str | None:
    """Return a time as a column of ``kind`` reads it; null if it is infinite."""
    if text is None:
        return None
    if is_infinite(text):
        return null_for_infinite()
    if pa.types.is_date(kind):
        day = _DAY_WITH_ZONE.fullmatch(text)
        return text if day is None else day[1]
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    # A column without a zone takes UTC's time as it is; any other zone would change the value, and
    # stays, so that the column refuses it.
    return text if zoned else _ZONE.sub("", text)


def from_base64(text: str) -> bytes | None:
    """Return the bytes of base64; None if a text is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _from_url_safe(text: str) -> bytes | None:
    # What has the letters of the other alphabet is not in this one, though it could be decoded.
    return None if set("+/") & set(text) else from_base64(text.translate({45: "+", 95: "/"}))


def _from_hex(text: str) -> bytes | None:
    try:
        # Python takes blanks between the digits; Debezium writes none.
        return bytes.fromhex(text) if text.isalnum() or not text else None
    except ValueError:
        return None


_BINARY: Mapping[BinaryMode, Callable[[str], bytes | None]] = MappingProxyType(
    {
        "bytes": from_base64,
        "base64": from_base64,
        "base64-url-safe": _from_url_safe,
        "hex": _from_hex,
    }
)
