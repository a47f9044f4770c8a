"""Tables whose rows are changed by key, compared with what the log says, by a real Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from secor.spark.table_state import compare_state
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.staging.changes_of_table import UNFIT
from secor.verify.keys import TableState

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets behind
]

COLUMNS = {
    "id": "int",
    "the day's": "string",
    "fare": "double",
    "tags": "map<string, struct<a: int>>",
    "inner": "struct<tags: map<string, int>, list: array<map<string, int>>>",
}
ROW = ", ".join(f"`{name}`: {kind}" for name, kind in COLUMNS.items())
CHANGE = (
    "operation tinyint, topic string, partition int, offset bigint, timestamp bigint,"
    f" row struct<{ROW}, new: string>"
)
Row = tuple[Any, ...]


def row(row_id: int, fare: float = 1.0, *tags: str) -> Row:
    tag_values = {tag: (len(tag),) for tag in tags}
    inner = ({"x": 1, "y": 2}, [{"z": 1}, None]) if tags else None
    return (row_id, "mon", fare, tag_values, inner)


def upsert(offset: int, table_row: Row, partition: int = 0, timestamp: int = 5) -> Row:
    return (UPSERT, "flights", partition, offset, timestamp, (*table_row, "new"))


def delete(offset: int, row_id: int, partition: int = 0, timestamp: int = 5) -> Row:
    key_only = (row_id, None, None, None, None, None)
    return (DELETE, "flights", partition, offset, timestamp, key_only)


NAN = float("nan")
CHANGES = [
    *(upsert(0, row(1)), upsert(1, row(1, 2.0)), upsert(2, row(1, NAN, "a", "b"))),
    *(upsert(3, row(2)), delete(4, 2), delete(5, 99)),  # deleted; and what was never there
    *(upsert(6, row(3)), upsert(0, row(3, 9.0), partition=1, timestamp=1)),  # order not known
    *(upsert(7, row(4)), upsert(8, row(5)), upsert(9, row(6)), delete(10, 7)),
    (UNFIT, "flights", 0, 11, 5, None),
]
RIGHT = [row(1, NAN, "b", "a"), row(3, 9.0), row(4), row(5), row(6)]
"""The tags in another order, and the earlier of two states whose order is not known."""


def compare(spark: SparkSession, rows: list[Row], *, whole_log: bool = True) -> TableState:
    def frame(data: list[Row], schema: str) -> DataFrame:
        return spark.createDataFrame(data, schema)

    actual = frame([(*it, 7) for it in rows], f"struct<{ROW}, foreign: int>")
    return compare_state("db.flights", frame(CHANGES, CHANGE), actual, ["id"], whole_log=whole_log)


def test_each_key_is_right_or_told_with_its_last_message(spark: SparkSession) -> None:
    state = compare(spark, RIGHT)
    assert (state.messages, state.keys, state.rows) == (12, 8, 5)
    assert (state.wrong, state.examples, state.unfit, state.unordered) == ({}, [], 1, 1)

    wrong = [
        *(row(1, NAN, "a", "c"), row(2), row(3, 7.0), row(4), row(4), row(5)),
        *((5 + 100, None, None, None, None), row(7)),
    ]
    state = compare(spark, wrong)
    assert state.wrong == {"different": 2, "extra": 3, "twice": 1, "missing": 1}
    assert [line.removeprefix("db.flights: ") for line in state.lines(20)] == [
        "missing: 1 message, which cannot be its rows as it is now",
        'extra: {"id":105}, in no message',
        'different: {"id":1}, last changed by flights/0, offset 2, other values in tags',
        'extra: {"id":2}, last changed by flights/0, offset 4',
        'different: {"id":3}, last changed by flights/0, offset 6, other values in fare',
        'twice: {"id":4}, last changed by flights/0, offset 7',
        'missing: {"id":6}, last changed by flights/0, offset 9',
        'extra: {"id":7}, last changed by flights/0, offset 10',
    ]
    assert list(state.lines(1))[-1] == "db.flights: … and 6 more keys"

    state = compare(spark, [*RIGHT, row(105)], whole_log=False)
    assert (state.wrong, state.older) == ({}, 1)
    assert "1 row not compared" in state.remark


def test_a_column_that_was_left_out_is_compared_with_the_value_that_it_had(
    spark: SparkSession,
) -> None:
    columns = "struct<id: int, fare: double, body: string>"
    change = (
        "operation tinyint, topic string, partition int, offset bigint, timestamp bigint,"
        f" kept array<int>, row {columns}"
    )
    changes = [
        (UPSERT, "flights", 0, 0, 5, [], (1, 1.0, "long")),
        (UPSERT, "flights", 0, 1, 5, [2], (1, 2.0, None)),
        (UPSERT, "flights", 0, 2, 5, [2], (2, 2.0, None)),  # nobody knows what it has
        (UPSERT, "flights", 0, 3, 5, None, (3, 2.0, "x")),
        (DELETE, "flights", 0, 4, 5, None, (3, None, None)),
        (UPSERT, "flights", 0, 5, 5, [2], (3, 3.0, None)),
    ]

    def compare_with(*rows: Row, whole_log: bool = True) -> TableState:
        actual = spark.createDataFrame(list(rows), columns)
        log = spark.createDataFrame(changes, change)
        return compare_state("db.flights", log, actual, ["id"], whole_log=whole_log)

    assert compare_with((1, 2.0, "long"), (2, 2.0, None), (3, 3.0, None)).wrong == {}
    state = compare_with((1, 2.0, None), (2, 2.0, "unknown"), (3, 3.0, "x"))
    assert state.wrong == {"different": 3}
    assert [example.text.endswith("other values in body") for example in state.examples] == [
        True
    ] * 3
    older = compare_with((1, 2.0, "long"), (2, 2.0, "older"), (3, 3.0, "x"), whole_log=False)
    assert [example.text.split(", ")[0] for example in older.examples] == ['different: {"id":3}']
