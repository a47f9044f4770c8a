"""``secor tables maintain``: which SQL is run for which table; Spark itself is not started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from secor.cli.tables import maintain as tables_maintain
from secor.core.errors import ConfigurationError, Unavailable
from secor.spark import procedures
from secor.tables.maintenance import STEPS, Maintenance
from secor.wiring import table_group
from tests.unit.tables.committing_world import EVENTS, CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld

CONFIG = """
group = {name = "g", kind = "table"}
kafka = {bootstrap_servers = ["localhost:1"], topics = ["flights"]}
store = {kind = "local", local = {directory = "/tmp/nowhere"}}
catalog = {properties = {type = "sql", uri = "sqlite:////tmp/nowhere.db"}}
tables = [{table = "db.events"}, {table = "db.late"}]
"""


@dataclass
class World:
    config: Path
    group: CommittingWorld
    called: list[str] = field(default_factory=list)
    failing: str = "nothing"

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            tables_maintain.maintain,
            [str(self.config), *arguments],
            catch_exceptions=False,
            standalone_mode=False,
        )

    def call(self, session: object, statement: str) -> dict[str, int]:
        self.called.append(statement)
        if self.failing in statement:
            raise Unavailable("the cluster has gone")
        return {"rewritten": 3, "failed": 0} if "rewrite" in statement else {}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """``db.events`` has two commits; ``db.late`` is a table without any."""
    routes = [{"table": name, "auto_create": True} for name in (EVENTS, "db.late")]
    worker = WorkerWorld(tmp_path, [routes[0]])
    group = CommittingWorld(worker)
    group.write()
    group.write()
    config = tmp_path / "table.toml"
    config.write_text(CONFIG)
    world = World(config, group)
    opened = SimpleNamespace(
        catalog=worker.catalog,
        name="g",
        named=[EVENTS, "db.late"],
        namespaces=set(),
        staged=group.staged,
        committer=group.committer,
    )
    monkeypatch.setattr(table_group, "open_table_group", lambda config: nullcontext(opened))
    monkeypatch.setattr(procedures, "call", world.call)

    @contextmanager
    def spark(*_: object) -> Iterator[object]:
        yield object()

    monkeypatch.setattr(tables_maintain, "table_session", spark)
    return world


def test_a_dry_run_prints_the_sql_and_starts_nothing(world: World) -> None:
    done = world.run("--dry-run", EVENTS)
    lines = done.stdout.splitlines()
    assert [line.partition("(")[0] for line in lines] == [
        f"CALL `secor`.system.{step}" for step in STEPS
    ]
    assert "table => '`db`.`events`'" in lines[0]
    assert "retain_last => 20" in lines[3]
    assert world.called == []


def test_a_table_that_is_gone_is_left_and_the_others_are_done(world: World) -> None:
    done = world.run()
    assert done.return_value == 5
    assert "db.late: the catalog has no such table" in done.stderr
    assert len(world.called) == 4
    assert f"{EVENTS}: rewrite_manifests: rewritten 3" in done.stdout
    assert f"{EVENTS}: expire_snapshots: nothing to do" in done.stdout


def test_snapshots_of_a_table_that_was_rolled_back_do_not_expire(world: World) -> None:
    table = world.group.world.catalog.library.load_table(EVENTS)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    done = world.run(EVENTS, "--json")
    assert done.return_value == 5
    assert world.called == []
    assert "was rolled back" in json.loads(done.stdout)["stopped"][EVENTS]


def test_a_step_that_fails_holds_no_other_back(world: World) -> None:
    world.failing = "rewrite_data_files"
    done = world.run(EVENTS, "--json")
    assert done.return_value == 4
    entries = json.loads(done.stdout)["done"]
    assert [entry["step"] for entry in entries] == list(STEPS)
    assert entries[0]["error"] == "the cluster has gone"
    assert entries[1]["changed"] == {"rewritten": 3}


def test_only_the_steps_and_tables_that_are_named(world: World) -> None:
    done = world.run(EVENTS, "--step", "expire_snapshots", "--older-than", "2", "--json")
    assert not done.return_value
    (statement,) = world.called
    assert "expire_snapshots" in statement
    with pytest.raises(ConfigurationError, match="is no table of this group"):
        world.run("db.others")


def test_of_another_branch_than_main_only_what_knows_branches_is_done(world: World) -> None:
    assert "not done on" not in world.run(EVENTS).stderr
    world.config.write_text(CONFIG + 'commit = {branch = "au\'dit"}\n')
    done = world.run(EVENTS, "--dry-run")
    assert "on the branch au'dit: rewrite_position_delete_files, rewrite_manifests" in done.stderr
    rewrite, expire = done.stdout.splitlines()
    assert "rewrite_data_files(table => '`db`.`events`', branch => 'au\\'dit');" in rewrite
    assert "expire_snapshots(" in expire
    assert "branch" not in expire
    expiring = world.run(EVENTS, "--dry-run", "--step", "expire_snapshots")
    assert "not done on" not in expiring.stderr


def test_names_are_quoted_and_times_are_those_of_utc() -> None:
    wanted = Maintenance(("expire_snapshots",), datetime(2026, 11, 22, 3, 4, 5, tzinfo=UTC), 7)
    (statement,) = wanted.statements("my`lake", "db.it's").values()
    assert statement == (
        "CALL `my``lake`.system.expire_snapshots(table => '`db`.`it\\'s`',"
        " older_than => TIMESTAMP '2026-11-22 03:04:05', retain_last => 7, stream_results => true)"
    )


def test_without_tables_spark_is_not_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_maintain, "_tables", lambda *_: ([], {}))

    def refuse(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(tables_maintain, "table_session", refuse)
    shown = world.run()
    assert shown.stderr == "nothing to maintain: no table that is not stopped has a snapshot\n"
    assert json.loads(world.run("--json").stdout) == {"done": [], "stopped": {}}
