"""The engine that merges rows, on a real Spark: what a worker staged, as a reader sees it."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from secor.adapters.iceberg.merges import MergingCatalog
from secor.adapters.local import DirectoryStore
from secor.core.errors import ConfigurationError, TableUnusable
from secor.spark.merge_engine import SparkMergeEngine
from secor.spark.startup import require_class
from secor.tables.catalog import MAIN, CommitResult, NewTable, Outcome, TableCommit
from secor.tables.commit.group_record import SUMMARY_COMMIT
from secor.tables.rows.new_tables import DEFAULT_PROPERTIES
from secor.tables.rows.unavailable_values import DEBEZIUM_DEFAULT
from secor.tables.spark_catalog import spark_catalog
from secor.tables.staging.manifest import Manifest, TableFiles
from secor.wiring.table_storage import store_of_tables
from tests.contracts.merge_engines import CASES, EngineWorld
from tests.spark.ways_of_changes import check_that_many_are_in_no_plan, compare_ways
from tests.unit.adapters.test_iceberg_catalog import EVERY_TYPE
from tests.unit.tables.test_worker import AS_READ, EVERYTHING
from tests.unit.tables.worker_world import Keyed, WorkerWorld

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # a first merge compiles much: minutes on a loaded machine
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets behind
]

TABLE = "db.flights"
UPSERT = {"table": TABLE, "topics": "flights", "mode": "upsert", "key": ["id"], "evolve": True}
LOG = {"table": TABLE, "topics": "more"}


class Application:
    """The session of this folder's tests, which knows the catalog in each session of its own."""

    def __init__(self, spark: SparkSession, settings: dict[str, str]) -> None:
        self.spark = spark
        self.settings = settings
        self.sparkContext = spark.sparkContext

    def newSession(self) -> SparkSession:  # noqa: N802  # Spark's
        session = self.spark.newSession()
        for name, value in self.settings.items():
            session.conf.set(name, value)
        return session


class World(WorkerWorld):
    """Staged by the worker, merged by the engine, read by the Iceberg library."""

    def begin(self, spark: SparkSession) -> None:
        own = self.directory / "own"
        own.mkdir()
        self.own = DirectoryStore(own)  # type: ignore[assignment]
        self.store = store_of_tables(self.config, self.own)
        known = spark_catalog(
            "secor",
            {
                "type": "sql",
                "uri": f"sqlite:///{self.directory / 'catalog.db'}",
                "warehouse": f"file://{self.directory / 'warehouse'}",
            },
        )
        settings = {key: it for key, it in known.settings.items() if "catalog" in key}
        application: Any = Application(spark, settings)
        self.engine = SparkMergeEngine(
            lambda: application, partial(DirectoryStore, own), catalog="secor", log_place="nowhere"
        )
        self.merging = MergingCatalog(self.catalog, self.engine, self.engine)
        self.commits = 0

    def merge(self, *manifests: Manifest) -> CommitResult:
        """Commit what is staged, as a coordinator does."""
        self.commits += 1
        table = self.merging.load_table(TABLE)
        head = table.head()
        base = head.snapshot_id if head is not None else None
        files = tuple(it for manifest in manifests for it in manifest.tables)
        summary = {SUMMARY_COMMIT: f"commit-{self.commits}"}
        commit = TableCommit(base, files, {"vector": str(self.commits)}, summary)
        return self.merging.commit(table, commit)

    def at(self, partition: int, timestamp: int, *messages: object) -> list[Manifest]:
        """Stage messages of another partition, and another time."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tests.unit.tables.worker_world.TIMESTAMP", timestamp)
            patch.setattr("tests.unit.tables.worker_world.PARTITION", partition)
            return self.stage(*messages)

    def codecs(self) -> set[str]:
        """Return how the columns of the table's data files are compressed."""
        table = self.catalog.library.load_table(TABLE)
        paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        groups = [pq.ParquetFile(path).metadata.row_group(0) for path in paths]
        return {it.column(at).compression for it in groups for at in range(it.num_columns)}

    def state(self, *names: str) -> dict[Any, tuple[Any, ...]]:
        """Return columns of all rows by id; each id is there once."""
        rows = self.rows()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: tuple(row[name] for name in names) for row in rows}


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    made = World(tmp_path, [UPSERT, LOG], {"commit": {"coordinator": "alone"}})
    made.begin(spark)
    return made


def test_a_table_has_the_last_state_of_each_key(world: World) -> None:
    """One table through its life: every type, deletions, growth, order, merge on read."""
    columns = pa.schema([field for field in EVERY_TYPE if field.name != "clock"])
    world.catalog.create_table(TABLE, NewTable(columns, (), DEFAULT_PROPERTIES))
    everything = {key: it for key, it in EVERYTHING.items() if key != "clock"}
    first = world.stage(everything, {"id": 2, "text": "two"}, {"id": 3}, {"id": 3, "text": "x"})
    assert world.merge(*first).outcome is Outcome.DONE
    [row] = [row for row in world.rows() if row["id"] == 1]
    assert row == {key: it for key, it in AS_READ.items() if key != "clock"}
    assert world.state("text") == {1: ("täxt",), 2: ("two",), 3: ("x",)}
    assert world.codecs() == {"ZSTD"}

    # Deleted and grown; a key that is not there is deleted; the last of many counts.
    updates = [{"id": 2, "text": str(number)} for number in range(1000)]
    second = world.stage(
        *(Keyed(b"1", None), Keyed(b"99", None), *updates),
        *({"id": 3, "new": 7, "inner": {"a": 1, "c": 1.5}}, {"id": 4}, Keyed(b"4", None)),
    )
    assert world.merge(*second).outcome is Outcome.DONE
    assert world.state("text", "new") == {2: ("999", None), 3: (None, 7)}

    # Between partitions time decides, and is counted; within one the offset does.  Spark gets
    # the changes in a file, as if they were many.
    world.engine.staged.most_row_bytes = 0
    world.catalog.library.load_table(TABLE).transaction().set_properties(
        {"write.merge.mode": "merge-on-read"}
    ).commit_transaction()
    late = world.at(0, 2000, {"id": 2, "text": "late"}, {"id": 3, "text": "of partition 0"})
    early = world.at(1, 1000, {"id": 2, "text": "early"}, {"id": 5, "text": "old"})
    older = world.at(1, 500, {"id": 5, "text": "newer, with an older time"})
    merged = world.merge(*late, *early, *older)
    assert (merged.outcome, merged.unordered) == (Outcome.DONE, 1)
    assert world.state("text") == {
        2: ("late",),
        3: ("of partition 0",),
        5: ("newer, with an older time",),
    }


COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("body", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("numbers", pa.list_(pa.int64())),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
        pa.field("title", pa.string(), nullable=False),
    ]
)
PLACEHOLDERS = {
    "body": DEBEZIUM_DEFAULT,
    "raw": base64.b64encode(DEBEZIUM_DEFAULT.encode()).decode(),
    "numbers": [*DEBEZIUM_DEFAULT.encode()],
    "tags": {DEBEZIUM_DEFAULT: DEBEZIUM_DEFAULT},
    "title": DEBEZIUM_DEFAULT,
}


class ChangedRows:
    """A table as a database changes it, and Debezium's messages of that."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[int, dict[str, Any]] = {}
        self.unknown = 0

    def message(self, number: int) -> object:
        """Change a row; sometimes one whose insertion has never been a message."""
        row_id = self.random.randrange(12)
        before = self.rows.get(row_id)
        roll = self.random.random()
        if before is not None and roll < 0.15:
            del self.rows[row_id]
            return {"op": "d", "before": {"id": row_id}, "after": None}
        new = {
            "id": row_id,
            "v": number,
            "body": self.random.choice([None, f"text {number}"]),
            "raw": f"raw {number}".encode(),
            "numbers": [number, None],
            "tags": {"a": str(number)},
            "title": f"title {number}",
        }
        if before is None and roll > 0.1:
            self.rows[row_id] = new
            return {"op": "c", "before": None, "after": self.shown(new, ())}
        left_out = [name for name in PLACEHOLDERS if self.random.random() < 0.6]
        if before is None:
            before = dict.fromkeys(PLACEHOLDERS) | {"title": DEBEZIUM_DEFAULT}
            self.unknown += len(left_out)
        self.rows[row_id] = {**new, **{name: before[name] for name in left_out}}
        return {"op": "u", "before": None, "after": self.shown(new, left_out)}

    def shown(self, row: dict[str, Any], left_out: Iterable[str]) -> dict[str, Any]:
        """Return a row as JSON has it."""
        text = {**row, "raw": row["raw"].decode()}
        return {**text, **{name: PLACEHOLDERS[name] for name in left_out}}


@pytest.mark.parametrize("seed", [1])
def test_columns_that_updates_leave_out_keep_their_values(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """The rows of a database, changed in cycles: as a reader of the table sees them."""
    cdc = {"table": TABLE, "topics": "flights", "mode": "cdc", "key": ["id"]}
    world = World(tmp_path, [cdc], {"commit": {"coordinator": "alone"}})
    world.begin(spark)
    world.catalog.create_table(TABLE, NewTable(COLUMNS, (), DEFAULT_PROPERTIES))
    database = ChangedRows(seed)
    limits = ((1 << 30, 1 << 30), (0, 1 << 30), (0, 0))  # rows of a plan, a file, Spark alone
    number = unknown = 0
    for mode in ("copy-on-write", "merge-on-read"):
        world.catalog.library.load_table(TABLE).transaction().set_properties(
            {"write.merge.mode": mode}
        ).commit_transaction()
        for most_row_bytes, most_key_bytes in limits:
            world.engine.staged.most_row_bytes = most_row_bytes
            world.engine.staged.most_key_bytes = most_key_bytes
            messages = [database.message(number + at) for at in range(40)]
            number += len(messages)
            merged = world.merge(*world.stage(*messages))
            assert merged.outcome is Outcome.DONE, merged.why
            unknown += merged.unknown_values
            rows = {row["id"]: {**row, "tags": dict(row["tags"] or ())} for row in world.rows()}
            expected = {
                key: {**row, "tags": row["tags"] or {}} for key, row in database.rows.items()
            }
            assert rows == expected, (mode, most_row_bytes)
    assert world.reasons() == []
    assert 0 < unknown <= database.unknown


def test_a_spark_without_the_jars_of_the_format_is_told(spark: SparkSession) -> None:
    require_class(spark, "org.apache.iceberg.spark.SparkCatalog")
    with pytest.raises(ConfigurationError, match=r"no org\.nowhere\.Catalog: spark\.jars"):
        require_class(spark, "org.nowhere.Catalog")


def test_changes_are_the_same_in_whatever_way_they_reach_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    with setting(spark, "spark.sql.execution.arrow.localRelationThreshold", "0"):
        compare_ways(spark, tmp_path)


def test_many_changes_are_in_no_plan(spark: SparkSession, tmp_path: Path) -> None:
    check_that_many_are_in_no_plan(spark, tmp_path)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set one of the session's settings for a while."""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def test_rows_of_a_table_of_format_version_3_are_changed_and_published_by_java(
    world: World, spark: SparkSession
) -> None:
    """The library for Python reads such a table, and refuses to commit to it."""
    session = world.engine._application.session("made by another")
    session.sql(
        "CREATE TABLE secor.db.flights (id bigint, text string) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read')"
    )
    assert world.merge(*world.stage({"id": 1, "text": "a"}, {"id": 2})).outcome is Outcome.DONE
    changed = world.stage({"id": 1, "text": "b"}, Keyed(b"2", None), {"id": 3})
    assert world.merge(*changed).outcome is Outcome.DONE
    table = world.merging.load_table(TABLE)
    assert (table.format_version, table.properties["vector"]) == (3, "2")
    head = table.head()
    assert head is not None
    assert head.summary[SUMMARY_COMMIT] == "commit-2"
    rows = session.sql("SELECT id, text FROM secor.db.flights ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "b"), (3, None)]

    # The vector alone; and whoever looked before that is refused, as is one of another base.
    assert world.merge().outcome is Outcome.DONE
    late = TableCommit(head.snapshot_id, (), {"vector": "late"}, {SUMMARY_COMMIT: "late"})
    assert world.merging.commit(table, late).outcome is Outcome.REFUSED
    assert world.merging.publish(table, late, head.snapshot_id).outcome is Outcome.REFUSED
    assert world.merging.load_table(TABLE).properties["vector"] == "3"
    with pytest.raises(TableUnusable, match="appended to version 2 at most"):
        world.plans("more", None)


class RealWorld:
    """``EngineWorld`` on Spark and a real catalog."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.catalog.create_table(TABLE, NewTable(pa.schema([pa.field("id", pa.int64())])))
        self.catalog = world.merging
        self.engine = world.engine

    def changes(self, ids: Iterable[int]) -> TableFiles:
        return self._staged("flights", *({"id": number} for number in ids))

    def deletions(self, ids: Iterable[int]) -> TableFiles:
        return self._staged("flights", *(Keyed(b"%d" % number, None) for number in ids))

    def appends(self, ids: Iterable[int]) -> TableFiles:
        return self._staged("more", *({"id": number} for number in ids))

    def visible(self, branch: str = MAIN) -> set[int]:
        library_table = self.world.catalog.library.load_table(TABLE)
        snapshot = library_table.snapshot_by_name(branch)
        if snapshot is None:
            return set()
        rows = library_table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"] for row in rows}

    def append_as_another(self, number: int) -> None:
        self.world.catalog.library.load_table(TABLE).append(pa.table({"id": [number]}))

    def drop(self) -> None:
        self.world.catalog.library.drop_table(TABLE)

    def _staged(self, topic: str, *messages: object) -> TableFiles:
        [manifest] = self.world.stage(*messages, topic=topic)
        [files] = manifest.tables
        return files


@pytest.mark.parametrize("case", CASES)
def test_spark_keeps_the_contract_of_the_fake(
    world: World, case: Callable[[EngineWorld], None]
) -> None:
    case(RealWorld(world))


def test_rows_are_found_by_keys_that_are_uuids(spark: SparkSession, tmp_path: Path) -> None:
    route = {**UPSERT, "mode": "cdc", "auto_create": True}
    world = World(tmp_path, [route], {"commit": {"coordinator": "alone"}})
    world.begin(spark)
    first, second = (str(UUID(int=number)) for number in (1, (1 << 128) - 1))
    merged = world.merge(*world.stage(_changed(first, "a"), _changed(second, "b")))
    assert merged.outcome is Outcome.DONE, merged.why
    assert world.catalog.load_table(TABLE).schema.field("id").type == pa.uuid()
    merged = world.merge(*world.stage(_changed(second, "c"), _changed(first, None)))
    assert merged.outcome is Outcome.DONE, merged.why
    assert [(str(row["id"]), str(row["same"]), row["v"]) for row in world.rows()] == [
        (second, second, "c")
    ]


def _changed(key: str, value: str | None) -> dict[str, Any]:
    """Return a change of a row with a key that is a UUID, as Debezium writes it."""
    name = {"type": "string", "name": "io.debezium.data.Uuid", "optional": True}
    text = {"type": "string", "field": "v", "optional": True}
    inner: list[dict[str, Any]] = [{**name, "field": "id"}, {**name, "field": "same"}, text]
    side = {"type": "struct", "fields": inner, "optional": True}
    row = {"id": key, "same": key, "v": value}
    fields: list[dict[str, Any]] = [{**side, "field": "before"}, {**side, "field": "after"}]
    fields.append({"type": "string", "field": "op"})
    deleted = value is None
    sides = {"before": row if deleted else None, "after": None if deleted else row}
    return {
        "schema": {"type": "struct", "fields": fields},
        "payload": {**sides, "op": "d" if deleted else "u"},
    }
