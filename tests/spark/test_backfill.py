"""Backfills on Spark in this process, and by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from secor.adapters.local import DirectoryStore
from secor.archive.backfill.model import PlannedBatch, encode, read_plan
from secor.cli.backfill.commands import command
from secor.core.errors import ConfigurationError, CorruptFile, Unavailable
from secor.spark import backfill, read_archive
from secor.verify.backfill import summary_of
from secor.wiring.backfill import ExecutorSettings, check, stage
from tests.unit.archive.backfill_world import TOPIC, World, sealed_batches

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves sockets to the collector
]

BACKUP = """
[group]
name = "secor_backup"
[kafka]
bootstrap_servers = ["localhost:9092"]
topics = ["clicks"]
[store]
kind = "local"
local.directory = "{bucket}"
"""
PARTITION = """
[group]
name = "secor_partition"
kind = "partition"
[kafka]
bootstrap_servers = ["localhost:9092"]
topics = ["clicks"]
[store]
kind = "local"
local.directory = "{bucket}"
[output]
format = "sequencefile"
[parser]
decoder = "json"
time_field = "at"
time_format = "ms"
[[parser.transforms]]
kind = "filter"
field = "kind"
equals = "probe"
negated = true
"""


@dataclass
class Scene:
    world: World
    directory: Path

    def __post_init__(self) -> None:
        bucket = self.directory / "bucket"
        self.backup, self.partition = self.directory / "b.toml", self.directory / "p.toml"
        self.backup.write_text(BACKUP.format(bucket=bucket))
        self.partition.write_text(PARTITION.format(bucket=bucket))
        self.plan_file = self.directory / "plan.json"

    def setting(self) -> ExecutorSettings:
        plan = read_plan(self.plan_file)
        return ExecutorSettings.of(
            self.world.backup, self.world.mended, plan, self.directory / "tasks"
        )

    def staged(self) -> dict[str, bytes]:
        store, head = self.world.store, f"partition/_backfill/{read_plan(self.plan_file).id}/"
        found = {}
        for one in store.list(head):
            if "/_receipts/" not in one.key and "/_journal/" not in one.key:
                with store.open(one.key) as file:
                    found["partition/" + one.key.removeprefix(head)] = file.read()
        return found

    def wanted(self) -> dict[str, bytes]:
        generation = read_plan(self.plan_file).generation
        return {
            file.key: file.local.path.read_bytes()
            for sealed in sealed_batches(self.world.mended, self.world.workspace, generation)
            for file in sealed.files
        }


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    world = World.made(DirectoryStore(tmp_path / "bucket"), tmp_path, format="sequencefile")
    made = Scene(world, tmp_path)
    made.plan_file.write_bytes(encode(world.plan()))
    yield made
    world.workspace.close()


def test_spark_stages_what_the_daemon_would_have_written(spark: SparkSession, scene: Scene) -> None:
    plan, setting = read_plan(scene.plan_file), scene.setting()
    told: list[tuple[int, int]] = []
    receipts = backfill.run(
        spark, partial(stage, setting), plan.batches, lambda done, of: told.append((done, of))
    )
    assert [receipt.start for receipt in receipts] == [batch.start for batch in plan.batches]
    assert scene.staged() == scene.wanted()
    assert told[-1] == (5, 5)
    assert backfill.run(spark, partial(stage, setting), plan.batches) == receipts
    assert summary_of(backfill.run(spark, partial(check, setting), plan.batches)).right
    assert not [one for one in (scene.directory / "tasks").iterdir() if one.is_dir()]
    read = read_archive(spark, str(scene.directory / "bucket"), prefix="partition")
    assert {row.topic for row in read.select("topic").distinct().collect()} == {TOPIC}


def test_our_errors_come_back_from_tasks_as_they_are(spark: SparkSession, scene: Scene) -> None:
    plan, setting = read_plan(scene.plan_file), scene.setting()
    key = plan.batches[0].inputs[0].key
    path = scene.directory / "bucket" / key
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(CorruptFile, match=key):
        backfill.run(spark, partial(stage, setting), plan.batches)
    assert len(scene.staged()) > 0  # the other batches are done


def _defect(batches: Iterator[PlannedBatch]) -> Iterator[int]:
    yield from (batch.start // 0 for batch in batches)


def test_a_job_that_spark_gives_up_can_be_tried_again(spark: SparkSession, scene: Scene) -> None:
    with pytest.raises(Unavailable, match=r"Spark gave up: ZeroDivisionError: .*; run it again"):
        backfill.run(spark, _defect, read_plan(scene.plan_file).batches)


def test_tasks_of_this_machine_run_in_the_python_of_the_command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    with backfill.session("named", "local[2]") as running:
        assert running.sparkContext.pythonExec == "python3"  # by PYSPARK_PYTHON
    monkeypatch.delenv("PYSPARK_PYTHON")
    with backfill.session("not named", "local[2]") as running:
        assert running.sparkContext.pythonExec == sys.executable


IMPORTING = """
from secor.spark.backfill import session
with session("beside a checkout", "local[1]") as spark:
    task = lambda _: __import__("secor.config.model").__file__
    print(spark.sparkContext.parallelize([0], 1).map(task).collect()[0])
"""


def test_workers_do_not_take_a_checkout_in_the_working_directory_for_the_package(
    tmp_path: Path,
) -> None:
    (tmp_path / "secor" / "config").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.strip().endswith("secor/__init__.py"), done.stderr


def test_without_java_the_command_says_what_it_needs(scene: Scene) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "secor.cli.backfill_job", "run"),
            *(scene.backup, scene.partition, scene.plan_file),
        ],
        env={**os.environ, "JAVA_HOME": str(scene.directory / "nowhere")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "it needs Java 17 or 21 (JAVA_HOME)" in done.stderr


def secor(*arguments: object) -> str:
    done = CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.return_value in (None, 0), done.output
    return done.output


def test_the_commands_from_plan_to_rollback(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The session of all tests, which the command would end.
    monkeypatch.setattr(spark, "stop", lambda: None)
    both, plan = (scene.backup, scene.partition), scene.plan_file
    bucket = scene.world.store

    def objects() -> list[str]:
        hidden = ("partition/_backfill", "partition/_replaced")
        return [one.key for one in bucket.list("partition/") if not one.key.startswith(hidden)]

    before = objects()
    ends = ("--from-time", "2023-11-14T00:00Z", "--to-time", "2023-11-15T00:00Z")
    output = secor("plan", *both, TOPIC, *ends, "--no-ledger", "-o", plan)
    assert "5 backup objects" in output
    assert read_plan(plan) == scene.world.plan()
    with pytest.raises(ConfigurationError, match="not verified"):
        secor("publish", scene.partition, plan)
    left = scene.directory / "secor.prom"
    steps = ("--metrics-file", left)
    assert "Next: secor backfill verify" in secor("run", *both, plan, *steps)
    assert 'step="run",topic="clicks"} 5.0' in left.read_text()
    found = json.loads(secor("verify", *both, plan, "--json"))
    assert found["right"]
    assert found["differences"]["moved"] > 0
    assert "published generation 2" in secor("publish", scene.partition, plan, *steps)
    assert 'step="publish",topic="clicks"} 5.0' in left.read_text()
    assert objects() == sorted(scene.wanted())
    assert "rolled back" in secor("rollback", scene.partition, plan)
    assert objects() == before
