"""Times written as text, read in columns.

Texts are taken together by *shape*: the text with every digit as 0.  A shape is matched
with the expression once; where its digits stand then holds for all texts of that shape,
which are read as one matrix of bytes.
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

VECTOR_ROUNDS = 4
"""How many shapes are sought by vector; the rest, normally nothing, is sorted in Python."""

PIVOT = 69
"""Two digits of a year from here on are of the twentieth century, as strptime has it."""

_AS_ZERO = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Good = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows whose texts have one shape; ``digits[p]`` are their digits at place ``p``."""

    shape: str
    rows: Rows
    digits: Bytes

    def number(self, span: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Return the numbers at a span of up to 18 digits."""
        total = np.zeros(len(self.rows), dtype=np.int64)
        for place in range(*span):
            total = total * 10 + self.digits[place]
        return total


class Column:
    """The bytes of a column of strings or binaries, nulls left out."""

    def __init__(self, column: pa.Array) -> None:
        """Take the buffers without a copy."""
        _, offsets, data = column.buffers()
        count = len(column)
        self._ends = np.frombuffer(offsets, dtype=np.int32)[column.offset :][: count + 1]
        self._data = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
        self.rows: Rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))

    def text(self, row: int) -> bytes:
        """Return one row."""
        return self._data[self._ends[row] : self._ends[row + 1]].tobytes()

    def groups(self) -> Iterator[Group]:
        """Give all rows in groups of one shape; what is too long is in none."""
        lengths = np.diff(self._ends)
        todo = self.rows[lengths[self.rows] <= LONGEST]
        for _ in range(VECTOR_ROUNDS):
            if not len(todo):
                return
            shape = self.text(int(todo[0])).translate(_AS_ZERO)
            same = lengths[todo] == len(shape)
            rows = todo if same.all() else todo[same]
            matrix = self._matrix(rows, len(shape))
            fits = _fitting(matrix, shape)
            if fits.all():
                yield _group(shape, rows, matrix)
                taken = rows
            else:
                taken = rows[fits]
                yield _group(shape, taken, matrix[:, fits])
            todo = todo[~np.isin(todo, taken)] if len(taken) < len(todo) else todo[:0]
        yield from self._by_one(todo)

    def _by_one(self, todo: Rows) -> Iterator[Group]:
        shapes: dict[bytes, list[int]] = {}
        for row in todo.tolist():
            shapes.setdefault(self.text(row).translate(_AS_ZERO), []).append(row)
        for shape, members in shapes.items():
            rows = np.array(members, dtype=np.int64)
            yield _group(shape, rows, self._matrix(rows, len(shape)))

    def _matrix(self, rows: Rows, length: int) -> Bytes:
        """Return the texts as columns: one line for each place in the text."""
        starts = self._ends[rows].astype(np.int64)
        return self._data[starts[None, :] + np.arange(length)[:, None]]


def _fitting(matrix: Bytes, shape: bytes) -> Good:
    fits = np.ones(matrix.shape[1], dtype=bool)
    for place, byte in enumerate(shape):
        line = matrix[place]
        fits &= (line - np.uint8(48) <= 9) if byte == 48 else (line == byte)
    return fits


def _group(shape: bytes, rows: Rows, matrix: Bytes) -> Group:
    return Group(shape.decode("utf-8", "replace"), rows, matrix - np.uint8(48))


@dataclass(frozen=True, slots=True)
class Calendar:
    """Where the parts of a time stand in a shape, and what its letters say."""

    spans: Mapping[str, tuple[int, int]]
    month: int | None
    hours_added: int | None
    offset: tuple[int, tuple[int, int], tuple[int, int]] | None
    utc: bool

    def read(self, group: Group, zone: Zone) -> tuple[Micros, Good]:
        """Return the instants, and which of them are any."""
        count = len(group.rows)

        def part(name: str, missing: int) -> npt.NDArray[np.int64]:
            span = self.spans.get(name)
            return np.full(count, missing, np.int64) if span is None else group.number(span)

        days, good = self._days(part)
        hour, minute, second = part("H", 0), part("M", 0), part("S", 0)
        if self.hours_added is not None:
            hour = part("I", 0)
            good &= (hour >= 1) & (hour <= 12)
            hour = hour % 12 + self.hours_added
        good &= (hour < 24) & (minute < 60) & (second < 60)
        clock = days * DAY + hour * HOUR + minute * MINUTE + second * SECOND + self._fraction(group)
        if self.offset is not None:
            sign, hours, minutes = self.offset
            ahead, past = group.number(hours), group.number(minutes)
            good &= (ahead < 24) & (past < 60)
            return clock - sign * (ahead * HOUR + past * MINUTE), good
        return (clock if self.utc else zone.to_utc(np.where(good, clock, 0))), good

    def _days(self, part: object) -> tuple[npt.NDArray[np.int64], Good]:
        assert callable(part)
        year = part("Y", 0)
        if "y" in self.spans:
            year = part("y", 0)
            year = year + np.where(year >= PIVOT, 1900, 2000)
        month = part("m", 1 if self.month is None else self.month)
        day = part("d", 1)
        good = (year >= 1) & (month >= 1) & (month <= 12)
        months = (year - 1970) * 12 + np.where(good, month, 1) - 1
        first = _first_day(months)
        if "j" in self.spans:
            day = part("j", 1)
            length = _first_day(months + 12) - first
        else:
            length = _first_day(months + 1) - first
        return first + day - 1, good & (day >= 1) & (day <= length)

    def _fraction(self, group: Group) -> npt.NDArray[np.int64] | int:
        if "f" not in self.spans:
            return 0
        start, end = self.spans["f"]
        kept = min(end, start + 6)
        return group.number((start, kept)) * 10 ** (6 - (kept - start))


def _first_day(months: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the day, counted from 1970-01-01, on which a month begins."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def calendar_of(expression: re.Pattern[str], shape: str) -> Calendar | None:
    """Match a shape; None where it is no time."""
    match = expression.fullmatch(shape)
    if match is None or not shape.isascii():
        return None
    found = {name for name, text in match.groupdict().items() if text is not None}
    offset, utc = None, "u" in found
    if "z" in found:
        offset = _offset(match["z"], match.start("z"))
        utc = offset is None
    return Calendar(
        spans={name: match.span(name) for name in found if name not in "bpzu"},
        month=1 + MONTHS.index(match["b"][:3].lower()) if "b" in found else None,
        hours_added=(12 if match["p"].lower() == "pm" else 0) if "p" in found else None,
        offset=offset,
        utc=utc,
    )


def _offset(text: str, at: int) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    if text in "Zz":
        return None
    end = at + len(text)
    minutes = (end - 2, end) if len(text) > 3 else (end, end)
    return (-1 if text[0] == "-" else 1), (at + 1, at + 3), minutes


class Written:
    """Reads written times by one expression, remembering the shapes it met."""

    def __init__(self, expression: re.Pattern[str], zone: Zone) -> None:
        """Times without an offset are those of ``zone``."""
        self._expression = expression
        self._zone = zone
        self._calendars: dict[str, Calendar | None] = {}

    def read(self, group: Group) -> tuple[Micros, Good] | None:
        """Return the instants of a group and which are any; None where its shape is no time."""
        if group.shape not in self._calendars:
            if len(self._calendars) >= MOST_SHAPES:
                self._calendars.clear()
            self._calendars[group.shape] = calendar_of(self._expression, group.shape)
        calendar = self._calendars[group.shape]
        return None if calendar is None else calendar.read(group, self._zone)
