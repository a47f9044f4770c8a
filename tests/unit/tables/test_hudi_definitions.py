"""Columns of Hudi tables, kept in the store: made once, changed by one at a time, fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.adapters.iceberg.catalog import IcebergTables
from secor.core.errors import AlreadyExists, ConfigurationError, NotFound, Refused
from secor.tables.catalog import AddColumn, NewTable
from secor.tables.commit.commit_result import Result
from secor.tables.hudi import BUCKETS, INSERT_KEY, HudiSettings, settings_of_table
from tests.fakes.store import FakeStore
from tests.unit.tables.hudi_world import COLUMNS, LOCATION, TABLE, HudiWorld, definitions
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


def test_a_new_table_keeps_the_number_of_buckets_it_was_made_with() -> None:
    """Hudi notes it nowhere, and with another one it would find no row that is there."""
    world = HudiWorld()
    upserts = HudiSettings()
    made = world.catalog().load_table(TABLE)
    assert settings_of_table(made, upserts).properties == {BUCKETS: "8"}
    with pytest.raises(ConfigurationError, match=r"say hoodie\.bucket\S+ = 9.*made with 8: rows"):
        settings_of_table(made, HudiSettings(properties={BUCKETS: "9"}))
    consistent = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING", BUCKETS: "9"}
    for settings in (HudiSettings(mode="insert"), HudiSettings(properties=consistent)):
        assert settings_of_table(made, settings) == settings

    chosen = NewTable(COLUMNS, (), {BUCKETS: "2"}, key=("id",))
    chosen_table = world.catalog().create_table("shop.chosen", chosen)
    assert settings_of_table(chosen_table, upserts).properties == {BUCKETS: "2"}


def test_buckets_of_tables_that_others_made_and_of_inserted_rows_are_not_chosen() -> None:
    world = HudiWorld()
    world.stage()
    assert world.commit().result is Result.COMMITTED
    there = NewTable(COLUMNS, (), key=("id",), location=LOCATION)
    assert BUCKETS not in world.catalog().create_table("a.there", there).properties
    place = [pa.field(name, pa.int64(), nullable=False) for name in INSERT_KEY]
    columns = pa.schema([*COLUMNS, *place])
    log = NewTable(columns, (), key=INSERT_KEY)
    assert BUCKETS not in world.catalog().create_table("a.log", log).properties


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
