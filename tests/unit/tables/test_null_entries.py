"""Entries of maps whose value is null, in the data files of tables: other libraries find them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from secor.tables.catalog import NewTable
from tests.unit.tables.worker_world import WorkerWorld

Rows = list[dict[str, Any]]


def _map(kind: pa.DataType, **field: Any) -> pa.MapType:
    return pa.map_(pa.string(), pa.field("value", kind, **field))


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("flags", _map(pa.string())),
        pa.field("inner", pa.struct([pa.field("sizes", _map(pa.int64()))])),
    ]
)
MESSAGES = [
    {"id": 1, "flags": {"a": "x", "b": None}, "inner": {"sizes": {"s": None}}},
    {"id": 2, "flags": {"b": None}, "inner": {"sizes": {"s": 1, "t": None}}},
    {"id": 3, "flags": {"c": "y"}, "inner": {"sizes": {}}},
]


def by_duckdb(data: bytes) -> Rows:
    rows = duckdb.connect().read_parquet(io.BytesIO(data)).fetchall()
    return [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]


def by_pyarrow(data: bytes) -> Rows:
    rows: Rows = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows


def by_orc(data: bytes) -> Rows:
    rows: Rows = orc.read_table(io.BytesIO(data)).to_pylist()
    return rows


def by_fastavro(data: bytes) -> Rows:
    return [dict(row) for row in fastavro.reader(io.BytesIO(data)) if isinstance(row, dict)]


def as_sent(row: dict[str, Any]) -> dict[str, Any]:
    sizes = _object(row["inner"]["sizes"])
    return {"id": row["id"], "flags": _object(row["flags"]), "inner": {"sizes": sizes}}


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, list) and value and set(value[0]) == {"key", "value"}:
        return {entry["key"]: entry["value"] for entry in value}  # as Iceberg has maps in Avro
    return dict(value)


def made(directory: Path, schema: pa.Schema = SCHEMA, file_format: str = "parquet") -> WorkerWorld:
    world = WorkerWorld(directory, [{"table": "db.flights"}])
    properties = {"write.format.default": file_format}
    world.catalog.create_table("db.flights", NewTable(schema, (), properties))
    return world


@pytest.mark.parametrize(
    ("file_format", "reader"),
    [
        ("parquet", by_pyarrow),
        ("parquet", by_duckdb),
        ("orc", by_orc),
        ("avro", by_fastavro),
    ],
)
def test_other_libraries_find_them_in_data_files(
    tmp_path: Path, file_format: str, reader: Callable[[bytes], Rows]
) -> None:
    world = made(tmp_path, file_format=file_format)
    (manifest,) = world.write(*MESSAGES)
    (file,) = manifest.tables[0].files
    assert file.format == file_format
    rows = reader(Path(file.path.removeprefix("file://")).read_bytes())
    assert sorted(map(as_sent, rows), key=lambda row: int(row["id"])) == MESSAGES
    assert world.reasons() == []


def test_the_library_of_iceberg_finds_them(tmp_path: Path) -> None:
    world = made(tmp_path)
    world.write(*MESSAGES)
    assert sorted(map(as_sent, world.rows()), key=lambda row: int(row["id"])) == MESSAGES


def test_what_may_not_be_null_in_a_list_or_a_map_ends_nothing(tmp_path: Path) -> None:
    texts = pa.list_(pa.field("element", pa.string(), nullable=False))
    fields = [pa.field("id", pa.int64()), pa.field("flags", _map(pa.string(), nullable=False))]
    world = made(tmp_path, pa.schema([*fields, pa.field("texts", texts)]))
    world.write(
        {"id": 1, "flags": {"a": "x"}, "texts": ["x"]},
        {"id": 2, "flags": {"a": None, "b": "y"}},
        {"id": 3, "texts": ["x", None]},
        {"id": 4, "flags": {}, "texts": []},
    )
    assert sorted(row["id"] for row in world.rows()) == [1, 4]
    assert world.reasons() == [
        "schema: db.flights: flags.a: is missing",
        "schema: db.flights: texts[]: is missing",
    ]


def test_names_in_any_case_and_of_a_name_mapping_keep_them(tmp_path: Path) -> None:
    settings = {"rows": {"case_sensitive": False}}
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], settings)
    mapping = json.dumps([{"field-id": 2, "names": ["flags", "marks"]}])
    properties = {"schema.name-mapping.default": mapping}
    world.catalog.create_table("db.flights", NewTable(SCHEMA, (), properties))
    world.write({"id": 1, "FLAGS": {"a": None}}, {"id": 2, "marks": {"b": None, "c": "x"}})
    rows = sorted(world.rows(), key=lambda row: int(row["id"]))
    assert [dict(row["flags"]) for row in rows] == [{"a": None}, {"b": None, "c": "x"}]


def test_maps_that_differ_in_a_null_entry_are_two_values_for_one_column(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": "db.flights"}], {"rows": {"case_sensitive": False}})
    world.catalog.create_table("db.flights", NewTable(SCHEMA))
    world.write(
        {"id": 1, "flags": {"a": None}, "FLAGS": {}},
        {"id": 2, "flags": {"a": None}, "FLAGS": {"a": None}},
    )
    assert [dict(row["flags"]) for row in world.rows()] == [{"a": None}]
    assert len(world.reasons()) == 1
    assert "have different values for this column" in world.reasons()[0]
