"""Numbers that are times: the unit is that of the route, never a guess."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from secor.config.load import validate
from secor.tables.catalog import NewTable
from secor.tables.rows.units import with_unit
from tests.unit.tables.test_worker_changes import operations, world_of
from tests.unit.tables.worker_world import Keyed, WorkerWorld

MADE = {"table": "db.flights", "auto_create": True, "evolve": True}
WHEN = dt.datetime(2025, 11, 21, 3, 4, 5, 123000, dt.UTC)
NAIVE = WHEN.replace(tzinfo=None)
MILLISECONDS = 1_763_694_245_123


def in_duckdb(world: WorkerWorld, columns: str = "*") -> list[tuple[Any, ...]]:
    """Return the rows of all data files as DuckDB reads them."""
    files = [str(path) for path in world.directory.rglob("data/**/*.parquet")]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    query = f"SELECT {columns} FROM read_parquet(?, union_by_name = true) ORDER BY id"  # noqa: S608
    return connection.execute(query, [files]).fetchall()


@pytest.mark.parametrize(
    ("unit", "number"),
    [
        ("seconds", 1_763_694_245.123),
        ("milliseconds", MILLISECONDS),
        ("microseconds", MILLISECONDS * 1000),
        ("nanoseconds", MILLISECONDS * 1_000_000 + 999),
        ("milliseconds", str(MILLISECONDS)),
    ],
)
def test_a_new_column_with_a_unit_has_times(tmp_path: Path, unit: str, number: object) -> None:
    world = WorkerWorld(tmp_path, [{**MADE, "units": {"meta.created": unit}}])
    world.write({"id": 1, "meta": {"created": number}}, {"id": 2, "meta": {"created": None}})
    assert world.reasons() == []
    kind = world.catalog.load_table("db.flights").schema.field("meta").type
    assert kind.field("created").type == pa.timestamp("us", "UTC")
    assert in_duckdb(world, "id, meta.created::TIMESTAMP") == [(1, NAIVE), (2, None)]
    assert world.rows()[0]["meta"]["created"] == WHEN


def test_a_column_that_a_growing_table_gets_later_has_times_too(tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{**MADE, "units": {"created": "milliseconds"}}])
    world.write({"id": 1})
    world.write({"id": 2, "created": MILLISECONDS})
    assert in_duckdb(world, "id, created::TIMESTAMP") == [(1, None), (2, NAIVE)]


COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("t", pa.time64("us")),
        pa.field("day", pa.date32()),
        pa.field("n", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("list", pa.list_(pa.timestamp("us", "UTC"))),
    ]
)


def existing(tmp_path: Path, units: dict[str, str]) -> WorkerWorld:
    world = WorkerWorld(tmp_path, [{"table": "db.flights", "units": units}])
    world.catalog.create_table("db.flights", NewTable(COLUMNS))
    return world


def test_every_column_of_times_may_have_one_unit(tmp_path: Path) -> None:
    world = existing(tmp_path, {"*": "milliseconds", "day": "milliseconds", "n": "seconds"})
    number = dict.fromkeys(("ts", "local", "day", "n", "s"), MILLISECONDS)
    world.write({"id": 1, **number, "t": 43_200_000, "list": [MILLISECONDS]})
    assert world.reasons() == []
    columns = "ts::TIMESTAMP, local, t, day, n, s, list::TIMESTAMP[]"
    noon, text = dt.time(12), str(MILLISECONDS)
    row = (NAIVE, NAIVE, noon, WHEN.date(), MILLISECONDS, text, [NAIVE])
    assert in_duckdb(world, columns) == [row]


def test_texts_of_times_are_beside_numbers(tmp_path: Path) -> None:
    """The input of a sink's user: numbers and text in one chunk, which has one type for both."""
    world = existing(tmp_path, {"*": "milliseconds"})
    texts = {"ts": "2025-11-21T03:04:05.123Z", "local": "2025-11-21T03:04:05.123", "t": "12:00:00"}
    numbers = {"ts": MILLISECONDS, "local": MILLISECONDS, "t": 43_200_000}
    world.write({"id": 1, **numbers}, {"id": 2, **texts}, {"id": 3, "ts": {"no": "time"}})
    [reason] = world.reasons()
    assert "is no timestamp" in reason
    assert in_duckdb(world, "ts::TIMESTAMP, local, t") == [(NAIVE, NAIVE, dt.time(12))] * 2


@pytest.mark.parametrize(
    ("column", "number", "why"),
    [
        ("ts", MILLISECONDS * 1000, "milliseconds is no time of the years 1 to 9999"),
        ("ts", 1e300, "milliseconds is no time of the years 1 to 9999"),
        ("ts", -(2**63), "milliseconds is no time of the years 1 to 9999"),
        ("t", 86_400_000, "t: 86400000 milliseconds is no time of a day"),
        ("t", -1, "t: -1 milliseconds is no time of a day"),
    ],
)
def test_numbers_that_are_no_times_are_in_quarantine(
    tmp_path: Path, column: str, number: float, why: str
) -> None:
    world = existing(tmp_path, {"*": "milliseconds"})
    world.write({"id": 1, "ts": 0}, {"id": 2, column: number})
    [reason] = world.reasons()
    assert why in reason
    assert in_duckdb(world, "id") == [(1,)]


def test_a_number_is_the_same_time_whatever_its_neighbours_are(tmp_path: Path) -> None:
    number = 1_763_694_245_123
    neighbours: list[object] = [0.5, "2025-11-21T03:04:05.123Z", 2**70, None]
    for at, neighbour in enumerate(neighbours):
        world = existing(tmp_path / str(at), {"*": "milliseconds"})
        world.write({"id": 1, "ts": number}, {"id": 2, "ts": neighbour})
        assert in_duckdb(world, "id, ts::TIMESTAMP")[0] == (1, NAIVE), neighbour


def test_text_that_is_no_utf_8_is_no_time_and_ends_nothing() -> None:
    column = pa.array([b"\xff", b"7000"], pa.binary()).view(pa.string())
    field = pa.field("ts", pa.string())
    _, times, bad = with_unit(field, column, pa.timestamp("us", "UTC"), "milliseconds", "ts")
    assert (times.to_pylist(), bad) == (["\ufffd", "1970-01-01 00:00:07.000000Z"], {})


def test_keys_of_deletions_have_the_unit_too(tmp_path: Path) -> None:
    table = {**MADE, "mode": "upsert", "key": ["id"], "units": {"id": "milliseconds"}}
    world = world_of(tmp_path, table)
    key = json.dumps({"id": MILLISECONDS}).encode()
    manifests = world.stage({"id": MILLISECONDS}, Keyed(key, None))
    assert operations(world, manifests) == [(0, 0, WHEN), (1, 1, WHEN)]


def test_all_forms_of_iso_8601_are_times(tmp_path: Path) -> None:
    world = existing(tmp_path, {})
    texts = [
        "2026-03-31T03:17:37.260514+00:00",
        "2026-03-31T03:17:37.260514+0000",
        "2026-03-31T03:17:37.260514+00",
        "2026-03-31 03:17:37.260514Z",
        "2026-03-31T08:47:37.260514+05:30",
        "2026-03-31t03:17:37.260514z",
        "2026-03-31T03:17:37,260514Z",
        "20260331T031737.260514Z",
        "2026-03-31T03:17:37.260514000Z",
    ]
    world.write(*({"id": at, "ts": text} for at, text in enumerate(texts)))
    assert world.reasons() == []
    when = dt.datetime.fromisoformat("2026-03-31T03:17:37.260514")
    assert [row[0] for row in in_duckdb(world, "ts::TIMESTAMP")] == [when] * len(texts)
    world.write({"id": 99, "ts": "2026-03-31T03:17:37.260514123Z"})
    assert "is no timestamp" in world.reasons()[0]


@pytest.mark.parametrize(
    ("units", "why"),
    [({"ts": "hours"}, "seconds"), ({"a..b": "seconds"}, "names no field")],
)
def test_what_is_no_unit_is_a_fault(units: dict[str, str], why: str) -> None:
    tree = {
        "group": {"name": "g", "kind": "table"},
        "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["flights"]},
        "store": {"kind": "local", "local": {"directory": "d"}},
        "tables": [{"table": "db.t", "units": units}],
    }
    _, faults = validate(tree)
    assert any(why in fault for fault in faults.values()), faults
