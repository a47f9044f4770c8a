"""``secor tables erase``: which SQL is run, and what is said to hold the rows; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from secor.cli.tables import erase as tables_erase
from secor.core.errors import ConfigurationError, Unavailable
from secor.spark import erased_rows, procedures
from secor.tables.erased_rows import RowErasures
from secor.tables.erasing import LITERALS, Deletion, column_type, holders, parsed
from secor.wiring import table_group
from tests.unit.cli.test_tables_maintain import CONFIG
from tests.unit.tables.committing_world import EVENTS, FLIGHTS, CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld


@dataclass
class Session:
    """What stands for Spark: the rows of views that were made."""

    views: list[int] = field(default_factory=list)

    def createDataFrame(self, rows: list[tuple[str]], schema: str) -> Session:  # noqa: N802
        assert schema == "value string"
        self.views.append(len(rows))
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
        assert name == "secor_erased"


@dataclass
class World:
    config: Path
    group: CommittingWorld
    counts: list[int] = field(default_factory=lambda: [3, 0])
    refusals: int = 0
    called: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    session: Session = field(default_factory=Session)

    def run(self, values: str, *arguments: str) -> Result:
        file = self.config.parent / "values.txt"
        file.write_text(values)
        return CliRunner().invoke(
            tables_erase.erase,
            [str(self.config), "--values", str(file), *arguments],
            catch_exceptions=False,
            standalone_mode=False,
        )

    def call(self, session: object, statement: str) -> dict[str, int]:
        self.called.append(statement)
        if statement.startswith("SELECT"):
            return {"messages": self.counts.pop(0)}
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("another commit was faster")
        self.group.write()  # stands for the commit of the deletion
        return {}

    def rows_of(self, session: object, statement: str) -> Iterator[tuple[str, int, int]]:
        self.read.append(statement)
        yield "flights", 0, 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    worker = WorkerWorld(tmp_path, [{"table": EVENTS, "auto_create": True}])
    group = CommittingWorld(worker)
    group.write()
    group.write()
    config = tmp_path / "table.toml"
    config.write_text(CONFIG)
    world = World(config, group)
    opened = SimpleNamespace(
        catalog=worker.catalog,
        name="g",
        named=[EVENTS],
        namespaces=set(),
        staged=group.staged,
        committer=group.committer,
        topics=SimpleNamespace(partitions=lambda: {FLIGHTS}),
        history=group.history,
        row_erasures=lambda table: RowErasures(worker.own, "table", table.uuid),
    )
    monkeypatch.setattr(table_group, "open_table_group", lambda config: nullcontext(opened))
    monkeypatch.setattr(procedures, "call", world.call)
    monkeypatch.setattr(erased_rows, "rows_of", world.rows_of)

    @contextmanager
    def spark(*_: object) -> Iterator[Session]:
        yield world.session

    monkeypatch.setattr(tables_erase, "table_session", spark)
    return world


def column_of(world: World, kind: pa.DataType) -> str:
    schema = world.group.world.catalog.load_table(EVENTS).schema
    return next(one.name for one in schema if one.type == kind)


def test_a_dry_run_counts_alone(world: World) -> None:
    column = column_of(world, pa.int64())
    done = world.run("7\n8\n", "--column", column, "--dry-run")
    [statement] = world.called
    assert statement.startswith("SELECT count(*) AS messages FROM `secor`.`db`.`events` WHERE ")
    assert statement.endswith(f"`{column}` IN (CAST('7' AS BIGINT), CAST('8' AS BIGINT))")
    assert f"db.events: 3 rows would be deleted, by {column}" in done.stdout
    assert done.return_value == 0


def test_rows_go_by_one_statement_that_is_made_again_when_it_is_refused(world: World) -> None:
    world.refusals = 2
    before = world.group.world.catalog.load_table(EVENTS)
    done = world.run("7\n", "--column", column_of(world, pa.int64()), "--json")
    assert done.return_value == 0
    deletions = [text for text in world.called if text.startswith("DELETE FROM")]
    assert len(deletions) == 3
    [table] = json.loads(done.stdout)["tables"]
    assert (table["rows"], table["left"]) == (3, 0)
    assert set(table["snapshots"]) == set(before.snapshots)
    assert table["snapshots_may_expire"].startswith("20")


def test_what_is_deleted_is_recorded_where_verify_looks_for_offsets(world: World) -> None:
    worker = world.group.world
    with_columns = worker.config.rows.metadata_columns
    assert with_columns == ()
    world.run("7\n", "--column", column_of(world, pa.int64()))
    assert world.read == []
    assert not any("_erased" in key for key in worker.own.objects)


def test_rows_that_came_meanwhile_are_told(world: World) -> None:
    world.counts = [3, 1]
    done = world.run("7\n", "--column", column_of(world, pa.int64()))
    assert done.return_value == 5
    assert "1 row came meanwhile: run it again" in done.stderr


def test_many_values_come_by_a_view(world: World) -> None:
    lines = "".join(f"{number}\n" for number in range(LITERALS + 1))
    world.run(lines, "--column", column_of(world, pa.int64()), "--dry-run")
    assert world.session.views == [LITERALS + 1]
    assert "IN (SELECT CAST(value AS BIGINT) FROM secor_erased)" in world.called[0]


@pytest.mark.parametrize(
    ("values", "column", "why"),
    [
        ("7\nseven\n", None, "values.txt, line 2: is no value of the type int64"),
        ("7\n", "nothing", "none of the tables: has no column nothing"),
        ("\n", None, "line 1: is empty; for none say --null"),
        ("", None, "there are no values"),
    ],
)
def test_what_is_wrong_is_refused_before_spark_starts(
    world: World, values: str, column: str | None, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        world.run(values, "--column", column or column_of(world, pa.int64()))
    assert world.called == []


def test_values_are_written_as_spark_reads_them() -> None:
    for kind, text, literal in (
        (pa.string(), "o'hara\\", "'o\\'hara\\\\'"),
        (pa.int32(), "-1", "CAST('-1' AS INT)"),
        (pa.bool_(), "true", "true"),
        (pa.date32(), "2026-11-28", "CAST('2026-11-28' AS DATE)"),
        (pa.decimal128(9, 2), "1.50", "CAST('1.50' AS DECIMAL(9, 2))"),
        (pa.timestamp("us", "UTC"), "2026-11-28 09:00:00Z", None),
        (pa.binary(), "\x01a", "X'0161'"),
    ):
        value = parsed(text.encode(), kind, "line 1")
        condition = Deletion("a.b", kind, [value]).condition()
        expected = literal or "CAST('2026-11-28 09:00:00+00:00' AS TIMESTAMP)"
        assert condition == f"`a`.`b` IN ({expected})"
    assert parsed(b"1.50", pa.decimal128(9, 2), "") == Decimal("1.50")
    assert parsed(b"2026-11-28", pa.date32(), "") == date(2026, 11, 28)
    assert Deletion("c", pa.string(), [], null=True).condition() == "`c` IS NULL"
    with pytest.raises(ConfigurationError, match="by values of the type double"):
        Deletion("c", pa.float64(), [1]).condition()


def test_a_tag_keeps_a_snapshot_for_good(world: World) -> None:
    before = world.group.world.catalog.load_table(EVENTS)
    world.group.write()
    after = world.group.world.catalog.load_table(EVENTS)
    [first, *_] = sorted(before.snapshots, key=lambda it: before.snapshots[it].timestamp)
    tagged = replace(after, refs={**after.refs, "audit": first})
    found = holders(before, tagged)
    assert found.named == {"audit": first}
    assert {one.snapshot_id for one in found.snapshots} == set(before.snapshots)
    assert holders(before, before).snapshots != []


def test_a_path_leads_through_structs(world: World) -> None:
    table = world.group.world.catalog.load_table(EVENTS)
    nested = pa.schema([pa.field("a", pa.struct([pa.field("b", pa.string())]))])
    inside = replace(table, schemas={table.schema_id: nested})
    assert column_type(inside, "a.b") == pa.string()
    assert column_type(inside, "a.c") is None
    assert column_type(inside, "a.b.c") is None
