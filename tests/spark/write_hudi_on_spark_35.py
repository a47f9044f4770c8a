"""Run by a test, with Spark 3.5 first on the path: the life of Hudi tables, as readers see it."""

from __future__ import annotations

import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from secor.adapters.hudi.catalog import HudiCatalog
from secor.adapters.hudi.timeline import TimelineReader
from secor.adapters.local import DirectoryStore
from secor.core.errors import Refused, Unavailable
from secor.core.model import TopicPartition
from secor.core.small_objects import put_bytes
from secor.java.bundles import SPARK_HUDI
from secor.java.jars import jar_folder
from secor.sandbox.sandbox import quiet
from secor.spark.hudi_engine import SparkHudiEngine, hudi_session, read_table
from secor.spark.session import put_next_to_parquet
from secor.spark.staged_frame import MOST_ROW_BYTES
from secor.tables.catalog import TableCommit
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, Result, TableResult
from secor.tables.commit.group_record import SUMMARY_COMMIT
from secor.tables.commit.selection import EVERY_OPERATION
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.hudi import MOVED, Guard
from secor.tables.staging.manifest import Manifest
from secor.tables.staging.staged_manifests import Staging
from secor.wiring.hudi import hudi_settings_of, open_hudi_tables
from secor.wiring.hudi_tasks import guard_of_tables, stores_of_tasks
from tests.spark.hudi_accidents import UnluckyEngine, happen
from tests.spark.ways_of_changes import check_that_many_are_in_no_plan, compare_ways
from tests.unit.tables.worker_world import Keyed, WorkerWorld

FEW = {"hoodie.bucket.index.num.buckets": "1", "hoodie.bulkinsert.shuffle.parallelism": "1"}
LEFT_OUT = "left out"
LIST_STRUCTURE = "parquet.avro.write-old-list-structure"
TABLES: list[dict[str, Any]] = [
    {
        "table": "db.newest",
        "mode": "upsert",
        "key": ["id"],
        "properties": FEW,
        "unavailable_value": LEFT_OUT,
    },
    {
        "table": "db.latest",
        "mode": "upsert",
        "key": ["id"],
        "type": "merge-on-read",
        "precombine": "at",
        "unavailable_value": LEFT_OUT,
        "properties": {**FEW, "hoodie.compact.inline.max.delta.commits": "2"},
    },
    {"table": "db.log", "partition_by": ["truncate(1, text)"]},
]
LOG_COLUMNS = [
    *({"name": name, "type": "int64"} for name in ("id", "at")),
    {"name": "text", "type": "string"},
    {"name": "flags", "type": {"map": "string"}},
]
NEWEST_COLUMNS = [
    *({"name": name, "type": "int64"} for name in ("id", "at")),
    {"name": "stops", "type": {"list": "timestamp(us)"}},
]
"""Hudi's writer leaves out of the file that the times in ``stops`` are without a zone."""

STOPS = ["2026-03-01T10:00:00.000005", "1969-12-31T23:59:59"]

OF_ALL = {"topics": "flights", "format": "hudi", "auto_create": True, "evolve": True}


class World(WorkerWorld):
    """Staged by the worker, committed by Spark, read by Spark."""

    def begin(self, spark: SparkSession) -> None:
        self.spark = spark
        self.own = DirectoryStore(self.directory)  # type: ignore[assignment]
        self.store = stores_of_tasks(self.config)()
        self.catalog = open_hudi_tables(self.config)
        self.plans = self.new_plans()
        self.guard = guard_of_tables(self.config)
        self.engine = self.new_engine()

    def new_engine(self, guard: Guard | None = None) -> UnluckyEngine:
        """Return the engine of one committer."""
        return UnluckyEngine(
            lambda: self.spark,
            stores_of_tasks(self.config),
            partial(hudi_settings_of, self.config),
            guard or self.guard,
            log_place="nowhere",
        )

    def hudi(self, engine: SparkHudiEngine | None = None) -> HudiCatalog:
        """Return the tables as another process sees them."""
        return open_hudi_tables(self.config, engine or self.engine)

    def committer(self, engine: SparkHudiEngine | None = None) -> TableCommitter:
        """Return what commits."""
        return TableCommitter(
            self.hudi(engine),
            CommitHistory(self.own, "table"),
            self.clock,
            random.Random(1),
            group="g",
            operations=EVERY_OPERATION,
        )

    def commit_cycle(self, *names: str, engine: SparkHudiEngine | None = None) -> list[TableResult]:
        """Commit what is staged, as a coordinator does: tables side by side."""
        committer = self.committer(engine)
        staged = Staging(self.own, "table", "g").read({TopicPartition("flights", 0): self.offset})
        request = CommitRequest(f"cycle-{self.offset}-{random.random()}", 1)
        with ThreadPoolExecutor(len(names)) as threads:
            return list(threads.map(lambda name: committer.commit(name, staged, request), names))

    def read(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return columns of all rows."""
        rows = read_table(self.spark, self.hudi().load_table(name)).select(*columns).collect()
        return sorted((tuple(row) for row in rows), key=lambda row: row[0])


def live(world: World) -> None:
    """Take the tables through their lives; every step asserts what readers see."""
    names = [table["table"] for table in TABLES]
    world.stage(
        {"id": 1, "at": 10, "text": "one", "flags": {"a": None, "b": "x"}},
        {"id": 2, "at": 20, "text": "two", "flags": {"c": None}},
        {"id": 3, "at": 30, "text": "three"},
        {"id": 5, "at": 1, "tags": ["of", "two", "levels"], "stops": STOPS},
    )
    hadoop = world.spark.sparkContext._jsc.hadoopConfiguration()
    now_written = hadoop.get(LIST_STRUCTURE)
    hadoop.set(LIST_STRUCTURE, "true")  # as releases before 1.0 have written
    done(world.commit_cycle(*names))
    hadoop.set(LIST_STRUCTURE, now_written)
    assert world.read("db.newest", "id", "text") == [
        *((1, "one"), (2, "two"), (3, "three")),
        (5, None),
    ]
    flags = [{"a": None, "b": "x"}, {"c": None}, None, None]
    assert world.read("db.log", "_offset", "flags") == list(enumerate(flags))

    # A thousand changes of one key, deletions, one of a key that is not there, and a new column.
    updates = [{"id": 2, "at": 21 + number, "text": str(number)} for number in range(1000)]
    world.stage(
        *(Keyed(b"1", None), Keyed(b"99", None), *updates),
        *({"id": 2, "at": 5, "text": "late"}, {"id": 3, "at": 31, "text": "more", "new": 7}),
        {"id": 6, "at": 1, "tags": ["x", None, "y"], "stops": STOPS[1:]},
    )
    done(world.commit_cycle(*names))
    for name in ("db.newest", "db.latest"):
        tags = [(5, ["of", "two", "levels"]), (6, ["x", None, "y"])]
        assert world.read(name, "id", "tags")[2:] == tags
    # The file of the first commit was read by Hudi's own reader, and written again.
    stops = [datetime.fromisoformat(stop) for stop in STOPS]
    assert world.read("db.newest", "id", "stops")[2:] == [(5, stops), (6, stops[1:])]
    assert world.read("db.newest", "id", "text", "new")[:2] == [(2, "late", None), (3, "more", 7)]
    assert world.read("db.latest", "id", "text", "new")[:2] == [(2, "999", None), (3, "more", 7)]
    assert len(world.read("db.log", "_offset")) == 4 + 1003
    assert {result.result for result in world.commit_cycle(*names)} == {Result.NOTHING}

    # Another one has begun to write, and never came to its end: its instant is rolled back.
    location = world.hudi().load_table("db.newest").location
    now = f"{datetime.now(UTC):%Y%m%d%H%M%S}000"
    abandoned = f"{location}/.hoodie/timeline/{now}.commit.requested"
    put_bytes(world.store, abandoned, b"")
    world.stage(
        *({"id": 3, "at": 1, "text": "old"}, {"id": 4, "at": 1, "text": "four"}),
        *(Keyed(b"5", None), Keyed(b"6", None)),
    )
    done(world.commit_cycle(*names))
    assert world.read("db.newest", "id", "text") == [(2, "late"), (3, "old"), (4, "four")]
    assert world.read("db.latest", "id", "text") == [(2, "999"), (3, "more"), (4, "four")]
    timeline = TimelineReader(world.store).read(location)
    assert timeline is not None
    assert not timeline.writing

    # Columns that updates leave out: known by the cycle, by the table, or by nobody.
    world.stage(
        {"id": 3, "at": 90, "text": LEFT_OUT, "new": 8},
        {"id": 0, "at": 1, "text": LEFT_OUT},
        {"id": 4, "at": 70, "text": "known"},
        {"id": 4, "at": 71, "text": LEFT_OUT, "new": 1},
    )
    results = world.commit_cycle("db.newest", "db.latest")
    done(results)
    assert [result.unknown_values for result in results] == [1, 1]
    for name, two, three in (("db.newest", "late", "old"), ("db.latest", "999", "more")):
        expected = [(0, None, None), (2, two, None), (3, three, 8), (4, "known", 1)]
        assert world.read(name, "id", "text", "new") == expected

    # One that slept since before that commit is refused, and writes nothing of what it brings.
    stale = world.hudi()
    tables = [stale.load_table(name) for name in ("db.newest", "db.log")]
    [manifest] = world.stage({"id": 4, "at": 2, "text": "newer"})
    world.engine.staged.most_row_bytes = 0  # they go through a file, as if they were many
    done(world.commit_cycle("db.newest", "db.log"))
    assert world.read("db.newest", "id", "text")[-1] == (4, "newer")
    for table in tables:
        refuse_stale(world, stale, table, manifest)
    world.engine.staged.most_row_bytes = MOST_ROW_BYTES


def share_workers(world: World) -> None:
    """Commit one after the other: the task that looks at the timeline finds a Python worker."""
    pids = world.directory / "pids"

    def noting_guard(*arguments: Any) -> None:
        with pids.open("a") as file:
            file.write(f"{os.getpid()}\n")
        guard(*arguments)

    guard, engine = world.guard, world.new_engine(noting_guard)
    commits = len(TABLES) + 1  # so many tables were committed side by side, each with a worker
    for number in range(commits):
        world.stage({"id": 100 + number, "at": 1, "text": "one more"})
        done(world.commit_cycle("db.log", engine=engine))
    asked = pids.read_text().split()
    assert len(asked) >= commits
    assert len(set(asked)) < commits, f"each task started a Python worker of its own: {asked}"


def refuse_stale(world: World, stale: HudiCatalog, table: Any, manifest: Manifest) -> None:
    """Write again from a look at the table that is too old."""
    summary = {SUMMARY_COMMIT: "stale", "secor.group": "g"}
    files = tuple(it for it in manifest.tables if it.table == table.identifier)
    directory = Path(table.location.removeprefix("file://"))
    before = set(directory.rglob("*.parquet"))
    result = stale.commit(table, TableCommit(None, files, {}, summary))
    assert "moved" in result.why, result
    assert set(directory.rglob("*.parquet")) == before
    with pytest.raises(Refused, match=MOVED):
        world.guard(table.location, "g", "nobody's", frozenset())


def done(results: list[TableResult]) -> None:
    """All were committed."""
    for result in results:
        assert result.result is Result.COMMITTED, result


def main(directory: str, java_options: str) -> None:
    jars = jar_folder(SPARK_HUDI, quiet).glob("*.jar")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "768m")
    settings = {
        "spark.jars": ",".join(sorted(map(str, jars))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"{java_options} -XX:TieredStopAtLevel=1",
    }
    put_next_to_parquet(settings)
    for key, value in hudi_session(settings).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    staged = Path(directory, "staged")
    staged.mkdir()
    compare_ways(spark, staged)
    check_that_many_are_in_no_plan(spark, staged)
    tables = [{**OF_ALL, **table} for table in TABLES]
    for table, columns in ((tables[0], NEWEST_COLUMNS), (tables[-1], LOG_COLUMNS)):
        schema = Path(directory, f"{table['table']}.json")
        schema.write_text(json.dumps({"fields": columns}))
        table["schema_file"] = str(schema)
    world = World(
        Path(directory),
        tables,
        {
            "catalog": {},
            "commit": {"coordinator": "alone"},
            "hudi": {"warehouse": f"file://{directory}/warehouse"},
        },
    )
    world.begin(spark)
    live(world)
    share_workers(world)
    happen(world)
    print(json.dumps({"tables": len(TABLES)}))
    spark.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Unavailable as error:
        raise SystemExit(f"{error}\n{str(error.__cause__)[-6000:]}") from error
