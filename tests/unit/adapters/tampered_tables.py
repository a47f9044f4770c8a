"""Tables that the Iceberg library writes, with metadata of files that are not as the files are."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as LibraryTable
from pyiceberg.transforms import (
    Transform,
)
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
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.verify.metadata import ComparedFile
from tests.found_rows import TABLE

POINT = StructType(
    NestedField(19, "x", LongType()),
    NestedField(20, "inner", StructType(NestedField(21, "name", StringType()))),
)
ALL_TYPES = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "d", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "wide", DecimalType(38, 10)),
    NestedField(8, "day", DateType()),
    NestedField(9, "clock", TimeType()),
    NestedField(10, "ts", TimestampType()),
    NestedField(11, "tz", TimestamptzType()),
    NestedField(12, "s", StringType()),
    NestedField(13, "b", BinaryType()),
    NestedField(14, "fixed", FixedType(3)),
    NestedField(15, "u", UUIDType()),
    NestedField(16, "point", POINT),
    NestedField(17, "list", ListType(22, LongType(), element_required=False)),
    NestedField(18, "map", MapType(23, StringType(), 24, DoubleType(), value_required=False)),
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "small": -5,
        "f": -0.0,
        "d": float("nan"),
        "price": Decimal("-12.34"),
        "wide": Decimal("1234567890123456789012345678.0123456789"),
        "day": date(1969, 12, 31),
        "clock": time(1, 2, 3),
        "ts": datetime(1960, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001  # a timestamp without a zone
        "tz": datetime(2030, 1, 1, tzinfo=UTC),
        "s": "z" * 40,
        "b": b"\xff" * 40,
        "fixed": b"abc",
        "u": b"\x80" + bytes(15),
        "point": {"x": 7, "inner": {"name": "n"}},
        "list": [1, None, 3],
        "map": [("k", 1.5)],
    },
    {"id": 2, "f": 0.0, "d": 1.5, "s": "a", "point": {"x": None, "inner": None}, "list": []},
    {"id": 3, "f": 3.5, "point": None},
]


def rows_of(table: LibraryTable, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=table.schema().as_arrow())


def make(
    catalog: IcebergCatalog, schema: Schema, transform: Transform[Any, Any] | None = None
) -> LibraryTable:
    """Make a table by the library, partitioned by its first column."""
    catalog.library.create_namespace_if_not_exists("db")
    spec = PartitionSpec()
    if transform is not None:
        spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    properties = {"format-version": "2", "write.metadata.metrics.default": "full"}
    return catalog.library.create_table(TABLE, schema, partition_spec=spec, properties=properties)


def append(
    table: LibraryTable, rows: list[dict[str, Any]], *changes: Callable[[DataFile], None]
) -> None:
    """Let the library write files, one for each change, and append them as they are changed."""
    with (
        table.transaction() as transaction,
        transaction.update_snapshot().fast_append() as snapshot,
    ):
        for change in changes:
            (file,) = _dataframe_to_data_files(
                table_metadata=transaction.table_metadata, df=rows_of(table, rows), io=table.io
            )
            change(file)
            snapshot.append_data_file(file)


def compared(catalog: IcebergCatalog) -> list[ComparedFile]:
    table = catalog.load_table(TABLE)
    return list(catalog.compare_files(table, "main", map))


def wrong(catalog: IcebergCatalog) -> Iterator[tuple[str, str, str, str]]:
    for file in compared(catalog):
        assert file.damage is None
        for it in file.wrong:
            yield it.column, it.what, it.recorded, it.found


def long_bytes(value: int) -> bytes:
    return struct.pack("<q", value)


RECORD_COUNT, SPLIT_OFFSETS = 4, 13
"""Places in the library's data file."""

NO_TEXT = "'utf-8' codec can't decode byte 0xed in position 1: invalid continuation byte"

Tampered = dict[str, tuple[Callable[[DataFile], None], tuple[str, str, str, str]]]

TAMPERED: Tampered = {
    "upper bound": (
        lambda file: file.upper_bounds.update({1: long_bytes(2)}),
        ("id", "upper bound", "2", "greatest value 3"),
    ),
    "lower bound": (
        lambda file: file.lower_bounds.update({1: long_bytes(2)}),
        ("id", "lower bound", "2", "least value 1"),
    ),
    "bytes that are no number": (
        lambda file: file.lower_bounds.update({1: b"abc"}),
        ("id", "lower bound", "0x616263, no long (3 bytes)", "least value 1"),
    ),
    "bytes that are no text": (
        lambda file: file.upper_bounds.update({12: b"z\xed\xa0\x80"}),
        (
            "s",
            "upper bound",
            f"0x7aeda080, no string ({NO_TEXT})",
            f"greatest value '{'z' * 40}'",
        ),
    ),
    "a text that is cut and not above": (
        lambda file: file.upper_bounds.update({12: b"z" * 16}),
        ("s", "upper bound", f"'{'z' * 16}'", f"greatest value '{'z' * 40}'"),
    ),
    "zeros of the wrong sign": (
        lambda file: file.lower_bounds.update({4: struct.pack("<f", 0.0)}),
        ("f", "lower bound", "0.0", "least value -0.0"),
    ),
    "NaN as a bound": (
        lambda file: file.upper_bounds.update({5: struct.pack("<d", float("nan"))}),
        ("d", "upper bound", "NaN", "greatest value 1.5"),
    ),
    "a decimal that was rounded": (
        lambda file: file.upper_bounds.update({7: (1234567890 * 10**28).to_bytes(16, "big")}),
        (
            "wide",
            "upper bound",
            "1234567890000000000000000000.0000000000",
            "greatest value 1234567890123456789012345678.0123456789",
        ),
    ),
    "a value within structs": (
        lambda file: file.upper_bounds.update({21: b"m"}),
        ("point.inner.name", "upper bound", "'m'", "greatest value 'n'"),
    ),
    "number of nulls": (
        lambda file: file.null_value_counts.update({12: 0}),
        ("s", "number of nulls", "0", "1"),
    ),
    "number of nulls within structs": (
        lambda file: file.null_value_counts.update({19: 0}),
        ("point.x", "number of nulls", "0", "2"),
    ),
    "number of values": (
        lambda file: file.value_counts.update({12: 1}),
        ("s", "number of values", "1", "3"),
    ),
    "number of NaNs": (
        lambda file: file.nan_value_counts.update({5: 0}),
        ("d", "number of NaNs", "0", "1"),
    ),
    "number of rows": (
        lambda file: file.__setitem__(RECORD_COUNT, 2),
        ("", "number of rows", "2", "3"),
    ),
    "offsets of row groups": (
        lambda file: file.__setitem__(SPLIT_OFFSETS, [900]),
        ("", "split offsets", "900", "4"),
    ),
}
