"""Where columns come from: the steps that a table records of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from secor.cli.tables.explain import Refusals
from secor.core.model import TopicPartition
from secor.tables.catalog import Table
from secor.tables.commit.column_origins import (
    MOST_BYTES,
    SchemaStep,
    origins_of,
    properties_after,
    step_of_new_table,
    steps_of,
    type_name,
)
from secor.tables.rows.needs import ColumnNotes
from tests.unit.tables.worker_world import WorkerWorld

FLIGHTS = {"table": "db.flights", "auto_create": True, "evolve": True}


def steps(world: WorkerWorld, column: str) -> list[tuple[str, str, str, object]]:
    table = world.catalog.load_table("db.flights")
    [origin] = [it for it in origins_of(table, "g") if it.name == column]
    return [(path, *step.columns[path], step.first) for path, step in origin.steps]


def test_a_table_records_what_its_columns_were_made_from(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 1, "size": 2}, {"id": 2, "size": "x"}, {"id": 3, "size": "y"})
    world.write({"id": 4, "size": None, "deep": {"a": 1}})
    world.write({"id": 5}, {"id": 6, "deep": {"b": True}})
    partition = TopicPartition("flights", 0)
    assert steps(world, "id") == [("id", "made", "3 numbers", (partition, 0))]
    assert steps(world, "size") == [("size", "made", "2 texts and 1 numbers", (partition, 0))]
    assert steps(world, "deep") == [
        ("deep", "added", "1 objects", (partition, 3)),
        ("deep.b", "added", "1 booleans", (partition, 5)),
    ]
    recorded = world.catalog.library.load_table("db.flights").properties["secor.g.columns"]
    assert len(json.loads(recorded)) == 3


def test_a_wider_column_and_a_declared_one_say_so(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"fields": [{"name": "id", "type": "int32"}]}')
    world = WorkerWorld(tmp_path, [{**FLIGHTS, "schema_file": str(schema)}])
    world.write({"id": 1})
    world.write({"id": 1 << 40})
    made, wider = steps(world, "id")
    assert made == ("id", "made", "", None)
    assert steps_of(world.catalog.load_table("db.flights"), "g")[0].declared == str(schema)
    assert wider[1:3] == ("widened", "to long")


def test_columns_of_others_have_no_step_and_a_damaged_record_is_none(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [FLIGHTS])
    world.write({"id": 1})
    library = world.catalog.library.load_table("db.flights")
    with library.update_schema() as update:
        update.add_column("own", update._schema.find_type("id"))
    assert steps(world, "own") == []
    with world.catalog.library.load_table("db.flights").transaction() as transaction:
        transaction.set_properties({"secor.g.columns": '[{"at": "x"}]'})
    assert steps(world, "id") == []
    world.write({"id": 2, "new": 3})
    assert [it[0] for it in steps(world, "new")] == ["new"]


def test_the_record_is_bounded() -> None:
    columns = pa.schema([pa.field(f"column_{number:04}", pa.int64()) for number in range(900)])
    kinds = tuple((name, "12,345 numbers and 2 texts") for name in columns.names)
    notes = ColumnNotes(kinds=kinds, first=(TopicPartition("clicks", 0), 7))
    properties = properties_after({}, "g", step_of_new_table(1, columns, None, notes))
    assert len(properties["secor.g.columns"]) <= MOST_BYTES
    [step] = [SchemaStep.of(it) for it in json.loads(properties["secor.g.columns"])]
    assert set(step.columns) == set(columns.names)
    for number in range(3000):
        added = SchemaStep(number, {f"more_{number:04}": ("added", "1 texts")})
        properties = properties_after(properties, "g", added) if number % 300 == 0 else properties
    assert len(properties["secor.g.columns"]) <= MOST_BYTES
    assert properties_after({}, "", step) == {}


def test_a_table_of_nobody_has_no_steps() -> None:
    table = Table(
        *("db.t", "uuid", "file:///t", 2, 0, {0: pa.schema([pa.field("id", pa.int64())])}),
        *(0, {0: ()}, {}, {}, {}),
    )
    assert [(it.name, it.type, it.steps) for it in origins_of(table, "g")] == [("id", "long", ())]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.list_(pa.struct([pa.field("a", pa.int32())])), "list<struct<a: int>>"),
        (pa.map_(pa.string(), pa.decimal128(38, 18)), "map<string, decimal(38, 18)>"),
        (pa.timestamp("us", "UTC"), "timestamptz"),
        (pa.binary(4), "fixed[4]"),
        (pa.uuid(), "uuid"),
    ],
)
def test_types_have_the_names_that_iceberg_gives_them(kind: pa.DataType, name: str) -> None:
    assert type_name(kind) == name


def test_refusals_are_those_of_the_table_by_column() -> None:
    refusals = Refusals()
    reasons = {
        "schema: db.flights: id: 2826.5 is no int64": 3,
        "schema: db.flights: deep.a: 'x' is no int64": 2,
        "schema: db.other: id: 7.5 is no int64": 5,
        "decode: not JSON": 1,
    }
    refusals.add(reasons, "db.flights", ["id", "deep"])
    assert {name: it.total() for name, it in refusals.by_column.items()} == {
        "id": 3,
        "deep": 2,
        "": 1,
    }
    assert (refusals.messages, refusals.other_tables) == (11, 5)
