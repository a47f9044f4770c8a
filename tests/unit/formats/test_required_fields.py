"""Fields that are declared never to be null, as readers find them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from secor.formats import make_format
from secor.schema.schema import RowSchema
from tests.unit.formats.typed_rows import decoded

INNER: list[dict[str, Any]] = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "at", "type": "timestamp(s)", "nullable": False},
    {"name": "tags", "type": {"list": "string"}, "nullable": False},
    {"name": "on", "type": "bool", "nullable": False},
    {"name": "deep", "type": {"struct": [{"name": "x", "type": "json", "nullable": False}]}},
    {"name": "price", "type": "decimal(9, 2)", "nullable": False},
]
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "string", "nullable": False},
    {"name": "level", "type": "int32", "nullable": False, "default": 7},
    {"name": "user", "type": {"struct": INNER}},
    {"name": "users", "type": {"list": {"struct": INNER}}},
    {"name": "by_name", "type": {"map": {"struct": INNER}}},
]
SCHEMA = RowSchema.parse(json.dumps({"fields": FIELDS}), "declared")
USER = {
    "id": 5,
    "at": "2026-11-21T04:05:06",
    "tags": ["a"],
    "on": True,
    "deep": {"x": [1, "y"]},
    "price": "1.25",
}
ROWS: list[dict[str, Any]] = [
    {"id": "a"},
    {"id": "b", "level": 1, "user": USER, "users": [USER, None], "by_name": {"z": USER}},
    {"id": "c", "users": []},
]


def written(name: str) -> io.BytesIO:
    sink = io.BytesIO()
    writer = make_format(name, schema=SCHEMA).create(sink, b"seed")
    writer.append(decoded([json.dumps(row).encode() for row in ROWS]))
    writer.close()
    sink.seek(0)
    return sink


def test_parquet_has_them_as_required_at_every_level() -> None:
    schema = pq.read_schema(written("typed-parquet"))
    assert [field.nullable for field in schema] == [False, False, True, True, True]
    required = [field.name for field in schema.field("user").type if not field.nullable]
    assert required == ["id", "at", "tags", "on", "price"]
    table = pq.read_table(written("typed-parquet"))
    assert table.column("user").to_pylist()[0::2] == [None, None]
    assert table.column("users").to_pylist()[1][1] is None
    assert table.column("level").to_pylist() == [7, 1, 7]


def test_avro_has_them_without_null() -> None:
    file = fastavro.reader(written("avro"))
    schema: Any = file.writer_schema
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    assert (kinds["id"], kinds["level"]) == ("string", "int")
    inner = {field["name"]: field["type"] for field in kinds["user"][1]["fields"]}
    assert inner["id"] == "long"
    assert inner["deep"][0] == "null"
    rows: list[Any] = list(file)
    assert [row["level"] for row in rows] == [7, 1, 7]


def test_what_is_required_changes_the_bytes_and_the_identity() -> None:
    optional = json.dumps({"fields": [{**field, "nullable": True} for field in FIELDS[:2]]})
    other = RowSchema.parse(optional, "declared")
    assert other.identity.startswith("declared-3:")
    assert RowSchema.parse(json.dumps({"fields": FIELDS[:2]}), "declared").identity.startswith(
        "declared-4:"
    )


@pytest.mark.parametrize("name", ["typed-parquet", "orc", "avro", "jsonlines"])
def test_every_format_reads_back_what_was_written(name: str) -> None:
    batches = make_format(name, schema=SCHEMA).read(written(name), "file")
    rows = [json.loads(value) for batch in batches for value in batch.column("value").to_pylist()]
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert rows[1]["user"]["id"] == rows[1]["by_name"]["z"]["id"] == 5
    assert "user" not in rows[0]
