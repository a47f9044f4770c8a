"""Limits of dates and times: the years 1 to 9999, times within a day, Kafka's timestamps."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import any_leaf, children, entries, flatten, is_list

SECOND = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Units in a second."""

DAY = 86_400
"""Seconds in a day."""

FIRST_DAY, END_DAY = -719_162, 2_932_897
"""Of the years 1 to 9999, from 1970-01-01 on."""


def readable(times: pa.Array) -> pa.Array:
    """Return which dates and timestamps are of the years 1 to 9999, which times of one day."""
    kind = times.type
    if pa.types.is_date32(kind):
        first, end = FIRST_DAY, END_DAY
    elif pa.types.is_time(kind):
        first, end = 0, DAY * SECOND[kind.unit]
    else:
        unit = "ms" if pa.types.is_date64(kind) else kind.unit
        first, end = (day * DAY * SECOND[unit] for day in (FIRST_DAY, END_DAY))
    # A view, not a cast: it costs nothing and does not fail for values that no calendar has.
    counts = times.view(count_type(kind))
    if kind.bit_width > pa.int32().bit_width and end > INT64_END:  # nanoseconds hold fewer years
        return pc.is_valid(times)
    return pc.and_(pc.greater_equal(counts, first), pc.less(counts, end))


INT64_END = 1 << 63


def all_readable(array: pa.Array) -> bool:
    """Return whether every date and time in it, at any level, is one that can be read."""
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
    """Return whether the type holds values that nobody can read."""
    limited = pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return bool(limited)


@dataclass(frozen=True, slots=True)
class TimestampLimits:
    """Kafka timestamps, in milliseconds, that a column of times can hold.

    Producers may send any 64 bits: microseconds, nanoseconds, garbage.  What no reader can read
    is a fault of its message.
    """

    least: int
    greatest: int
    years: str
    fractions_before_1970: bool = True

    def faults(self, timestamps: pa.Array, *, required: bool = False) -> dict[int, str]:
        """Return why timestamps cannot be stored, by row; missing ones only if ``required``."""
        faults = {}
        if required and timestamps.null_count:
            missing = pc.indices_nonzero(timestamps.is_null()).to_pylist()
            faults = dict.fromkeys(missing, "Kafka's timestamp is missing, and _timestamp required")
        span = pc.min_max(timestamps)
        least, greatest = span["min"].as_py(), span["max"].as_py()
        if least is None:
            return faults
        if least < self.least or greatest > self.greatest:
            outside = pc.or_(
                pc.less(timestamps, self.least), pc.greater(timestamps, self.greatest)
            ).fill_null(False)
            for row in pc.indices_nonzero(outside).to_pylist():
                faults[row] = (
                    f"Kafka's timestamp {timestamps[row].as_py()} is no time in milliseconds of the"
                    f" years {self.years}, which the column _timestamp holds"
                )
        if least < 0 and not self.fractions_before_1970:
            early = np.flatnonzero(is_early_fraction(timestamps, SECOND["ms"]))
            faults |= dict.fromkeys(early.tolist(), f"Kafka's timestamp {EARLY_FRACTION}")
        return faults


EARLY_FRACTION = (
    "is a time before 1970 with a fraction of a second, which readers of ORC take for one a second"
    " earlier: use Parquet"
)


def is_early_fraction(counts: pa.Array, second: int) -> npt.NDArray[np.bool_]:
    """Return which counts since 1970 are negative and no whole seconds."""
    values = counts.fill_null(0).to_numpy(zero_copy_only=False)
    return (values < 0) & (values % second != 0)


CALENDAR = TimestampLimits(FIRST_DAY * DAY * 1000, END_DAY * DAY * 1000 - 1, "1 to 9999")

ORC = TimestampLimits(-9_223_372_036_854, 9_223_372_036_854, "1678 to 2261", False)
"""Arrow reads ORC's times as nanoseconds, and a file with others not at all."""


def timestamp_limits(file_format: str) -> TimestampLimits:
    """Return the limits of ``_timestamp`` in files of a format."""
    return ORC if file_format == "orc" else CALENDAR
