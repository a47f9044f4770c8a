"""Filters of queries as bounds of reads: never too little is read."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import LongType, StructField, StructType

from secor.archive.objects import Archive, ArchivedObject
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import ObjectName
from secor.formats import make_format
from secor.spark import register
from secor.spark.filter_pushdown import NO_BOUNDS, FilterBounds, bounds_of
from secor.spark.options import Selection, Span, parse_options
from secor.spark.planning import plan
from secor.spark.reading import read_tasks
from secor.spark.source import FilteringDataSource, FilteringReader, SecorDataSource
from tests.fakes.archive import Shelf, messages


@dataclass(frozen=True)
class Filter:
    """As those of Spark 4.1 are, which Spark 4.0 does not have."""

    attribute: tuple[str, ...]
    value: Any = None


class EqualTo(Filter):
    pass


class EqualNullSafe(Filter):
    pass


class GreaterThan(Filter):
    pass


class GreaterThanOrEqual(Filter):
    pass


class LessThan(Filter):
    pass


class LessThanOrEqual(Filter):
    pass


class In(Filter):
    pass


class StringStartsWith(Filter):
    pass


class StringContains(Filter):
    pass


class IsNotNull(Filter):
    pass


class ArrayHasAll(Filter):
    """None that is known."""


@dataclass(frozen=True)
class Not:
    child: Filter


OFFSET, TIME, TOPIC, PARTITION = ("offset",), ("timestamp",), ("topic",), ("partition",)
AT = datetime(2026, 11, 21, tzinfo=UTC)
MILLIS = 1_795_219_200_000


def offsets(*filters: Any) -> Span:
    return bounds_of(filters).offsets


def times(*filters: Any) -> Span:
    return bounds_of(filters).timestamps


def test_comparisons_of_offsets_become_spans() -> None:
    assert offsets(EqualTo(OFFSET, 7)) == Span(7, 8)
    assert offsets(EqualNullSafe(OFFSET, 7)) == Span(7, 8)
    assert offsets(GreaterThan(OFFSET, 7)) == Span(8, None)
    assert offsets(GreaterThanOrEqual(OFFSET, 7), LessThan(OFFSET, 9)) == Span(7, 9)
    assert offsets(LessThanOrEqual(OFFSET, 7), LessThan(OFFSET, 90)) == Span(None, 8)
    assert offsets(In(OFFSET, (9, 3, 5))) == Span(3, 10)


def test_times_become_milliseconds_rounded_so_that_nothing_is_lost() -> None:
    odd = AT + timedelta(microseconds=1500)
    assert times(EqualTo(TIME, AT)) == Span(MILLIS, MILLIS + 1)
    assert times(GreaterThan(TIME, odd)) == Span(MILLIS + 2, None)
    assert times(GreaterThanOrEqual(TIME, odd)) == Span(MILLIS + 2, None)
    assert times(LessThan(TIME, odd)) == Span(None, MILLIS + 2)
    assert times(LessThanOrEqual(TIME, odd)) == Span(None, MILLIS + 2)
    assert times(LessThan(TIME, AT)) == Span(None, MILLIS)
    assert times(GreaterThan(TIME, AT)) == Span(MILLIS + 1, None)


@pytest.mark.parametrize(
    "unknown",
    [
        Not(EqualTo(OFFSET, 7)),
        ArrayHasAll(OFFSET, 7),
        IsNotNull(OFFSET),
        EqualNullSafe(OFFSET, None),
        EqualTo(OFFSET, 7.5),
        EqualTo(OFFSET, True),
        In(OFFSET, (1, None)),
        EqualTo(("headers", "offset"), 7),
        EqualTo(("value",), b"x"),
        GreaterThan(TIME, date(2026, 11, 21)),
        GreaterThan(TIME, AT.replace(tzinfo=None)),
    ],
    ids=repr,
)
def test_what_is_not_understood_bounds_nothing(unknown: Any) -> None:
    assert bounds_of([unknown]) == NO_BOUNDS


def test_numbers_beyond_a_column_are_no_error() -> None:
    most = (1 << 63) - 1
    assert offsets(GreaterThan(OFFSET, most)) == Span(most, None)
    assert offsets(LessThanOrEqual(OFFSET, most)) == Span(None, None)


def stored(topic: str, partition: int, first: int = 0) -> ArchivedObject:
    name = ObjectName(f"backup/{topic}", "dt=2026-11-21", 1, partition, first, ".seq")
    return ArchivedObject(topic, name, 100, 0.0)


@pytest.mark.parametrize(
    ("one", "passes"),
    [
        (EqualTo(PARTITION, 3), True),
        (EqualTo(PARTITION, 4), False),
        (Not(EqualTo(PARTITION, 3)), False),
        (In(PARTITION, (1, 3)), True),
        (In(PARTITION, (1, 2)), False),
        (LessThanOrEqual(PARTITION, 2), False),
        (GreaterThan(("generation",), 0), True),
        (LessThan(("generation",), 1), False),
        (EqualTo(TOPIC, "clicks"), True),
        (EqualTo(TOPIC, "orders"), False),
        (StringStartsWith(TOPIC, "cl"), True),
        (StringContains(("output_partition",), "11-22"), False),
        (Not(StringContains(("output_partition",), "11-22")), True),
        (StringStartsWith(("object",), "backup/orders"), False),
        # Of other types, or not understood: for Spark to tell.
        (EqualTo(PARTITION, "4"), True),
        (Not(EqualTo(PARTITION, None)), True),
        (ArrayHasAll(TOPIC, "orders"), True),
        (Not(ArrayHasAll(TOPIC, "clicks")), True),
        (IsNotNull(TOPIC), True),
    ],
    ids=repr,
)
def test_names_of_objects_are_held_against_filters(one: Any, passes: bool) -> None:
    assert bounds_of([one]).allow(stored("clicks", 3)) == passes


def test_only_the_topics_that_are_asked_for_are_listed() -> None:
    def topics(*filters: Any, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
        return bounds_of(filters).narrowed(Selection(topics=asked)).topics

    assert topics(EqualTo(TOPIC, "clicks")) == ("clicks",)
    assert topics(In(TOPIC, ("b", "a", "c")), In(TOPIC, ("c", "b", "d"))) == ("b", "c")
    assert topics(EqualTo(TOPIC, "clicks"), asked=("cl*",)) == ("cl*",)
    assert topics(In(TOPIC, ("clicks", "..", "../../etc", "a/b", "a*"))) == ("clicks",)
    assert topics(GreaterThan(TOPIC, "a")) == ()


def test_bounds_and_options_must_both_hold() -> None:
    asked = Selection(offsets=Span(10, 50), timestamps=Span(None, 7))
    left = bounds_of([GreaterThan(OFFSET, 20), LessThan(OFFSET, 90)]).narrowed(asked)
    assert left.offsets == Span(21, 50)
    assert left.timestamps == Span(None, 7)


# ------------------------------------------------------------------ reading


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    made = Shelf(tmp_path / "store", make_format("sequencefile"), prefix="")
    for topic, partition in (("clicks", 0), ("clicks", 1), ("orders", 0)):
        for first in range(0, 40, 10):
            made.put(
                messages(range(first, first + 10)),
                OffsetRange(first, first + 10),
                topic_partition=TopicPartition(topic, partition),
                least_timestamp=1_700_000_000_000 + first,
                greatest_timestamp=1_700_000_000_009 + first,
            )
    return made


def read(shelf: Shelf, bounds: FilterBounds, **given: str) -> tuple[int, list[dict[str, Any]]]:
    """Return how many objects are read, and the rows."""
    asked = parse_options({"path": str(shelf.directory), **given})
    tasks = plan(Archive(shelf.store, ""), asked, bounds)
    rows = [row for batch in read_tasks(asked, tasks, bounds) for row in batch.to_pylist()]
    return sum(len(task.pieces) for task in tasks), rows


def test_only_what_filters_need_is_read(shelf: Shelf) -> None:
    count, rows = read(
        shelf, bounds_of([EqualTo(TOPIC, "clicks"), EqualTo(PARTITION, 1), EqualTo(OFFSET, 13)])
    )
    assert count == 1
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [("clicks", 1, 13)]
    since = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=35)
    count, rows = read(shelf, bounds_of([GreaterThanOrEqual(TIME, since)]), topics="orders")
    assert count == 1
    assert [row["offset"] for row in rows] == [35, 36, 37, 38, 39]


def test_a_topic_that_is_not_there_gives_no_rows_and_no_error(shelf: Shelf) -> None:
    assert read(shelf, bounds_of([EqualTo(TOPIC, "nowhere")])) == (0, [])
    assert read(shelf, bounds_of([EqualTo(TOPIC, "../../etc")])) == (0, [])


def test_text_objects_are_pruned_and_never_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store", make_format("text"), prefix="")
    for first in (0, 10, 20):
        shelf.put(messages(range(first, first + 10)), OffsetRange(first, first + 10))
    # Their rows have no offset, so no comparison is true of them.
    assert read(shelf, bounds_of([GreaterThan(OFFSET, 15)])) == (2, [])


def test_the_reader_takes_filters_and_leaves_them_to_spark_too(shelf: Shelf) -> None:
    reader = FilteringReader(parse_options({"path": str(shelf.directory)}))
    filters = [EqualTo(TOPIC, "orders"), LessThan(OFFSET, 12)]
    assert list(reader.pushFilters(filters)) == filters
    again = pickle.loads(pickle.dumps(reader))  # noqa: S301  # as Spark does
    tasks = again.partitions()
    assert sum(len(one.task.pieces) for one in tasks) == 2
    rows = [row for task in tasks for batch in again.read(task) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(12))


def test_the_source_that_takes_filters_makes_a_reader_of_the_columns_asked_for(
    shelf: Shelf,
) -> None:
    source = FilteringDataSource({"path": str(shelf.directory)})
    reader = source.reader(StructType([StructField("offset", LongType())]))
    assert isinstance(reader, FilteringReader)
    reader.pushFilters([EqualTo(TOPIC, "orders"), LessThan(OFFSET, 2)])
    rows = [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    assert rows == [{"offset": 0}, {"offset": 1}]


class Session:
    """What ``register`` asks of a session."""

    version = "4.1.4"

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.registered: list[type] = []
        self.conf = SimpleNamespace(set=self.settings.__setitem__)
        self.dataSource = SimpleNamespace(register=self.registered.append)


def test_only_a_spark_that_pushes_filters_gets_the_reader_that_takes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = Session(), Session()
    monkeypatch.delattr(DataSourceReader, "pushFilters", raising=False)
    register(before)
    assert (before.registered, before.settings) == ([SecorDataSource], {})
    monkeypatch.setattr(DataSourceReader, "pushFilters", list, raising=False)
    register(after)
    assert after.registered == [FilteringDataSource]
    assert after.settings == {"spark.sql.python.filterPushdown.enabled": "true"}


LITERALS = st.integers(-2, 45)
COMPARISONS = st.one_of(
    st.builds(
        lambda kind, column, value: kind((column,), value),
        st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]),
        st.sampled_from(["offset", "partition", "generation"]),
        LITERALS,
    ),
    st.builds(
        lambda column, values: In((column,), tuple(values)),
        st.sampled_from(["offset", "partition"]),
        st.lists(LITERALS, min_size=1, max_size=3),
    ),
    st.builds(lambda value: Not(EqualTo(PARTITION, value)), st.integers(0, 2)),
    st.builds(lambda value: EqualTo(TOPIC, value), st.sampled_from(["clicks", "orders", "no"])),
)


def passes(one: Any, row: dict[str, Any]) -> bool:
    if isinstance(one, Not):
        return not passes(one.child, row)
    value, given_value = row[one.attribute[0]], one.value
    match type(one).__name__:
        case "EqualTo":
            return bool(value == given_value)
        case "In":
            return value in given_value
        case "GreaterThan":
            return bool(value > given_value)
        case "GreaterThanOrEqual":
            return bool(value >= given_value)
        case "LessThan":
            return bool(value < given_value)
    return bool(value <= given_value)


@given(filters=st.lists(COMPARISONS, max_size=3))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_whatever_is_asked_no_row_that_passes_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, filters: Sequence[Any]
) -> None:
    place = tmp_path_factory.getbasetemp() / "pushing"
    shelf = Shelf(place / "store", make_format("sequencefile"), prefix="")
    if not place.exists():
        place.mkdir()
        for topic, partition in (("clicks", 0), ("clicks", 1), ("orders", 0)):
            for first in (0, 10, 20):
                where = TopicPartition(topic, partition)
                rows = messages(range(first, first + 10))
                shelf.put(rows, OffsetRange(first, first + 10), topic_partition=where)
    _, everything = read(shelf, NO_BOUNDS)
    _, some = read(shelf, bounds_of(filters))
    assert [row for row in some if all(passes(one, row) for one in filters)] == [
        row for row in everything if all(passes(one, row) for one in filters)
    ]
