"""Numbers that are times, by the unit that a route names for their column.

| the column is | a number becomes |
|---|---|
| a timestamp, or none yet | the instant, in UTC |
| a date | the day of the instant, in UTC |
| a time | the time of day |

Fractions are rounded to microseconds, nanoseconds cut.  Numbers in text are numbers; other text
stays as it is, and so does everything where the column is none of times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.arrow.iso_times import INSTANT, in_usual_form
from secor.arrow.time_limits import DAY, END_DAY, FIRST_DAY, SECOND
from secor.core.variant_json import MIXED, dumps, is_mixed
from secor.parsing.fields import parse_mixed

Unit = Literal["seconds", "milliseconds", "microseconds", "nanoseconds"]
Units = Mapping[str, Unit]
"""By column, as a dotted path; ``EVERY`` means all other times and timestamps."""

EVERY = "*"
NO_COLUMN = pa.null()
"""The type of a column that a table does not have yet."""

SIZES: Mapping[Unit, int] = {
    "seconds": SECOND["us"],
    "milliseconds": 1000,
    "microseconds": 1,
    "nanoseconds": 0,
}
"""Microseconds of a unit; a nanosecond is a thousandth of one."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,25}(\.[0-9]{1,25})?")
_MICROS = SECOND["us"]


def unit_of(units: Units, path: str, kind: pa.DataType) -> Unit | None:
    """Return the unit of numbers for a column of this type; None where they are no times."""
    if not units:
        return None
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return units.get(path, units.get(EVERY))
    return units.get(path) if kind == NO_COLUMN or pa.types.is_date(kind) else None


def leads_to(units: Units, path: str) -> bool:
    """Return whether there are units for columns within a struct."""
    return any(column.startswith(f"{path}.") for column in units)


def with_unit(
    field: pa.Field, column: pa.Array, kind: pa.DataType, unit: Unit, path: str
) -> tuple[pa.Field, pa.Array, dict[int, str]]:
    """Return a column of messages with its numbers as times of ``kind``, and why some are none."""
    source = column.type
    if is_mixed(field) or pa.types.is_decimal(source) or pa.types.is_string(source):
        return _one_by_one(field, column, kind, unit, path)
    # Numbers beyond int64 do not fit the arithmetic below, and true is no number of seconds.
    if pa.types.is_uint64(source) or pa.types.is_boolean(source):
        return _one_by_one(field, column, kind, unit, path)
    if not pa.types.is_integer(source) and not pa.types.is_floating(source):
        return field, column, {}
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    first, end = _limits(kind)
    # As doubles they may be rounded, never by so much that one beyond the limits looks good.
    rough = numbers.astype(np.float64) * (SIZES[unit] or 0.001)
    good = np.isfinite(rough) & (rough >= first - 1) & (rough < end + 1)
    # Bad ones as 0: multiplied they would overflow, and come back as good times.
    micros = _micros(np.where(good, numbers, 0), unit)
    # Exactly now: the doubles above only keep the multiplication from overflowing.
    good &= (micros >= first) & (micros < end)
    rows = np.flatnonzero(valid & ~good).tolist()
    bad = {row: _refusal(path, column[row].as_py(), unit, kind) for row in rows}
    times = _times(pa.array(micros, mask=~(valid & good)), kind)
    return pa.field(field.name, times.type), times, bad


def _micros(numbers: npt.NDArray[Any], unit: Unit) -> npt.NDArray[np.int64]:
    size = SIZES[unit]
    if np.issubdtype(numbers.dtype, np.integer):
        whole = numbers.astype(np.int64)
        return whole * size if size else whole // 1000
    return np.rint(numbers * size).astype(np.int64) if size else (numbers // 1000).astype(np.int64)


def _limits(kind: pa.DataType) -> tuple[int, int]:
    """Return the first and the end of the microseconds that a column holds."""
    if pa.types.is_time(kind):
        return 0, DAY * _MICROS
    return FIRST_DAY * DAY * _MICROS, END_DAY * DAY * _MICROS


def _times(micros: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind):
        counts = micros.fill_null(0).to_numpy(zero_copy_only=False) // (DAY * _MICROS)
        mask = micros.is_null().to_numpy(zero_copy_only=False)
        return pa.array(counts.astype(np.int32), mask=mask).cast(pa.date32())
    if pa.types.is_time(kind):
        return micros.cast(pa.time64("us"))
    without_zone = pa.types.is_timestamp(kind) and kind.tz is None
    return micros.cast(pa.timestamp("us", None if without_zone else "UTC"))


def _one_by_one(
    field: pa.Field, column: pa.Array, kind: pa.DataType, unit: Unit, path: str
) -> tuple[pa.Field, pa.Array, dict[int, str]]:
    """Return values of several kinds with the text of times for their numbers."""
    mixed = is_mixed(field)
    values = parse_mixed(column) if mixed else _plain_values(column)
    first, end = _limits(kind)
    bad: dict[int, str] = {}
    changed = False
    for row, value in enumerate(values):
        number = _number(value)
        if number is None:
            continue
        changed = True
        size = SIZES[unit]
        micros = round(number * size) if size else math.floor(number / 1000)
        if first <= micros < end:
            values[row] = _times(pa.array([micros]), kind).cast(pa.string())[0].as_py()
        else:
            values[row], bad[row] = None, _refusal(path, value, unit, kind)
    # All are texts by now: the column need not stay JSON of mixed kinds.
    if all(value is None or isinstance(value, str) for value in values):
        made = pa.array(values, pa.string())
        times = _all_times(made) if kind == NO_COLUMN else None
        if times is not None:
            return pa.field(field.name, times.type), times, bad
        return (pa.field(field.name, pa.string()), made, bad) if changed else (field, column, {})
    if not changed:
        return field, column, {}
    texts = [None if value is None else dumps(value) for value in values]
    return pa.field(field.name, pa.string(), metadata=MIXED), pa.array(texts, pa.string()), bad


def _plain_values(column: pa.Array) -> list[Any]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    # Text of some decoders is no UTF-8, and then no time.
    raws = column.view(pa.binary()).to_pylist()
    return [None if raw is None else raw.decode(errors="replace") for raw in raws]


def _all_times(texts: pa.Array) -> pa.Array | None:
    """Return texts as the times of a new column; None if one of them is none."""
    if texts.null_count == len(texts):
        return None
    try:
        return in_usual_form(texts).cast(INSTANT)
    except pa.ArrowException:
        return None


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value) if _NUMBER.fullmatch(value) else None
    if isinstance(value, int | float | Decimal) and math.isfinite(value):
        return Decimal(value)
    return None


def _refusal(path: str, value: object, unit: Unit, kind: pa.DataType) -> str:
    which = "of a day" if pa.types.is_time(kind) else "of the years 1 to 9999"
    return f"{path}: {str(value)[:60]} {unit} is no time {which}"
