"""Timestamps in text: reads columns of them by shape.

Texts are read together by *shape*: the text with every digit as 0.  The expression is matched
with each shape once; where it finds the parts of a time, they are in all texts of that shape,
and their digits are read as one matrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.parsing.time_patterns import MONTHS
from secor.parsing.zones import DAY, HOUR, MINUTE, SECOND, Micros, Zone

LONGEST = 64
"""Bytes; longer texts are no times."""

MOST_SHAPES = 4096
"""Shapes that are remembered."""

PIVOT = 69
"""Two digits of a year from here on are of the twentieth century, as strptime has it."""

_ZERO = np.uint8(ord("0"))

Integers = npt.NDArray[np.int64]
Good = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TextShapeGroup:
    """Rows with texts of one shape; ``digits[p]`` are their digits at place ``p``."""

    shape: str
    rows: Integers
    digits: npt.NDArray[np.uint8]

    def number(self, span: tuple[int, int]) -> Integers:
        """Return the numbers at a span of up to 18 digits."""
        total = np.zeros(len(self.rows), dtype=np.int64)
        for place in range(*span):
            total = total * 10 + self.digits[place]
        return total


def group_by_shape(column: pa.Array) -> Iterator[TextShapeGroup]:
    """Yield the rows of a column of strings or binaries, without nulls and texts too long."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset :][: len(column) + 1]
    text = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
    text, ends = text[ends[0] : ends[-1]], ends - ends[0]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.diff(ends)
    rows = np.flatnonzero(valid & (lengths <= LONGEST))
    if not len(rows):
        return
    digits = text - _ZERO
    # Bytes without a sign: what is below "0" wraps round to more than 9, and stays as it is.
    zeroed = text - digits * (digits <= 9)
    if len(rows) == len(column) and len(text) and (lengths == lengths[0]).all():
        table = zeroed.reshape(len(rows), -1)
        if (table == table[0]).all():  # the usual case, without an index per byte
            only = table[0].tobytes().decode("utf-8", "replace")
            yield TextShapeGroup(only, rows, digits.reshape(table.shape).T)
            return
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(zeroed)]
    shapes = pa.Array.from_buffers(pa.binary(), len(column), buffers).dictionary_encode()
    codes = shapes.indices.to_numpy()[rows]
    if len(shapes.dictionary) > 1:
        order = np.argsort(codes, kind="stable")
        rows, codes = rows[order], codes[order]
    for members in np.split(rows, np.flatnonzero(np.diff(codes)) + 1):
        shape: bytes = shapes[int(members[0])].as_py()
        places = ends[members].astype(np.int64) + np.arange(len(shape))[:, None]
        yield TextShapeGroup(shape.decode("utf-8", "replace"), members, digits[places])


@dataclass(frozen=True, slots=True)
class Calendar:
    """The places of a time's parts in a shape, and the meaning of its letters."""

    spans: Mapping[str, tuple[int, int]]
    month: int | None
    hours_added: int | None
    offset: tuple[int, tuple[int, int], tuple[int, int]] | None
    """Sign, place of the hours, place of the minutes."""
    utc: bool

    def read(self, group: TextShapeGroup, zone: Zone) -> tuple[Micros, Good]:
        """Return the instants, and which rows have one."""
        days, good = self._days(group)
        hour, minute, second = (self._part(group, name, 0) for name in "HMS")
        if self.hours_added is not None:
            hour = self._part(group, "I", 0)
            good &= (hour >= 1) & (hour <= 12)
            hour = hour % 12 + self.hours_added
        good &= (hour < 24) & (minute < 60) & (second < 60)
        clock = days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + self._fraction(group)
        if self.offset is not None:
            sign, *places = self.offset
            hours, minutes = map(group.number, places)
            good &= (hours < 24) & (minutes < 60)
            return clock - sign * (hours * HOUR + minutes * MINUTE), good
        return (clock if self.utc else zone.to_utc(np.where(good, clock, 0))), good

    def _part(self, group: TextShapeGroup, name: str, missing: int) -> Integers:
        span = self.spans.get(name)
        return np.full(len(group.rows), missing, np.int64) if span is None else group.number(span)

    def _days(self, group: TextShapeGroup) -> tuple[Integers, Good]:
        year = self._part(group, "Y", 0)
        if "y" in self.spans:
            year = self._part(group, "y", 0)
            year = year + np.where(year >= PIVOT, 1900, 2000)
        month = self._part(group, "m", self.month or 1)
        good = (year >= 1) & (month >= 1) & (month <= 12)
        months = (year - 1970) * 12 + np.where(good, month, 1) - 1
        first = _first_day(months)
        in_year = "j" in self.spans
        day = self._part(group, "j" if in_year else "d", 1)
        length = _first_day(months + (12 if in_year else 1)) - first
        return first + day - 1, good & (day >= 1) & (day <= length)

    def _fraction(self, group: TextShapeGroup) -> Integers | int:
        if "f" not in self.spans:
            return 0
        start, end = self.spans["f"]
        digits = min(end - start, 6)
        return group.number((start, start + digits)) * 10 ** (6 - digits)


def _first_day(months: Integers) -> Integers:
    """Return the day, counted from 1970-01-01, on which a month begins."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def calendar_of(expression: re.Pattern[str], shape: str) -> Calendar | None:
    """Match a shape; None where it is no time."""
    match = expression.fullmatch(shape)
    if match is None or not shape.isascii():
        return None
    parts = {name: text for name, text in match.groupdict().items() if text is not None}
    offset = _offset(parts["z"], match.start("z")) if "z" in parts else None
    return Calendar(
        spans={name: match.span(name) for name in parts if name not in "bpzu"},
        month=1 + MONTHS.index(parts["b"][:3].lower()) if "b" in parts else None,
        hours_added=(12 if parts["p"].lower() == "pm" else 0) if "p" in parts else None,
        offset=offset,
        utc="u" in parts or ("z" in parts and offset is None),
    )


def _offset(text: str, start: int) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    if text in "Zz":
        return None
    end = start + len(text)
    minutes = (end - 2, end) if len(text) > 3 else (end, end)
    return (-1 if text[0] == "-" else 1), (start + 1, start + 3), minutes


class TextTimeReader:
    """Reads times by one expression, remembering the shapes it met."""

    def __init__(self, expression: re.Pattern[str], zone: Zone) -> None:
        """Times without an offset are those of ``zone``."""
        self._expression = expression
        self._zone = zone
        self._calendars: dict[str, Calendar | None] = {}

    def read(self, group: TextShapeGroup) -> tuple[Micros, Good] | None:
        """Return the instants of a group and which rows have one; None if the shape is no time."""
        if group.shape not in self._calendars:
            if len(self._calendars) >= MOST_SHAPES:
                self._calendars.clear()
            self._calendars[group.shape] = calendar_of(self._expression, group.shape)
        calendar = self._calendars[group.shape]
        return None if calendar is None else calendar.read(group, self._zone)
