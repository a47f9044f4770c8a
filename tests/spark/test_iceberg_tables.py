"""Tables as Spark's Iceberg reads, maintains and changes them, beside our commits."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from secor.core.errors import Unavailable
from secor.spark.procedures import call
from secor.tables import erasing
from secor.tables.catalog import NewTable
from secor.tables.commit.commit_result import Result
from secor.tables.maintenance import STEPS, Maintenance
from secor.tables.spark_catalog import spark_catalog
from secor.verify.tables import COLUMNS
from tests.unit.adapters.test_iceberg_catalog import EVERY_TYPE
from tests.unit.tables.committing_world import EVENTS, CommittingWorld
from tests.unit.tables.test_worker import EVERYTHING
from tests.unit.tables.worker_world import WorkerWorld

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of PySpark's sockets
]

METADATA = {"rows": {"metadata_columns": list(COLUMNS)}}
OF_SPARK = tuple(name for name in EVERY_TYPE.names if name != "clock")
"""Spark has no type for a time of day."""

TERMS = ("bucket(4, id)", "truncate(2, text)", "yes", "void(big)", "hour(local)", "day(ts)")
INSERT = (
    "INSERT INTO {table} (id, at, _topic, _kafka_partition, _offset) VALUES ({id}, 'x', {nulls})"
)
NULLS = "NULL, NULL, NULL"
DELETE = "DELETE FROM {table} WHERE id = {id}"
CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "id = 7": lambda row: row["id"] == 7,
    "text = 'täxt'": lambda row: row["text"] == "täxt",
    "yes IS NULL": lambda row: row["yes"] is None,
    "day < DATE '1970-01-01'": lambda row: row["day"] is not None and row["day"].year < 1970,
    "ts >= TIMESTAMP '2026-01-02 00:00:00'": lambda row: (
        row["ts"] is not None and row["ts"] >= datetime(2026, 1, 2, tzinfo=UTC)
    ),
    "local < TIMESTAMP_NTZ '2026-01-02 00:00:00'": lambda row: (
        row["local"] is not None and row["local"].isoformat() < "2026-01-02"
    ),
    "money > 0": lambda row: row["money"] is not None and row["money"] > 0,
}


def connect(spark: SparkSession, world: WorkerWorld) -> SparkSession:
    """Return a session of its own that sees the catalog of a world, as ``secor``."""
    session = spark.newSession()
    for key, value in spark_catalog("secor", world.catalog.library.properties).settings.items():
        if key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    return session


def messages_of_every_type() -> list[dict[str, Any]]:
    """Return rows in many partitions, with nulls and times before 1970."""
    rng = random.Random(5)
    rows: list[dict[str, Any]] = [{"id": 1}, {**EVERYTHING, "id": 2}]
    for number in range(3, 15):
        moment = datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(hours=rng.randrange(-500_000, 60))
        changed = {
            "id": number,
            "big": -number,
            "yes": rng.choice([True, False, None]),
            "day": moment.date().isoformat(),
            "local": moment.replace(tzinfo=None).isoformat(),
            "ts": moment.isoformat(),
            "text": rng.choice(["täxt", "other", "t", ""]),
            "money": float(rng.randrange(-5, 5)),
            "uuid": str(uuid.UUID(int=number)),
        }
        rows.append({**EVERYTHING, **changed})
    return rows


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in one form for all readers; a UUID as text, a null map as none."""
    shown = {
        key: str(value) if isinstance(value, uuid.UUID) else value for key, value in row.items()
    }
    return {**shown, "by_name": shown["by_name"] or None}


def by_id(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [plain(row) for row in sorted(rows, key=lambda row: row["id"])]


def read_by_duckdb(world: WorkerWorld) -> list[dict[str, Any]]:
    """Read the present data files; DuckDB's extension for Iceberg is not at hand here."""
    present = world.catalog.library.load_table(EVENTS).scan().plan_files()
    paths = [task.file.file_path for task in present]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
        rows: list[dict[str, Any]] = (
            connection.sql(query, params=[paths]).to_arrow_table().to_pylist()
        )
        return rows


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_spark_the_library_and_duckdb_read_the_same_rows(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    world = WorkerWorld(tmp_path, [{"table": EVENTS}])
    schema = pa.schema([EVERY_TYPE.field(name) for name in OF_SPARK])
    terms = (*TERMS, "year(day)" if file_format == "orc" else "month(day)")
    properties = {"write.format.default": file_format}
    world.catalog.create_table(EVENTS, NewTable(schema, terms, properties))
    messages = messages_of_every_type()
    world.write(*messages)
    assert world.reasons() == []
    table = connect(spark, world).table(f"secor.{EVENTS}")
    rows = by_id(table.toArrow().to_pylist())
    assert [row["id"] for row in rows] == list(range(1, 15))
    second = rows[1]
    assert (second["uuid"], second["fixed"]) == (EVERYTHING["uuid"], b"abc")
    assert (second["half"], second["big"]) == (1.5, 1 << 40)
    for condition, holds in CONDITIONS.items():
        found = sorted(row.id for row in table.filter(condition).select("id").collect())
        assert found == [row["id"] for row in rows if holds(row)], condition
    if file_format == "parquet":
        assert by_id(world.rows(EVENTS)) == rows
        assert by_id(read_by_duckdb(world)) == rows
    if file_format == "orc":
        readable = [name for name in OF_SPARK if name not in ("uuid", "fixed")]
        read_by_library = by_id(world.rows(EVENTS, selected_fields=tuple(readable)))
        assert read_by_library == [{name: row[name] for name in readable} for row in rows]


def test_maintenance_and_other_writers_between_our_commits_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    route = {
        "table": EVENTS,
        "auto_create": True,
        "partition_by": ["bucket(2, id)"],
        "properties": {
            "write.delete.mode": "merge-on-read",
            "commit.manifest-merge.enabled": "false",
        },
    }
    world = WorkerWorld(tmp_path, [route], METADATA)
    tables = CommittingWorld(world)
    for _ in range(4):
        tables.write()
    session = connect(spark, world)
    table = f"secor.{EVENTS}"
    tables.stage()
    session.sql(INSERT.format(table=table, id=-1, nulls=NULLS))
    session.sql(INSERT.format(table=table, id=-2, nulls=NULLS))
    assert tables.commit() is Result.COMMITTED
    session.sql(DELETE.format(table=table, id=-1))
    tables.assert_exact()
    everything = Maintenance(tuple(STEPS), datetime.now(UTC) + dt.timedelta(days=1), 2)
    done = {}
    for step, statement in everything.statements("secor", EVENTS).items():
        waiting = tables.stage()  # put before Spark's step, committed after it
        done[step] = call(session, statement)
        assert all(Path(path.removeprefix("file://")).exists() for path in waiting)
        assert tables.commit() is Result.COMMITTED
        tables.assert_exact()
    assert done["rewrite_data_files"]["rewritten_data_files_count"] >= 5
    assert done["rewrite_manifests"]["rewritten_manifests_count"] >= 1
    assert done["expire_snapshots"]["deleted_data_files_count"] >= 5
    assert len(world.catalog.load_table(EVENTS).snapshots) <= 4
    assert tables.commit() is Result.NOTHING
    read = session.table(table).select("id").collect()
    assert sorted(row.id for row in read) == [-2, *range(world.offset)]
    # Two more, one of them staged under a spec that somebody has changed meanwhile.
    before = tables.stage()
    session.sql(f"ALTER TABLE {table} ADD PARTITION FIELD truncate(2, at)")
    session.sql(f"ALTER TABLE {table} ADD COLUMN note string")
    assert tables.commit() is Result.COMMITTED
    assert before
    world.plans = world.new_plans()
    tables.write()
    tables.assert_exact()
    assert session.table(table).filter("_offset IS NOT NULL").count() == world.offset


@pytest.mark.parametrize("by_view", [False, True])
def test_rows_are_erased_by_values_of_every_type_and_all_others_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_view: bool
) -> None:
    if by_view:
        monkeypatch.setattr(erasing, "LITERALS", 0)
    world = WorkerWorld(tmp_path, [{"table": EVENTS}])
    schema = pa.schema([EVERY_TYPE.field(name) for name in OF_SPARK])
    world.catalog.create_table(EVENTS, NewTable(schema, ("bucket(4, id)",)))
    world.write(*messages_of_every_type())
    assert world.reasons() == []
    session = connect(spark, world)
    left = by_id(read_by_duckdb(world))
    assert len(left) == 14
    # One that is there each time, as text of its type, and one that is not.
    for column, chosen in (("money", 12), ("ts", 11), ("day", 9), ("text", 7), ("id", 1)):
        table = world.catalog.load_table(EVENTS)
        type_ = erasing.column_type(table, column)
        assert type_ is not None
        value = next(row[column] for row in left if row["id"] >= chosen and row[column] is not None)
        values = [erasing.parsed(str(value).encode(), type_, "a line")]
        deletion = erasing.Deletion(column, type_, values)
        if by_view:
            rows = session.createDataFrame(deletion.view_rows(), "value string")
            rows.createOrReplaceTempView(erasing.VIEW)
        gone = [row for row in left if row[column] == value]
        assert call(session, deletion.count("secor", EVENTS)) == {"messages": len(gone)}
        call(session, deletion.delete("secor", EVENTS))
        left = [row for row in left if row not in gone]
        assert by_id(read_by_duckdb(world)) == left
        after = world.catalog.load_table(EVENTS)
        assert len(after.snapshots) == len(table.snapshots) + 1
        held = {one.snapshot_id for one in erasing.holders(table, after).snapshots}
        assert held == set(table.snapshots)
    deletion = erasing.Deletion("inner.b", pa.string(), [], null=True)
    call(session, deletion.delete("secor", EVENTS))
    assert by_id(read_by_duckdb(world)) == [row for row in left if (row["inner"] or {}).get("b")]


def test_a_branch_is_compacted_and_main_is_left_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = WorkerWorld(tmp_path, [{"table": EVENTS, "auto_create": True}], METADATA)
    tables = CommittingWorld(world, branch="audit")
    for _ in range(5):
        tables.write()
    session = connect(spark, world)
    everything = Maintenance(tuple(STEPS), datetime.now(UTC), 20, "audit")
    statements = everything.statements("secor", EVENTS)
    tables.stage()
    done = call(session, statements["rewrite_data_files"])
    assert done["rewritten_data_files_count"] >= 5
    assert tables.commit() is Result.COMMITTED
    tables.assert_exact()
    assert session.table(f"secor.{EVENTS}").count() == 0
    assert set(statements) == {"rewrite_data_files", "expire_snapshots"}


def test_a_step_that_spark_refuses_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    world = WorkerWorld(tmp_path, [{"table": EVENTS}])
    session = connect(spark, world)
    wanted = Maintenance(("rewrite_manifests",), datetime.now(UTC), 1)
    (statement,) = wanted.statements("secor", "db.nowhere").values()
    with pytest.raises(Unavailable, match=r"nowhere") as met:
        call(session, statement)
    assert "\n" not in str(met.value)
