"""Rows of data files in every format, as the library's own readers would give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    FileFormat,
)

from secor.adapters.iceberg.data_file_rows import open_rows
from secor.core.errors import CorruptFile
from tests.found_rows import TABLE, VALUES, EdgeTable, array_of, edge_table
from tests.unit.adapters.iceberg_tables import sqlite_catalog
from tests.unit.adapters.positional_deletes import delete_rows


def numbers_of(table: EdgeTable) -> list[int]:
    described = table.catalog.load_table(TABLE)
    batches = table.catalog.scan(described, "main", ["id"])
    return sorted(number for batch in batches for number in batch.column("id").to_pylist())


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_scan_gives_all_rows_whatever_the_format(file_format: str, tmp_path: Path) -> None:
    table = edge_table(sqlite_catalog(tmp_path), "long", file_format=file_format)
    assert numbers_of(table) == sorted(table.values)


@pytest.mark.parametrize(
    ("file_format", "delete_format"),
    [("avro", "parquet"), ("avro", "orc"), ("avro", "avro"), ("parquet", "avro"), ("orc", "orc")],
)
def test_a_scan_leaves_deleted_rows_out(
    file_format: str, delete_format: str, tmp_path: Path
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = edge_table(catalog, "long", file_format=file_format)
    (path,) = table.files
    delete_rows(catalog, tmp_path / f"deletes.{delete_format}", path, [1, 4], delete_format)
    assert numbers_of(table) == [number for number in sorted(table.values) if number not in (1, 4)]


def as_written(array: pa.Array) -> list[Any]:
    """Return values as integers, bytes and decimals, which all formats can have."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_time(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_date(kind):
        array = array.cast(pa.int32())
    return [repr(value) for value in array.to_pylist()]


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize("kind", VALUES)
def test_values_of_each_type_are_those_that_were_written(
    kind: str, file_format: str, tmp_path: Path
) -> None:
    table = edge_table(sqlite_catalog(tmp_path), kind, file_format=file_format)
    library = table.library
    for file in (task.file for task in library.scan().plan_files()):
        with open_rows(library.io, file) as rows:
            batches = list(rows.batches)
            assert [field.field_id for field in rows.schema.fields] == [1, 2]
            left_out = rows.left_out or {}
        ids = [number for batch in batches for number in batch.column(0).to_pylist()]
        values = [value for batch in batches for value in as_written(batch.column(1))]
        expected = [table.values[number] for number in ids]
        if "x" in left_out:
            assert (kind[:9], file_format) == ("timestamp", "orc")
            assert "out of range" in left_out["x"]
        else:
            assert values == as_written(array_of(VALUES[kind][0], expected))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    table = edge_table(sqlite_catalog(tmp_path), "long")
    (path,) = table.files
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(CorruptFile, match=Path(path).name):
        numbers_of(table)


def test_nested_values_of_avro_are_those_that_were_written(tmp_path: Path) -> None:
    entry = {
        "type": "record",
        "name": "k7_v8",
        "fields": [
            {"name": "key", "type": "long", "field-id": 7},
            {"name": "value", "type": ["null", "string"], "field-id": 8},
        ],
    }
    numbers = {"type": "array", "items": "long", "element-id": 3}
    texts = {"type": "map", "values": "long", "key-id": 5, "value-id": 6}
    pairs = {"type": "array", "items": entry, "logicalType": "map"}
    inner = {
        "type": "record",
        "name": "r1",
        "fields": [
            {"name": "l", "type": ["null", numbers], "field-id": 2},
            {"name": "m", "type": texts, "field-id": 4},
            {"name": "p", "type": pairs, "field-id": 9},
        ],
    }
    fields = [{"name": "s", "type": ["null", inner], "field-id": 1}]
    schema = {"type": "record", "name": "table", "fields": fields}
    row = {"l": [1, 2], "m": {"a": 1}, "p": [{"key": 1, "value": None}]}
    file = tmp_path / "nested.avro"
    with file.open("wb") as output:
        fastavro.writer(output, schema, [{"s": row}, {"s": None}, {"s": {**row, "l": None}}])
    described = DataFile.from_args(file_path=f"file://{file}", file_format=FileFormat.AVRO)
    with open_rows(PyArrowFileIO(), described) as rows:
        values = [value for batch in rows.batches for value in batch.column(0).to_pylist()]
    assert values == [
        {"l": [1, 2], "m": [{"key": "a", "value": 1}], "p": [{"key": 1, "value": None}]},
        None,
        {"l": None, "m": [{"key": "a", "value": 1}], "p": [{"key": 1, "value": None}]},
    ]


def test_a_large_row_group_is_read_in_batches(tmp_path: Path) -> None:
    table = edge_table(sqlite_catalog(tmp_path), "long", values=[1], group_rows=2)
    (path,) = table.files
    local = Path(path.removeprefix("file://"))
    schema = pq.read_schema(local)
    rows = 200_000
    columns = [pa.array(range(rows)), pa.array(range(rows))]
    pq.write_table(pa.table(columns, schema=schema), local)
    (task,) = table.library.scan().plan_files()
    with open_rows(table.library.io, task.file) as opened:
        batches = list(opened.batches)
        assert opened.row_groups == (4,)
    assert max(map(len, batches)) <= 65_536
    ids = pa.chunked_array([batch.column(0) for batch in batches])
    assert pc.sum(ids).as_py() == sum(range(rows))
