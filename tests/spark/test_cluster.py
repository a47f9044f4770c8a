"""On a standalone cluster: backfills whose driver, executors and tasks die, and batch reads."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from secor.adapters.local import DirectoryStore
from secor.archive.backfill.model import PlannedBatch, encode
from secor.archive.backfill.paths import BackfillPaths
from secor.core.model import OffsetRange
from secor.formats import make_format
from secor.sandbox.spark import quiet_java_options
from secor.verify.backfill import summary_of, verify_batch
from tests.fakes.archive import Shelf, messages
from tests.spark.cluster import Cluster, Submitted, cluster_in, descendants, kill, wait_for
from tests.spark.gate import AT, Gate
from tests.unit.archive.backfill_world import World, config, sealed_batches

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
GROUP = """
[group]
name = "secor_{kind}"
kind = "{kind}"
[kafka]
bootstrap_servers = ["localhost:9092"]
topics = ["clicks"]
[store]
kind = "local"
local.directory = "{bucket}"
[output]
prefix = "{kind}"
format = "sequencefile"
"""
PLUGIN = """
[parser]
plugin = "tests.spark.gate:Gate"
plugin_settings = {{ directory = "{gate}" }}
"""


@pytest.fixture(scope="module")
def cluster(spark_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    quiet_java_options(spark_home)
    with cluster_in(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def options_of(cluster: Cluster, spark_home: Path) -> list[str]:
    java = f"-Dlog4j2.configurationFile={spark_home}/log4j2.properties"
    java += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.local.dir": str(spark_home),
    }
    pairs = [part for name, text in settings.items() for part in ("--conf", f"{name}={text}")]
    return ["--master", cluster.master, *pairs]


class Scene:
    """A backup, a mended group whose parser stops in mid run, and a plan."""

    def __init__(self, cluster: Cluster, spark_home: Path, tmp_path: Path) -> None:
        self.cluster, self.directory, self.gate = cluster, tmp_path, tmp_path / "gate"
        self.gate.mkdir()
        bucket = tmp_path / "bucket"
        made = World.made(DirectoryStore(bucket), tmp_path, format="sequencefile")
        plugin = {"plugin": f"{Gate.__module__}:Gate"}
        parser = {**plugin, "plugin_settings": {"directory": str(self.gate)}}
        mended = config(bucket, "partition", parser, format="sequencefile")
        self.world = replace(made, mended=mended)
        self.files = [tmp_path / name for name in ("backup.toml", "partition.toml", "plan.json")]
        self.files[0].write_text(GROUP.format(kind="backup", bucket=bucket))
        partition = GROUP.format(kind="partition", bucket=bucket)
        self.files[1].write_text(partition + PLUGIN.format(gate=self.gate))
        self.plan = self.world.plan()
        self.files[2].write_bytes(encode(self.plan))
        self.options = [
            *options_of(cluster, spark_home),
            *("--conf", f"spark.executorEnv.PYTHONPATH={ROOT}"),
            *("--conf", "spark.speculation=true", "--conf", "spark.speculation.multiplier=1"),
        ]

    def start(self, what: str, files: Sequence[Path]) -> Submitted:
        command = [ROOT / "scripts/backfill", *self.options, "--", what, *files]
        local = ["--local-directory", self.directory / "tasks"]
        log = self.directory / f"{what}-{len(list(self.directory.glob('*.log')))}.log"
        return Submitted.of([*command, *local], log, {"PYTHONPATH": str(ROOT)})

    def marks(self, partition: int) -> list[int]:
        """The processes that have stopped in the last batch of a partition."""
        found = (one.name.split("-") for one in self.gate.glob(f"{partition}-*"))
        return [int(process) for _, process in found if process.isdecimal()]

    def open(self, partition: int) -> None:
        (self.gate / f"{partition}-open").touch()

    def held(self, batch: PlannedBatch) -> bool:
        return AT in batch.range

    def receipts(self) -> dict[str, int]:
        """The batches that are done, and when each was."""
        places = BackfillPaths.of(self.plan.head)
        paths = {
            batch.name: self.directory / "bucket" / places.receipt(batch)
            for batch in self.plan.batches
        }
        return {name: path.stat().st_mtime_ns for name, path in paths.items() if path.exists()}

    def staged(self) -> dict[str, bytes]:
        head = BackfillPaths.of(self.plan.head).staging()[0]
        found = {}
        for one in self.world.store.list(head):
            if "/_receipts/" not in one.key and "/_journal/" not in one.key:
                with self.world.store.open(one.key) as file:
                    found["partition/" + one.key.removeprefix(head)] = file.read()
        return found

    def wanted(self) -> dict[str, bytes]:
        generation = self.plan.generation
        return {
            file.key: file.local.path.read_bytes()
            for sealed in sealed_batches(self.world.mended, self.world.workspace, generation)
            for file in sealed.files
        }


@pytest.fixture
def scene(cluster: Cluster, spark_home: Path, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(cluster, spark_home, tmp_path)
    yield made
    made.world.workspace.close()


def kill_executor_of(process: int) -> None:
    """Kill the JVM whose Python worker a process is, and all of its workers."""
    [found] = [one for one in psutil.Process(process).parents() if "java" in one.name()][:1]
    for one in (found, *descendants(found.pid)):
        kill(one)


def test_a_backfill_survives_its_driver_its_executors_and_doubled_tasks(scene: Scene) -> None:
    free = [batch.name for batch in scene.plan.batches if not scene.held(batch)]
    run = scene.start("run", scene.files)
    wait_for(lambda: scene.marks(0) and scene.marks(1), f"both stops: {run.log}")
    assert len(scene.cluster.executors()) == 2
    before = scene.receipts()
    assert sorted(before) == sorted(free)
    run.kill()
    wait_for(lambda: not scene.cluster.executors(), "the end of the executors")
    assert scene.receipts() == before
    for mark in scene.gate.iterdir():
        mark.unlink()

    run = scene.start("run", scene.files)
    wait_for(lambda: scene.marks(0) and scene.marks(1), f"both stops: {run.log}")
    [victim] = scene.marks(1)
    kill_executor_of(victim)
    scene.open(1)
    wait_for(lambda: len(scene.marks(0)) == 2, "the task to be doubled")
    scene.open(0)
    code, printed = run.ended()
    assert code == 0, printed
    assert "Next: secor backfill verify" in printed
    after = scene.receipts()
    assert len(after) == len(scene.plan.batches)
    assert {name: after[name] for name in before} == before
    assert scene.staged() == scene.wanted()

    job = scene.world.job(scene.plan)
    assert summary_of(verify_batch(job, batch) for batch in scene.plan.batches).right
    exit_codes_are_passed_on(scene)


def exit_codes_are_passed_on(scene: Scene) -> None:
    key = BackfillPaths.of(scene.plan.head).staged(max(scene.staged()))
    staged = scene.directory / "bucket" / key
    staged.write_bytes(staged.read_bytes()[:-1])
    code, printed = scene.start("verify", scene.files).ended()
    assert code == 5, printed
    assert "nothing missing, nothing twice, nothing different, 1 object corrupt" in printed
    code, printed = scene.start("run", [*scene.files[:2], scene.gate / "nowhere"]).ended()
    assert code == 2, printed
    assert "cannot be read" in printed


def python_without_secor(folder: Path) -> dict[str, str]:
    """An environment whose Python has all packages of this one but Secor."""
    [installed] = [Path(one) for one in sys.path if one.endswith("site-packages")][:1]
    packages = folder / "packages"
    packages.mkdir()
    for one in installed.iterdir():
        if "secor" not in one.name and one.suffix != ".pth":
            (packages / one.name).symlink_to(one)
    python = str(getattr(sys, "_base_executable", sys.executable))
    return {"PYSPARK_PYTHON": python, "PYTHONPATH": str(packages)}


def test_executors_read_with_the_package_that_the_driver_ships(
    cluster: Cluster, spark_home: Path, tmp_path: Path
) -> None:
    shelf = Shelf(tmp_path / "store", make_format("sequencefile"), prefix="")
    for first in (0, 1000):
        rows = messages(range(first, first + 1000), lambda at: b"%d" % at + b"." * 5000)
        shelf.put(rows, OffsetRange(first, first + 1000))
    shutil.make_archive(str(tmp_path / "secor"), "zip", ROOT, "secor")
    environment = python_without_secor(tmp_path)
    command = [
        Path(sys.executable).with_name("spark-submit"),
        *options_of(cluster, spark_home),
        *("--conf", f"spark.executorEnv.PYTHONPATH={environment['PYTHONPATH']}"),
        *("--py-files", tmp_path / "secor.zip"),
        Path(__file__).with_name("read_on_a_cluster.py"),
        shelf.directory,
    ]
    code, printed = Submitted.of(command, tmp_path / "read.log", environment).ended()
    assert code == 0, printed
    told = json.loads(printed.splitlines()[-1])
    assert told["messages"] == told["archive"] == 2000
    assert told["tasks"] >= 2
    assert told["places"]
    for place in (*told["places"], told["driver"]):
        assert f"secor.zip{os.sep}secor" in place, told
