"""Timestamps of messages: numbers, text and Arrow times as instants in UTC.

Never the clock of this machine, and never 1970 for want of anything better: a message whose
time is missing, unreadable or exactly 1970-01-01T00:00:00Z (what an unset field looks like)
is bad, and so is one before the year 1 or after 9999.

Numbers of format ``auto`` are distinguished by their digits, as Java Secor does:

    9, 10 digits      seconds         (1973 to 2286)
    13, 14, 15        milliseconds    (2001 on)
    16, 17, 18        microseconds
    19                nanoseconds

Java Secor takes everything below 13 digits for seconds.  Here 11 and 12 digits, which are
milliseconds before 2001 or seconds after 2286, and fewer than 9, such as 20261121, are bad:
say the unit where they are meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.fields import EXACT_INTEGERS, show_value, text_of, texts
from secor.parsing.text_times import Good, TextShapeGroup, TextTimeReader, group_by_shape
from secor.parsing.time_patterns import ISO_8601, expression_of
from secor.parsing.zones import DAY, GREATEST, LEAST, SECOND, Micros, Zone

UNITS = ("s", "ms", "us", "ns")
FORMATS = ("auto", *UNITS, "iso8601")

PER_UNIT = {"s": SECOND, "ms": 1000, "us": 1}
"""Microseconds; nanoseconds are divided instead."""

BEYOND = 1e24
"""More than any unit's count of any time."""

RANGES_OF_AUTO = (
    (10**8, 10**10, "s"),
    (10**12, 10**15, "ms"),
    (10**15, 10**18, "us"),
    (10**18, 2**63, "ns"),
)

EXACT = 2.0**53
"""From here on every double is an integer."""

_INTEGER = re.compile(r"[+-]?0{1,18}")
_WHOLE = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:0+(?:\.0*)?|\.0+)(?:e[+-]?0+)?", re.IGNORECASE)

Reading = tuple[Micros, Good]


@dataclass(frozen=True, slots=True)
class Times:
    """Instants in microseconds, UTC, one a row; meaningless where ``bad`` says why."""

    micros: Micros
    bad: Mapping[int, str] = field(default_factory=dict)


class TimeReader:
    """Reads columns of times of one format."""

    def __init__(
        self, format: str = "auto", zone: Zone | None = None, *, accept_zero: bool = False
    ) -> None:
        """Take a format of ``FORMATS`` or a pattern of strptime or Java.

        ``zone`` is that of written times without an offset.  Raises ``ConfigurationError``.
        """
        self._format = format
        self._zone = zone or Zone()
        self._accept_zero = accept_zero
        self._unit = format if format in (*UNITS, "auto") else None
        expression = ISO_8601 if format in FORMATS else expression_of(format)
        self._text = None if format in UNITS else TextTimeReader(expression, self._zone)

    @property
    def identity(self) -> str:
        """Format, zone with its rules, and what is thought of zero."""
        return f"2:{self._format}:{self._zone.identity}:{'zero' if self._accept_zero else ''}"

    def read(self, column: pa.Array, name: str) -> Times:
        """Return the instants of a column; ``name`` is the field's, for the reasons."""
        micros, good = self._read(column)
        good = good & (micros >= LEAST) & (micros <= GREATEST)
        zero = good & (micros == 0)
        if self._accept_zero or not zero.any():
            zero = np.zeros(0, dtype=bool)
        else:
            good &= ~zero
        if good.all():
            return Times(micros)
        return Times(micros, dict(self._reasons(column, name, good, zero)))

    def _reasons(
        self, column: pa.Array, name: str, good: Good, zero: Good
    ) -> list[tuple[int, str]]:
        rows = np.flatnonzero(~good)
        missing, unread = f"{name} is missing", f"is no time of format {self._format}"
        unset = f"{name} is 1970-01-01T00:00:00Z: no time was set"
        structure = "is a structure: the time is to be one of its fields"
        reasons = []
        values = texts(column.take(pa.array(rows)))
        for index, row in enumerate(rows.tolist()):
            value = values.at(index)
            if value is None:
                reasons.append((row, missing))
            elif len(zero) and zero[row]:
                reasons.append((row, unset))
            else:
                why = structure if value.startswith("{") else unread
                reasons.append((row, f"{name} {show_value(value)} {why}"))
        return reasons

    def _read(self, column: pa.Array) -> Reading:
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._read(column.dictionary_decode())
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return self._texts(column)
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            return self._read(column.cast(pa.binary()))
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return self._numbers(column)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return self._read_typed(column)
        return np.zeros(len(column), np.int64), np.zeros(len(column), bool)

    # -------------------------------------------------------------- numbers

    def _numbers(self, column: pa.Array) -> Reading:
        if self._unit is None:
            digits = [text_of(value) for value in column.to_pylist()]
            return self._texts(pa.array(digits, pa.string()))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_integer(column.type) and column.type != pa.uint64():
            micros, good = self._integers(_dense(column.cast(pa.int64()), 0))
        else:
            micros, good = self._doubles(_dense(column.cast(pa.float64()), np.nan))
        return micros, good & valid

    def _integers(self, values: npt.NDArray[np.int64]) -> Reading:
        return self._by_unit(values, _integers_in)

    def _doubles(self, values: npt.NDArray[np.float64]) -> Reading:
        return self._by_unit(values, _doubles_in)

    def _by_unit(
        self, values: npt.NDArray[np.int64] | npt.NDArray[np.float64], read: Callable[..., Reading]
    ) -> Reading:
        if self._unit != "auto":
            return read(values, self._unit)
        sizes = np.abs(values)
        if not len(sizes):
            return read(values, "s")
        micros = np.zeros(len(values), np.int64)
        good = values == 0
        for least, beyond, unit in RANGES_OF_AUTO:
            inside = (sizes >= least) & (sizes < beyond)
            # The usual case, all in one unit, needs no copies of parts.
            if inside.all():
                return read(values, unit)
            if inside.any():
                micros[inside], good[inside] = read(values[inside], unit)
        return micros, good

    # --------------------------------------------------------------- texts

    def _texts(self, column: pa.Array) -> Reading:
        micros, good = np.zeros(len(column), np.int64), np.zeros(len(column), bool)
        for group in group_by_shape(column):
            reading = self._group(column, group)
            if reading is not None and len(group.rows) == len(column):
                return reading
            if reading is not None:
                micros[group.rows], good[group.rows] = reading
        return micros, good

    def _group(self, column: pa.Array, group: TextShapeGroup) -> Reading | None:
        if self._unit is not None and _INTEGER.fullmatch(group.shape):
            sign = group.shape[0] in "+-"
            values = group.number((int(sign), len(group.shape)))
            return self._integers(-values if group.shape[0] == "-" else values)
        if self._unit is not None and _DECIMAL.fullmatch(group.shape):
            return self._decimals(column.cast(pa.binary()).take(group.rows).to_pylist())
        return None if self._text is None else self._text.read(group)

    def _decimals(self, texts: Sequence[bytes]) -> Reading:
        """Read numbers in text, each by itself: whole ones of 19 digits do not fit into doubles."""
        micros, good = self._doubles(np.array([float(text) for text in texts]))
        whole = {row: int(text) for row, text in enumerate(texts) if _WHOLE.fullmatch(text)}
        exact = [row for row, value in whole.items() if abs(value) < 2**63]
        if exact:
            values = np.array([whole[row] for row in exact], dtype=np.int64)
            micros[exact], good[exact] = self._integers(values)
        return micros, good

    # --------------------------------------------------------------- types

    def _read_typed(self, column: pa.Array) -> Reading:
        """Read Arrow's own times and dates; those without a zone are of the setting's."""
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_date(column.type):
            days = _dense(column.cast(pa.date32()).view(pa.int32()), 0).astype(np.int64)
            inside = (days >= LEAST // DAY) & (days <= GREATEST // DAY)
            return self._zone.to_utc(np.where(inside, days, 0) * DAY), valid & inside
        counts = _dense(column.view(pa.int64()), 0)
        micros, good = _integers_in(counts, column.type.unit)
        if column.type.tz is None:
            micros = self._zone.to_utc(micros)
        return micros, good & valid


def _dense(column: pa.Array, null: float) -> npt.NDArray[Any]:
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(null, column.type))
    return column.to_numpy(zero_copy_only=False)


def _integers_in(values: npt.NDArray[np.int64], unit: str) -> Reading:
    if unit == "ns":
        return values // 1000, np.ones(len(values), bool)
    factor = PER_UNIT[unit]
    good = (values >= LEAST // factor) & (values <= GREATEST // factor)
    return (values if good.all() else np.where(good, values, 0)) * factor, good


def _doubles_in(values: npt.NDArray[np.float64], unit: str) -> Reading:
    """Round fractions to microseconds; nanoseconds are cut off as those of integers are."""
    # Beyond any time already; hostile numbers would overflow.
    values = np.clip(values, -BEYOND, BEYOND)
    if unit == "ns":
        scaled = np.floor(values / 1000)
        whole = (np.abs(values) >= EXACT) & (np.abs(values) < EXACT_INTEGERS)
        # Such doubles are integers, and cut as those: their quotients would be rounded.
        scaled[whole] = values[whole].astype(np.int64) // 1000
    else:
        scaled = np.rint(values * PER_UNIT[unit])
    good = (scaled >= LEAST) & (scaled <= GREATEST)
    return np.where(good, scaled, 0).astype(np.int64), good
