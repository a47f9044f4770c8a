"""Casts of scalar columns to declared types, exact or refused; ``fitting`` has the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.decimals import as_decimal
from secor.arrow.iso_times import in_usual_form, is_written_as
from secor.arrow.time_limits import count_type, is_limited, readable
from secor.arrow.to_python import EXACT

EXACT_FLOAT = 1 << 24
"""Floats below it hold every integer."""


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The values that columns take besides those of their own type.

    ``exact``: no text is a number, a date or a time of day.  ``any_text``: text takes every value:
    text as it is, of others their JSON.
    """

    exact: bool = False
    any_text: bool = False


DECLARED = TypeRules()
"""Of types that a person has declared."""

NUMBER = r"\A[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"


def is_text(kind: pa.DataType) -> bool:
    """Return whether it is any type of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether it is any type of bytes."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _same_time(kind: pa.DataType, source: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return pa.types.is_timestamp(source) and (kind.tz is None) == (source.tz is None)
    return bool(pa.types.is_date(source) if pa.types.is_date(kind) else pa.types.is_time(source))


def takes(kind: pa.DataType, source: pa.DataType, *, exact: bool) -> bool:
    """Return whether a column of scalars takes anything of another type."""
    if is_text(kind) or is_bytes(kind):
        return is_text(source) or is_bytes(source)
    if _is_number(kind):
        return _is_number(source) or (is_text(source) and not exact)
    if pa.types.is_boolean(kind):
        return bool(pa.types.is_boolean(source))
    if pa.types.is_temporal(kind):
        if is_text(source):
            return not exact or bool(pa.types.is_timestamp(kind))
        count = bool(pa.types.is_integer(source) or pa.types.is_floating(source))
        return _same_time(kind, source) or (count and not exact)
    return False


def castable_rows(array: pa.Array, kind: pa.DataType) -> list[int]:
    """Return the rows for which a cast may succeed."""
    if _is_number(kind) and is_text(array.type):
        numbers = pc.match_substring_regex(array, NUMBER).to_numpy(zero_copy_only=False)
        return np.flatnonzero(numbers).tolist()
    return list(range(len(array)))


def cast(array: pa.Array, kind: pa.DataType, *, exact: bool) -> pa.Array:
    """Return the column as ``kind``.  Raises ``ValueError`` or Arrow's if a value does not fit."""
    if pa.types.is_timestamp(kind) and is_text(array.type):
        array = in_usual_form(array)
    written = exact and pa.types.is_timestamp(kind) and is_text(array.type)
    if written and not _all(is_written_as(array, kind)):
        raise ValueError("not date and time")
    converted = array if array.type == kind else _as_kind(array, array.type, kind)
    if is_limited(kind) and not _all(readable(converted)):
        raise ValueError("not a time of a day, or of a year beyond 9999")
    return converted


def _as_kind(array: pa.Array, source: pa.DataType, kind: pa.DataType) -> pa.Array:
    # Arrow reads more as numbers: hexadecimal digits, "nan", "inf".
    if _is_number(kind) and is_text(source) and not _all(_is_written_number(array)):
        raise ValueError("not a number")
    if pa.types.is_decimal(kind) and (_is_number(source) or is_text(source)):
        return as_decimal(array, kind)
    if pa.types.is_floating(kind) and is_text(source):
        # Twice, by way of a double: a text that no double holds must be refused, not become
        # infinite.
        array = array.cast(pa.float64())
        if not _all(pc.is_finite(array)):
            raise ValueError("more than a double holds")
        source = array.type
    if pa.types.is_float32(kind) and pa.types.is_float64(source):
        return _narrow(array)
    if pa.types.is_temporal(kind) and _is_number(source):
        # By way of the integer: Arrow casts no double to a time.
        return array.cast(count_type(kind)).cast(kind)
    if pa.types.is_time(kind) and is_text(source):
        moments = pc.binary_join_element_wise("1970-01-01", array.cast(pa.string()), "T")
        return moments.cast(pa.timestamp(kind.unit)).cast(kind)
    return array.cast(kind)


def _is_written_number(array: pa.Array) -> pa.Array:
    return pc.match_substring_regex(array, NUMBER)


def _narrow(array: pa.Array) -> pa.Array:
    """Return doubles as floats.  Integers are not rounded, as they are not in other columns."""
    single = array.cast(pa.float32())
    size = pc.abs(array)
    beyond = pc.and_(pc.greater(size, float(EXACT_FLOAT)), pc.less_equal(size, float(EXACT)))
    rounded = pc.and_(beyond, pc.equal(pc.trunc(array), array))
    if not _all(pc.invert(pc.or_(rounded, pc.xor(pc.is_inf(single), pc.is_inf(array))))):
        raise ValueError("more than a float holds")
    return single


def _all(truths: pa.Array) -> bool:
    return bool(pc.all(truths, min_count=0).as_py())
