"""The ways by which staged changes reach Spark; all of them must give the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from secor.adapters.local import DirectoryStore
from secor.core.errors import Unavailable
from secor.spark import staged_frame
from secor.spark.hudi_engine import spark_columns
from secor.spark.rows_of_driver import column_name
from secor.spark.staged_frame import ChangesToMerge, StagedReader
from secor.tables.catalog import FIELD_ID
from secor.tables.rows.staged_rows import KEPT, ROW, staged_schema
from secor.tables.staging.manifest import DataFile, TableFiles

CHANGES = 1200
FILES = 5


def _field(number: int, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number).encode()})


COLUMNS = pa.schema(
    [
        _field(1, "id", pa.int64()),
        _field(2, "a.b `c`", pa.string()),  # a name that has to be quoted
        _field(3, "rank", pa.float64()),
        _field(4, "day", pa.date32()),
        _field(5, "at", pa.timestamp("us", "UTC")),
        _field(6, "local_at", pa.timestamp("us")),
        _field(7, "price", pa.decimal128(20, 3)),
        _field(8, "raw", pa.binary()),
        _field(9, "unique", pa.uuid()),
        _field(10, "tags", pa.list_(_field(11, "element", pa.string()))),
        _field(
            12,
            "counts",
            pa.map_(
                _field(13, "key", pa.string()).with_nullable(False), _field(14, "value", pa.int32())
            ),
        ),
        _field(15, "inner", pa.struct([_field(16, "yes", pa.bool_())])),
        _field(17, "new", pa.int32()),  # that no file has
    ]
)


def compare_ways(session: SparkSession, directory: Path) -> None:
    """Read the same changes in all ways, with and without a column that orders them.

    In the end one of the files is gone.
    """
    store = DirectoryStore(directory)
    staged_files = tuple(_write(store, directory, number) for number in range(FILES))
    files = (TableFiles("db.t", "uuid", 0, 0, "changes", staged_files, (1, 2)),)
    table: Any = mock.Mock(schema=COLUMNS, identifier="db.t")
    key, columns = ["id", "a.b `c`"], spark_columns(COLUMNS)
    for order in (None, "rank"):
        results = {}
        for name, limits, tasks in WAYS:
            reader = StagedReader(partial(DirectoryStore, directory))
            reader.most_row_bytes, reader.most_key_bytes = limits
            staged = ChangesToMerge(table, files, key, columns, order)
            with _read_by_tasks(tasks), reader.last(session, staged) as last:
                names = ", ".join(map(column_name, range(len(COLUMNS))))
                kept = "coalesce(array_sort(kept), array()) AS kept"
                changes = last.changes.selectExpr("operation", kept, *names.split(", "))
                rows = [str(row) for row in changes.collect()]
                assert any("kept=[6" in row for row in rows)
                results[name] = sorted(rows), last.unordered, last.unknown
            assert not list(Path(session.sparkContext._temp_dir).glob("changes-*"))
        expected, unordered, unknown = results["local rows"]
        assert 100 < len(expected) < CHANGES / 2
        assert unordered > 0
        assert unknown > 0
        for name, result in results.items():
            assert result == (expected, unordered, unknown), (name, order)

    (directory / staged_files[-1].path).unlink()
    lost = ChangesToMerge(table, files, key, columns)
    with pytest.raises(Unavailable, match=r"table db\.t: .*, which was staged"):
        with StagedReader(partial(DirectoryStore, directory)).last(session, lost):
            raise AssertionError("it was read")


def check_that_many_are_in_no_plan(session: SparkSession, directory: Path) -> None:
    """Spark compares and copies a query's plan many times, with all rows that stand in it."""
    columns = pa.schema([_field(1, "id", pa.int64()), _field(2, "text", pa.string())])
    store, key = DirectoryStore(directory), ["id"]
    table: Any = mock.Mock(schema=columns, identifier="db.t")
    for count, in_plan in ((100, True), (20_000, False)):
        row = pa.StructArray.from_arrays(
            [pa.array(range(count)), pa.array(["x" * 50] * count)], fields=list(columns)
        )
        numbers = pa.array(range(count))
        zeros = [pa.nulls(count, kind).fill_null(0) for kind in (pa.int8(), pa.int32())]
        arrays = [zeros[0], pa.array(["t"] * count), zeros[1], numbers, numbers, row]
        rows = pa.Table.from_arrays(arrays, schema=staged_schema(columns))
        pq.write_table(rows, directory / "many.parquet")
        file = DataFile("many.parquet", "parquet", count, 1, 0, count)
        files = (TableFiles("db.t", "uuid", 0, 0, "changes", (file,), (1,)),)
        staged = ChangesToMerge(table, files, key, spark_columns(columns))
        for by_tasks in (False, True):
            reader = StagedReader(lambda: store)
            with _read_by_tasks(by_tasks), reader.last(session, staged) as last:
                java: Any = last.changes
                plan = java._jdf.queryExecution().analyzed().toString()
                assert ("LocalRelation" in plan) == in_plan, (count, by_tasks, plan)
                assert last.changes.count() == count


MUCH = 1 << 30
WAYS = [
    ("local rows", (MUCH, MUCH), False),
    ("a file", (0, MUCH), False),
    ("tasks", (0, MUCH), True),
    ("a file that Spark reduces", (0, 0), False),
    ("tasks that Spark reduces", (0, 0), True),
]
"""With bytes of rows and of keys that the driver holds; whether tasks read what is staged."""


@contextmanager
def _read_by_tasks(by_tasks: bool) -> Iterator[None]:
    with mock.patch.object(staged_frame, "reads_files_of_driver", return_value=not by_tasks):
        yield


def _write(store: DirectoryStore, directory: Path, number: int) -> DataFile:
    """Stage changes in any order, of few keys in few topic partitions, with ties of all kinds."""
    rng = np.random.default_rng(number)
    count = CHANGES // FILES

    def maybe(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.2 else value for value in values]

    numbers = rng.integers(0, 100, count).tolist()
    days = [dt.date(1500, 1, 1) + dt.timedelta(days=it * 3000) for it in numbers]
    times = [dt.datetime(it.year, 1, 1, 3, 4, 5, 6, tzinfo=dt.UTC) for it in days]
    values = {
        "id": rng.integers(0, 60, count).tolist(),
        "a.b `c`": maybe([f"tä{it}" for it in rng.integers(0, 4, count).tolist()]),
        "rank": maybe(
            [float("nan") if it == 4 else it / 2 for it in rng.integers(0, 5, count).tolist()]
        ),
        "day": maybe(days),
        "at": maybe(times),
        "local_at": maybe([it.replace(tzinfo=None) for it in times]),
        "price": maybe([Decimal(it).scaleb(-3) for it in numbers]),
        "raw": maybe([bytes([it]) for it in numbers]),
        "unique": maybe([bytes([it] * 16) for it in numbers]),
        "tags": maybe([["x", None, str(it)][: it % 4] for it in numbers]),
        "counts": maybe([[("a", it), ("b", None)][: it % 3] for it in numbers]),
        "inner": maybe([{"yes": it % 3 == 0} for it in numbers]),
    }
    fields = [field for field in COLUMNS if field.name in values]
    operations = rng.integers(0, 2, count, np.int8)
    ids = [7, 10, 12, 15, 99]  # the last one has been dropped since
    kept = [
        [] if operation else [it for it in ids if number and rng.random() < 0.4]
        for operation in operations.tolist()
    ]
    for name, number_of_field in (("price", 7), ("tags", 10), ("counts", 12), ("inner", 15)):
        values[name] = [
            None if number_of_field in left_out else value
            for left_out, value in zip(kept, values[name], strict=True)
        ]
    row = pa.StructArray.from_arrays(
        [pa.array(values[it.name], it.type) for it in fields], fields=fields
    )
    topics = ["t" if it else "s" for it in rng.integers(0, 2, count).tolist()]
    arrays = [
        pa.array(operations),
        pa.array(topics),
        pa.array(rng.choice(np.array([0, 2, 10], np.int32), count)),
        pa.array(rng.permutation(count) + number * count),
        pa.array(maybe(rng.integers(0, 4, count).tolist()), pa.int64()),
        *(
            [pa.array(kept, KEPT.type)] if number else []
        ),  # the first was staged before there was one
        row,
    ]
    schema = staged_schema(pa.schema(fields), keeping=number > 0)
    path = directory / f"{number}.parquet"
    pq.write_table(
        pa.Table.from_arrays([*arrays[:-1], row.cast(schema.field(ROW).type)], schema=schema), path
    )
    return DataFile(path.name, "parquet", count, path.stat().st_size, 0, count)
