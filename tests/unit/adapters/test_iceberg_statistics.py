"""Statistics of Parquet files are those that the Iceberg library makes."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from secor.adapters.iceberg import parquet_statistics as module

LONG_TEXT = "é" * 15 + "\U0010ffff" * 3
COLUMNS: dict[str, tuple[PrimitiveType, pa.DataType, list[Any]]] = {
    "yes": (BooleanType(), pa.bool_(), [True, False, None, True]),
    "int": (IntegerType(), pa.int32(), [-(1 << 31), 5, None, (1 << 31) - 1]),
    "long": (LongType(), pa.int64(), [3, -(1 << 63), (1 << 63) - 1, None]),
    "float": (FloatType(), pa.float32(), [1.5, float("nan"), -0.0, 0.0]),
    "double": (DoubleType(), pa.float64(), [float("-inf"), None, 2.0, 1e300]),
    "day": (DateType(), pa.date32(), [date(1, 1, 1), date(2026, 11, 22), None, date(1970, 1, 1)]),
    "time": (TimeType(), pa.time64("us"), [time(0), time(23, 59, 59, 999_999), None, time(1)]),
    "at": (
        TimestampType(),
        pa.timestamp("us"),
        [-62_135_596_800_000_000, None, 253_370_764_800_000_000] * 2,
    ),
    "when": (
        TimestamptzType(),
        pa.timestamp("us", "UTC"),
        [datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=UTC)],
    ),
    "text": (StringType(), pa.string(), ["", "a", LONG_TEXT, None]),
    "greatest": (StringType(), pa.string(), ["\U0010ffff" * 20, "x" * 17]),
    "nothing": (StringType(), pa.string(), [None, None]),
}


def compare(schema: Schema, rows: pa.Table, properties: dict[str, str], *, ours: bool) -> None:
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=2)
    footer = pq.read_metadata(file)
    plan = compute_statistics_plan(schema, properties)
    ids = parquet_path_to_id_mapping(schema)
    read = {path: module._column(plan[field_id]) for path, field_id in ids.items()}
    assert all(column is not None for column in read.values()) is ours
    expected = module._by_library(footer, plan, ids)
    assert module.parquet_statistics(plan, ids)(footer) == expected


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("mode", ["truncate(16)", "truncate(3)", "full", "counts", "none"])
def test_each_type_has_what_the_library_finds(name: str, mode: str) -> None:
    kind, arrow, values = COLUMNS[name]
    schema = Schema(NestedField(7, name, kind))
    rows = pa.table({name: pa.array(values, arrow)})
    compare(schema, rows, {"write.metadata.metrics.default": mode}, ours=True)


def test_nested_columns_have_it_too() -> None:
    inner = StructType(NestedField(2, "a", LongType()), NestedField(3, "b", StringType()))
    schema = Schema(
        NestedField(1, "s", inner), NestedField(4, "l", ListType(5, LongType(), required=False))
    )
    rows = pa.table(
        {
            "s": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
            "l": pa.array([[1, 2], None, []], pa.list_(pa.field("element", pa.int64()))),
        }
    )
    compare(schema, rows, {}, ours=True)


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.00")]),
        (BinaryType(), pa.binary(), [b"a" * 20, b"\xff" * 20]),
    ],
)
def test_other_types_are_the_librarys_matter(
    kind: PrimitiveType, arrow: pa.DataType, values: list[Any]
) -> None:
    schema = Schema(NestedField(1, "x", kind), NestedField(2, "id", LongType()))
    rows = pa.table({"x": pa.array(values, arrow), "id": pa.array([1, 2])})
    compare(schema, rows, {}, ours=False)
