"""Statistics of Parquet files are those that the Iceberg library makes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, localcontext
from struct import pack
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
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
    UUIDType,
)

from secor.adapters.iceberg.parquet_statistics import parquet_statistics, text_upper_bound
from secor.parsing.parts import ROW
from secor.tables.staging.files.parquet import ParquetDataFormat
from secor.tables.staging.manifest import Statistics

WIDE = Context(prec=50)

LONG_TEXT = "é" * 15 + "\U0010ffff" * 3
COLUMNS: dict[str, tuple[PrimitiveType, pa.DataType, list[Any]]] = {
    "yes": (BooleanType(), pa.bool_(), [True, False, None, True]),
    "int": (IntegerType(), pa.int32(), [-(1 << 31), 5, None, (1 << 31) - 1]),
    "long": (LongType(), pa.int64(), [3, -(1 << 63), (1 << 63) - 1, None]),
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


def footer_of(rows: pa.Table, group_rows: int = 2) -> pq.FileMetaData:
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=group_rows)
    return pq.read_metadata(file)


def by_library(
    footer: pq.FileMetaData, schema: Schema, properties: dict[str, str]
) -> dict[str, Any]:
    plan = compute_statistics_plan(schema, properties)
    ids = parquet_path_to_id_mapping(schema)
    columns = data_file_statistics_from_parquet_metadata(footer, plan, ids).to_serialized_dict()
    del columns["record_count"]
    for name in ("lower_bounds", "upper_bounds"):
        columns[name] = {key: bound.hex() for key, bound in columns[name].items()}
    return {**columns, "split_offsets": tuple(columns["split_offsets"])}


def by_secor(
    footer: pq.FileMetaData, schema: Schema, properties: Mapping[str, str] = MappingProxyType({})
) -> Statistics:
    plan = compute_statistics_plan(schema, dict(properties))
    return parquet_statistics(plan, parquet_path_to_id_mapping(schema))(footer, {})


def compare(schema: Schema, rows: pa.Table, properties: dict[str, str]) -> None:
    footer = footer_of(rows)
    assert asdict(by_secor(footer, schema, properties)) == by_library(footer, schema, properties)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("mode", ["truncate(16)", "truncate(3)", "full", "counts", "none"])
def test_each_type_has_what_the_library_finds(name: str, mode: str) -> None:
    kind, arrow, values = COLUMNS[name]
    schema = Schema(NestedField(7, name, kind))
    rows = pa.table({name: pa.array(values, arrow)})
    compare(schema, rows, {"write.metadata.metrics.default": mode})


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
    compare(schema, rows, {})


def bounds(statistics: Statistics, field_id: int = 1) -> tuple[bytes | None, bytes | None]:
    lower, upper = statistics.lower_bounds, statistics.upper_bounds
    return tuple(
        bytes.fromhex(by_id[field_id]) if field_id in by_id else None for by_id in (lower, upper)
    )  # type: ignore[return-value]


TEXT = Schema(NestedField(1, "s", StringType()))


@pytest.mark.parametrize("long_group", [0, 1, 2])
def test_a_row_group_without_bounds_takes_those_of_the_file_away(long_group: int) -> None:
    values = ["a", "b", "c", "d", "e", "f"]
    values[2 * long_group] = "z" * 5000  # Arrow keeps no bounds of more than 4,096 bytes
    statistics = by_secor(footer_of(pa.table({"s": values})), TEXT)
    assert bounds(statistics) == (None, None)
    assert statistics.null_value_counts == {1: 0}


def test_a_row_group_of_nulls_leaves_the_bounds_of_the_others() -> None:
    rows = pa.table({"s": ["a", "b", None, None, "c", None]})
    assert bounds(by_secor(footer_of(rows), TEXT)) == (b"a", b"c")


NAN, INFINITY = float("nan"), float("inf")


def write_floats(
    kind: PrimitiveType, values: list[float | None], mode: str = "full"
) -> tuple[pq.FileMetaData, Statistics]:
    """Return the footer of a file of two rows in a group, and what the table keeps of it."""
    schema = Schema(
        NestedField(1, "x", kind), NestedField(2, "s", StructType(NestedField(3, "x", kind)))
    )
    columns = schema_to_pyarrow(schema)
    plan = compute_statistics_plan(schema, {"write.metadata.metrics.default": mode})
    statistics = parquet_statistics(plan, parquet_path_to_id_mapping(schema))
    file = io.BytesIO()
    log_format = ParquetDataFormat(columns, {}, statistics, 2)
    writer = log_format.create(file, b"")
    struct = [None if value is None else {"x": value} for value in values]
    x = pa.array(values, columns.field("x").type)
    s = pa.array(struct, pa.struct([pa.field("x", x.type)]))
    row = pa.StructArray.from_arrays([x, s], names=["x", "s"])
    writer.append(pa.record_batch({"offset": pa.array(range(len(values))), ROW: row}))
    writer.close()
    return pq.read_metadata(file), writer.report().statistics


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()])
@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([1.5, None, -3.5, 2.0], -3.5, 2.0),
        ([INFINITY, 1.0, -INFINITY], -INFINITY, INFINITY),
        ([0.0, 0.0, 0.0], -0.0, 0.0),
        ([-0.0, -0.0, -0.0], -0.0, 0.0),
        ([None, None, None], None, None),
        ([NAN, NAN, NAN], None, None),
        ([1.0, 2.0, 3.0, NAN], None, None),
        ([1.0, 2.0, NAN, NAN, 5.0], None, None),
    ],
)
def test_floats_have_bounds_in_files_without_nan(
    kind: PrimitiveType, values: list[float | None], least: float | None, greatest: float | None
) -> None:
    footer, statistics = write_floats(kind, values)
    form = "<f" if kind == FloatType() else "<d"
    expected = tuple(None if it is None else pack(form, it) for it in (least, greatest))
    assert bounds(statistics, 1) == expected
    assert bounds(statistics, 3) == (None, None)  # the library has none of nested columns either
    for field_id in (1, 3):
        assert statistics.null_value_counts[field_id] == values.count(None)
        assert statistics.value_counts[field_id] == len(values)
        # Readers look for nothing but NaN in a file where all values are counted as that.
        assert statistics.nan_value_counts.get(field_id) == (None if NAN in values else 0)
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            assert not footer.row_group(group).column(column).is_stats_set


@pytest.mark.parametrize("mode", ["counts", "none"])
def test_floats_have_what_the_properties_of_the_table_ask_for(mode: str) -> None:
    _, statistics = write_floats(DoubleType(), [1.0, None, 2.0], mode)
    assert (statistics.lower_bounds, statistics.upper_bounds) == ({}, {})
    counted = {1, 3} if mode == "counts" else set()
    assert statistics.null_value_counts.keys() == statistics.value_counts.keys() == counted
    assert statistics.nan_value_counts.keys() == counted


def test_a_column_without_statistics_has_no_bounds_and_no_null_count() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"s": ["a", None]}), file, write_statistics=False)
    statistics = by_secor(pq.read_metadata(file), TEXT)
    assert bounds(statistics) == (None, None)
    assert (statistics.value_counts, statistics.null_value_counts) == ({1: 2}, {})


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("\ud7ff", "\ud7ff" * 15 + "\ue000"),
        ("\U0010fffe", "\U0010fffe" * 15 + "\U0010ffff"),
        ("\uffff", "\uffff" * 15 + "\U00010000"),
        ("\U0010ffff", None),
    ],
)
@pytest.mark.parametrize("also_decimal", [False, True])
def test_the_upper_bound_of_a_cut_text_is_a_text(
    character: str, expected: str | None, also_decimal: bool
) -> None:
    fields = [NestedField(1, "s", StringType())]
    columns = {"s": pa.array([character * 17])}
    if also_decimal:
        fields.append(NestedField(2, "n", DecimalType(38, 0)))
        columns["n"] = pa.array([Decimal(1)], pa.decimal128(38, 0))
    statistics = by_secor(footer_of(pa.table(columns)), Schema(*fields))
    upper = None if expected is None else expected.encode()
    assert bounds(statistics) == ((character * 16).encode(), upper)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), st.integers(1, 4))
@example("\ud7ff\U0010ffff\U0010ffff", 2)
def test_an_upper_bound_is_above_all_that_begin_alike(text: str, length: int) -> None:
    bound = text_upper_bound(text.encode(), length)
    if bound is None:
        assert set(text[:length]) == {"\U0010ffff"}
        assert len(text) > length
    else:
        assert len(bound.decode()) <= length
        assert bound >= text.encode()
        assert len(text) <= length or bound > (text[:length] + "\U0010ffff" * 9).encode()


NINES = Decimal("9" * 38)


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        (DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.00")]),
        (DecimalType(18, 0), pa.decimal128(18, 0), [Decimal(127), Decimal(-129), None]),
        (
            DecimalType(38, 0),
            pa.decimal128(38, 0),
            [NINES, NINES.copy_negate(), Decimal(-1), Decimal(0)],
        ),
        (DecimalType(38, 38), pa.decimal128(38, 38), [NINES.scaleb(-38, WIDE), None]),
        (BinaryType(), pa.binary(), [b"a" * 20, b"\xff" * 20]),
        (BinaryType(), pa.binary(), [b"a" * 20, b"", None, b"b\xff" * 10]),
        (FixedType(3), pa.binary(3), [b"\x80\x00\x00", b"abc", None, b"\xff" * 3]),
    ],
)
@pytest.mark.parametrize("as_integer", [False, True])
def test_decimals_and_bytes_have_the_bounds_that_the_library_finds(
    kind: PrimitiveType, arrow: pa.DataType, values: list[Any], as_integer: bool
) -> None:
    schema = Schema(NestedField(1, "x", kind))
    file = io.BytesIO()
    rows = pa.table({"x": pa.array(values, arrow)})
    pq.write_table(rows, file, row_group_size=2, store_decimal_as_integer=as_integer)
    footer = pq.read_metadata(file)
    with localcontext(WIDE):
        assert asdict(by_secor(footer, schema)) == by_library(footer, schema, {})


def test_uuids_have_no_bounds_because_engines_order_them_differently() -> None:
    rows = pa.table({"u": pa.array([b"\x00" * 16, b"\xff" * 16], pa.uuid())})
    statistics = by_secor(footer_of(rows), Schema(NestedField(1, "u", UUIDType())))
    assert bounds(statistics) == (None, None)
    assert statistics.null_value_counts == {1: 0}
