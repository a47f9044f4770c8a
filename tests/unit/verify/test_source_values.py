"""Values of a source's texts and of a table's arrays in one form."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from secor.verify.source.texts import parse_or_text
from secor.verify.source.values import SourceColumn, compared_column

HSTORE = '{"a \\"x\\\\":null,"":", ","b":"1"}'
MOMENT = datetime(2024, 7, 1, 10, 0, 0, 5, tzinfo=UTC)
MICROS = 2_629_800_000_000


def values(kind: str, text: str, array: pa.Array, **more: bool) -> tuple[str, str]:
    """Return the source's value and the table's, as they are compared."""
    column = compared_column(SourceColumn("x", kind, kind, **more), pa.field("x", array.type))
    assert not isinstance(column, str), column
    return repr(parse_or_text(column.parse, text)), repr(column.read(array)[0])


@pytest.mark.parametrize(
    ("kind", "text", "array"),
    [
        ("int8", "-9223372036854775808", pa.array([-(1 << 63)])),
        ("int4", "7", pa.array([Decimal(7)], pa.decimal128(10, 0))),
        ("numeric", "12.500", pa.array([Decimal("12.5")], pa.decimal128(38, 10))),
        ("numeric", "100", pa.array(["1E+2"])),
        ("numeric", "NaN", pa.array(["NaN"])),
        ("numeric", "12.345", pa.array([12.345])),
        ("float8", "NaN", pa.array([float("nan")])),
        ("float8", "-0", pa.array([0.0])),
        ("float8", "Infinity", pa.array([float("inf")])),
        ("float4", "0.1", pa.array([0.1], pa.float32())),
        ("float4", "0.1", pa.array([0.1])),
        ("bool", "true", pa.array([True])),
        ("bpchar", "ab", pa.array(["ab      "])),
        ("bytea", "\\x00ff", pa.array([b"\0\xff"])),
        ("bytea", "\\x00ff", pa.array(["AP8="])),
        ("uuid", str(UUID(int=1)), pa.array([UUID(int=1).bytes], pa.binary(16))),
        ("uuid", str(UUID(int=1)), pa.array([UUID(int=1).bytes], pa.uuid())),
        ("jsonb", '{"a": 1.0, "b": "ä"}', pa.array(['{"b":"\\u00e4","a":1}'])),
        ("json", '{"a": 1, "a": 1e400}', pa.array(['{"a": 10e399}'])),
        ("date", "2024-02-29", pa.array([date(2024, 2, 29)])),
        ("time", "24:00:00", pa.array(["24:00:00"])),
        ("time", "01:02:03.000004", pa.array([time(1, 2, 3, 4)])),
        ("timetz", "01:02:03+02", pa.array(["23:02:03Z"])),
        ("timestamp", "2024-07-01 10:00:00.000005", pa.array([MOMENT.replace(tzinfo=None)])),
        ("timestamptz", "2024-07-01 10:00:00.000005+00", pa.array([MOMENT])),
        ("timestamptz", "2024-07-01 10:00:00.5+00", pa.array(["2024-07-01T12:00:00.5+02:00"])),
        ("interval", "P1Y2M3DT4H5M6.7S", pa.array(["P1Y2M3DT4H5M6.7S"])),
        ("interval", "P1M", pa.array([MICROS])),
        ("bit", "0000000000101", pa.array([b"\5\0"])),
        ("bit", "0000000000101", pa.array([b"\5"])),
        ("bit", "0000000000000", pa.array([b""])),
        ("bit", "0000000000101", pa.array(["BQ=="])),
        ("bit", "1", pa.array([True])),
        ("varbit", "", pa.array([b""])),
        ("hstore", r'"b"=>"1", "a \"x\\"=>NULL, ""=>", "', pa.array([HSTORE])),
        ("hstore", "", pa.array(["{}"])),
        ("int8", "1", pa.array([True])),
        ("time", "-100:00:01", pa.array(["-100:00:01.000000"])),
    ],
)
def test_equal_values_are_equal(kind: str, text: str, array: pa.Array) -> None:
    source, table = values(kind, text, array)
    assert source == table


@pytest.mark.parametrize(
    ("kind", "text", "array"),
    [
        ("numeric", "12.345", pa.array([Decimal("12.3")], pa.decimal128(12, 3))),
        ("numeric", "0.1", pa.array(["AQ=="])),
        ("float8", "NaN", pa.array([0.0])),
        ("hstore", '"a"=>"1"', pa.array(['{"a": 1}'])),
        ("hstore", '"a"=>NULL', pa.array(["{}"])),
        ("jsonb", '{"a": 1}', pa.array(['{"a": "1"}'])),
        ("jsonb", "12345678901234567890.1", pa.array(["12345678901234567890.2"])),
        ("date", "infinity", pa.array([date(9999, 12, 31)])),
        ("timestamptz", "2024-07-01 10:00:00+00", pa.array([MOMENT])),
        ("interval", "P1M", pa.array(["P30DT10H30M"])),
        ("text", "", pa.array([None], pa.string())),
    ],
)
def test_other_values_differ(kind: str, text: str, array: pa.Array) -> None:
    source, table = values(kind, text, array)
    assert source != table


def test_arrays_are_compared_item_by_item() -> None:
    texts = pa.array([None, ["a", 'b,"c"', None, "NULL"], []], pa.list_(pa.string()))
    column = compared_column(SourceColumn("x", "text", "text[]", True), pa.field("x", texts.type))
    assert not isinstance(column, str)
    assert column.read(texts) == [None, column.parse('{a,"b,\\"c\\"",NULL,"NULL"}'), ()]
    assert column.parse("[0:1]={{1,2},{3,4}}") == (("1", "2"), ("3", "4"))


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [("date", pa.int32()), ("point", pa.string()), ("numeric", pa.binary()), ("uuid", pa.int64())],
)
def test_types_without_a_common_form_are_named(kind: str, arrow: Any) -> None:
    why = compared_column(SourceColumn("x", kind, kind), pa.field("x", arrow))
    assert why == f"{kind} in the source, {arrow} in the table"
