"""Placeholders of a layout template: columns to texts that are safe in paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.naming import escape_value
from secor.parsing.fields import Texts, field_at, texts
from secor.parsing.zones import (
    DAY,
    EPOCH,
    GREATEST,
    HOUR,
    LEAST,
    MINUTE,
    SECOND,
    Micros,
    Zone,
    few_distinct,
)

_TIME = re.compile(r"%(.?)")

FORMATS_OF_TIME = {
    "Y": ("{0.year:04d}", DAY),
    "y": ("{1:02d}", DAY),
    "m": ("{0.month:02d}", DAY),
    "d": ("{0.day:02d}", DAY),
    "j": ("{2:03d}", DAY),
    "H": ("{0.hour:02d}", HOUR),
    "M": ("{0.minute:02d}", MINUTE),
    "S": ("{0.second:02d}", SECOND),
    "%": ("%", DAY),
}
"""What a directive writes, from the time, its year of the century and its day of the year;
and how fine it is.  None of them depends on a language."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """A layout's view of a chunk: its rows that are to be placed.

    ``micros`` are the times, UTC; ``topics`` a name for each row, or one for all;
    ``partition`` is the Kafka partition that all rows are from.
    """

    rows: pa.StructArray
    offsets: Codes
    micros: Micros | None
    topics: Texts
    partition: int = 0


class LayoutPiece(Protocol):
    """A placeholder: for each row an index into its distinct texts."""

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """Return them, safe as parts of a path."""


@dataclass(frozen=True, slots=True)
class FieldPiece:
    """A field's value, escaped; null and empty are ``__HIVE_DEFAULT_PARTITION__``.

    Where no name is in front, that begins with ``%5F``.
    """

    path: str
    named: bool

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """See ``LayoutPiece``."""
        return _escape(texts(field_at(columns.rows, self.path)), self.named)


@dataclass(frozen=True, slots=True)
class TopicPiece:
    """The topic to which a message goes."""

    named: bool

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """See ``LayoutPiece``."""
        return _escape(columns.topics, self.named)


@dataclass(frozen=True, slots=True)
class PartitionPiece:
    """The Kafka partition."""

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """See ``LayoutPiece``."""
        return np.zeros(len(columns.offsets), np.int64), [str(columns.partition)]


@dataclass(frozen=True, slots=True)
class BucketPiece:
    """The offset, rounded down to a multiple of ``size``."""

    size: int

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """See ``LayoutPiece``."""
        buckets, codes = few_distinct(columns.offsets // self.size)
        return codes, [str(bucket * self.size) for bucket in buckets.tolist()]


class TimePiece:
    """Parts of the time in the layout's zone."""

    def __init__(self, format: str, zone: Zone) -> None:
        """Raises ``ConfigurationError`` for an unknown directive."""
        self.format = format
        self._zone = zone
        self._unit = DAY
        self._template = ""
        for literal, directive in directives(format):
            self._template += literal
            if directive:
                text, unit = FORMATS_OF_TIME[directive]
                self._template += text
                self._unit = min(self._unit, unit)

    def texts(self, columns: LayoutColumns) -> tuple[Codes, list[str]]:
        """See ``LayoutPiece``."""
        assert columns.micros is not None
        # Local clocks may be in the year 0 or 10000 where UTC is not: the nearest time then.
        local = np.clip(self._zone.to_local(columns.micros), LEAST, GREATEST)
        units, codes = few_distinct(local // self._unit)
        return codes, [self._text(unit * self._unit) for unit in units.tolist()]

    def _text(self, micros: int) -> str:
        time = EPOCH + timedelta(microseconds=micros)
        return self._template.format(time, time.year % 100, time.timetuple().tm_yday)


def directives(format: str) -> list[tuple[str, str]]:
    """Return pairs of literal text and the directive after it, "" at the end."""
    pieces, start = [], 0
    for match in _TIME.finditer(format):
        if match[1] not in FORMATS_OF_TIME or not match[1]:
            known = ", ".join(f"%{name}" for name in FORMATS_OF_TIME)
            raise ConfigurationError(
                f"layout: {match[0]!r} in {{time:{format}}} is none of {known}"
            )
        pieces.append((format[start : match.start()], match[1]))
        start = match.end()
    return [*pieces, (format[start:], "")]


def _escape(column: Texts, named: bool) -> tuple[Codes, list[str]]:
    safe = [_safe(text, named) for text in column.distinct]
    # The last place, which is -1 as well, is that of null.
    return np.where(column.codes < 0, len(safe), column.codes), [*safe, _safe(None, named)]


def _safe(value: str | None, named: bool) -> str:
    """Escape a value; a directory of its own must not be hidden, as "_x" and ".x" are."""
    escaped = escape_value(value)
    if not named and escaped[0] in "._":
        return f"%{ord(escaped[0]):02X}{escaped[1:]}"
    return escaped
