"""Limits of dates and times: the years 1 to 9999 and times within a day."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from secor.formats.typed.nested_arrays import any_leaf, children, entries, flatten, is_list

SECOND = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Units in a second."""

DAY = 86_400
"""Seconds in a day."""

FIRST_DAY, END_DAY = -719_162, 2_932_897
"""Of the years 1 to 9999, from 1970-01-01 on."""


def readable(times: pa.Array) -> pa.Array:
    """Tell which dates and timestamps are of the years 1 to 9999, which times of one day."""
    kind = times.type
    if pa.types.is_date32(kind):
        first, end = FIRST_DAY, END_DAY
    elif pa.types.is_time(kind):
        first, end = 0, DAY * SECOND[kind.unit]
    else:
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        first, end = (day * DAY * SECOND[unit] for day in (FIRST_DAY, END_DAY))
    counts = times.view(count_type(kind))
    if kind.bit_width > pa.int32().bit_width and end > INT64_END:  # nanoseconds hold fewer years
        return pc.is_valid(times)
    return pc.and_(pc.greater_equal(counts, first), pc.less(counts, end))


INT64_END = 1 << 63


def all_readable(array: pa.Array) -> bool:
    """Tell whether every date and time in it, at any level, is one that can be read."""
    kind = array.type
    if not any_leaf(kind, is_limited):
        return True
    if pa.types.is_struct(kind):
        return all(all_readable(column) for _, column in children(array))
    if is_list(kind):
        return all_readable(flatten(array))
    if pa.types.is_map(kind):
        return all_readable(entries(array)[1].field(1))
    return bool(pc.all(readable(array), min_count=0).as_py())


def count_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of integers in which a date or time is counted."""
    return pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()


def is_limited(kind: pa.DataType) -> bool:
    """Tell whether the type holds values that nobody can read."""
    limited = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return bool(limited)
