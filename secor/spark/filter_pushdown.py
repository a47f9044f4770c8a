"""Turns filters of a query into bounds of a read: objects outside the bounds are not read.

Spark applies every filter again to what it gets, so a bound may let through too much, but never
too little.  This module knows filters by the names of their classes, which are in
``pyspark.sql.datasource`` from Spark 4.1 on.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from secor.archive.objects import ArchivedObject
from secor.core.model import next_offset
from secor.spark.options import Selection, Span

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_GREATEST = (1 << 63) - 1
_MILLISECOND = timedelta(milliseconds=1)
_ALL = Span()

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "EqualTo": operator.eq,
        "EqualNullSafe": operator.eq,
        "In": lambda value, given: value in given,
        "GreaterThan": operator.gt,
        "GreaterThanOrEqual": operator.ge,
        "LessThan": operator.lt,
        "LessThanOrEqual": operator.le,
        "StringStartsWith": str.startswith,
        "StringEndsWith": str.endswith,
        "StringContains": operator.contains,
    }
)


@dataclass(frozen=True, slots=True)
class FilterBounds:
    """The bounds of a query's objects, from its filters.

    ``named`` are filters of columns that are in an object's name, ``topics`` the only ones
    asked for (None: all), ``timestamps`` milliseconds.
    """

    named: tuple[Any, ...] = ()
    topics: frozenset[str] | None = None
    offsets: Span = _ALL
    timestamps: Span = _ALL

    def allow(self, archived: ArchivedObject) -> bool:
        """Return whether an object's name allows that a message of it passes the filters."""
        recorded: dict[str, str | int] = {
            "topic": archived.topic,
            "partition": archived.name.partition,
            "generation": archived.name.generation,
            "output_partition": archived.name.output_partition,
            "object": archived.key,
        }
        return all(_passes(pushed, recorded[_column(pushed)]) for pushed in self.named)

    def narrowed(self, selection: Selection) -> Selection:
        """Return what is left of a selection, for listing and pruning."""
        topics = selection.topics
        if self.topics is not None and not topics:
            topics = tuple(sorted(self.topics))
        return replace(
            selection,
            topics=topics,
            offsets=_intersection(selection.offsets, self.offsets),
            timestamps=_intersection(selection.timestamps, self.timestamps),
        )


NO_BOUNDS = FilterBounds()


def bounds_of(filters: Iterable[Any]) -> FilterBounds:
    """Return the bounds of filters that all must hold; those without bounds are left out."""
    bounds = NO_BOUNDS
    for pushed in filters:
        column = _column(pushed)
        if column in ("topic", "partition", "generation", "output_partition", "object"):
            bounds = replace(bounds, named=(*bounds.named, pushed))
        if column == "topic":
            bounds = replace(bounds, topics=_common_topics(bounds.topics, _topics(pushed)))
        if column == "offset":
            bounds = replace(bounds, offsets=_intersection(bounds.offsets, _span(pushed, _whole)))
        if column == "timestamp":
            bounds = replace(
                bounds, timestamps=_intersection(bounds.timestamps, _span(pushed, _instant))
            )
    return bounds


def _kind(pushed: Any) -> str:
    return type(pushed).__name__


def _column(pushed: Any) -> str:
    """Return the column that a filter is about; empty for a field within one."""
    path = pushed.child.attribute if _kind(pushed) == "Not" else pushed.attribute
    return path[0] if len(path) == 1 else ""


def _passes(pushed: Any, value: str | int) -> bool:
    """Return whether a value passes a filter; an unknown filter lets every value pass."""
    negated = _kind(pushed) == "Not"
    test = pushed.child if negated else pushed
    literal: Any = getattr(test, "value", None)
    alike = literal if _kind(test) == "In" else (literal,)
    if _kind(test) not in _TESTS or any(
        # Python compares True with 1 and 1.0 with 1 as Spark does not: such a filter is left to
        # Spark.
        type(literal_value) is not type(value)
        for literal_value in alike
    ):
        return True
    return _TESTS[_kind(test)](value, literal) != negated


def _values(pushed: Any) -> Sequence[object]:
    """Return the values that the filter allows for a column; none if it does not list values."""
    match _kind(pushed):
        case "EqualTo" | "EqualNullSafe":
            return (pushed.value,)
        case "In":
            return tuple(pushed.value)
    return ()


def _topics(pushed: Any) -> frozenset[str] | None:
    values = _values(pushed)
    # Only a topic's name may become a path.
    names = {value for value in values if isinstance(value, str) and _TOPIC.fullmatch(value)}
    return frozenset(names) if values else None


def _common_topics(
    first: frozenset[str] | None, second: frozenset[str] | None
) -> frozenset[str] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _span(pushed: Any, read: Callable[[object], tuple[int, int] | None]) -> Span:
    """Return the numbers that pass; ``read`` returns a value rounded up and rounded down."""
    values = _values(pushed) or (getattr(pushed, "value", None),)
    around = [span for value in values if (span := read(value)) is not None]
    # One value that is not understood: the numbers that pass are not known.
    if len(around) < len(values):
        return Span()
    up, down = min(outer[0] for outer in around), max(outer[1] for outer in around)
    match _kind(pushed):
        case "EqualTo" | "EqualNullSafe" | "In":
            return _within_64_bits(up, next_offset(down))
        case "GreaterThan":
            return _within_64_bits(next_offset(down), None)
        case "GreaterThanOrEqual":
            return _within_64_bits(up, None)
        case "LessThan":
            return _within_64_bits(None, up)
        case "LessThanOrEqual":
            return _within_64_bits(None, next_offset(down))
    return Span()


def _within_64_bits(start: int | None, end: int | None) -> Span:
    """Return a span with bounds that fit into 64 bits, as the columns do."""
    return Span(
        # Arrow raises at a scalar beyond 64 bits.
        None if start is None else min(start, _GREATEST),
        None if end is None or end > _GREATEST else end,
    )


def _whole(value: object) -> tuple[int, int] | None:
    return (value, value) if type(value) is int else None


def _instant(value: object) -> tuple[int, int] | None:
    """Return a time in milliseconds, rounded up and rounded down."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return -(-since // _MILLISECOND), since // _MILLISECOND


def _intersection(span: Span, other: Span) -> Span:
    starts = [item for item in (span.start, other.start) if item is not None]
    ends = [item for item in (span.end, other.end) if item is not None]
    return Span(max(starts, default=None), min(ends, default=None))
