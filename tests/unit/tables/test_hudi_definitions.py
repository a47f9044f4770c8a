"""Columns of Hudi tables, kept in the store: made once, changed by one at a time, fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.adapters.iceberg.catalog import IcebergTables
from secor.core.errors import AlreadyExists, NotFound, Refused
from secor.tables.catalog import AddColumn, NewTable
from tests.fakes.store import FakeStore
from tests.unit.tables.hudi_world import COLUMNS, LOCATION, TABLE, definitions
from tests.unit.tables.test_worker_changes import staged
from tests.unit.tables.worker_world import Keyed, WorkerWorld

NEW = NewTable(COLUMNS, (), key=("id",))


def test_a_table_is_defined_once_and_seen_by_all() -> None:
    store = FakeStore()
    tables = IcebergTables(definitions(store))
    with pytest.raises(NotFound):
        tables.load_table(TABLE)
    made = tables.create_table(TABLE, NEW)
    assert made.location == LOCATION
    assert made.key == ("id",)
    with pytest.raises(AlreadyExists):
        IcebergTables(definitions(store)).create_table(TABLE, NEW)
    another = IcebergTables(definitions(store))
    assert another.load_table(TABLE).uuid == made.uuid
    assert another.list_tables("shop") == [TABLE]
    assert another.list_tables("shops") == []


def test_of_two_that_change_its_columns_one_is_refused() -> None:
    store = FakeStore()
    first, second = IcebergTables(definitions(store)), IcebergTables(definitions(store))
    first.create_table(TABLE, NEW)
    before = second.load_table(TABLE)
    grown = first.update_schema(first.load_table(TABLE), [AddColumn(("new",), pa.int32())])
    assert grown.schema.names == ["id", "text", "new"]
    with pytest.raises(Refused):
        second.update_schema(before, [AddColumn(("other",), pa.int32())])
    assert second.load_table(TABLE).schema_id == grown.schema_id
    assert set(second.load_table(TABLE).schemas) == {before.schema_id, grown.schema_id}


def world_of(directory: Path, **table: Any) -> WorkerWorld:
    route = {"table": "db.flights", "format": "hudi", "auto_create": True, "evolve": True, **table}
    more = {
        "catalog": {},
        "commit": {"coordinator": "alone"},
        "hudi": {"warehouse": f"file://{directory}/hudi"},
    }
    world = WorkerWorld(directory, [route], more)
    world.catalog = IcebergTables(definitions(world.own))  # type: ignore[assignment]
    world.plans = world.new_plans()
    return world


def test_inserted_rows_are_staged_with_their_place_in_kafka(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    rows = staged(world, world.stage({"id": 1}, {"id": 1, "new": 2}, Keyed(b"1", None)))
    assert [row["row"]["_offset"] for row in rows] == [0, 1]
    assert {row["operation"] for row in rows} == {0}
    assert len(world.reasons()) == 1  # a message without a value is no row


def test_changed_rows_are_staged_as_for_iceberg(tmp_path: Path) -> None:
    world = world_of(tmp_path, mode="upsert", key=["id"])
    rows = staged(world, world.stage({"id": 1, "text": "a"}, Keyed(b"1", None)))
    assert [(row["operation"], row["row"]["id"]) for row in rows] == [(0, 1), (1, 1)]
    assert "_offset" not in rows[0]["row"]
