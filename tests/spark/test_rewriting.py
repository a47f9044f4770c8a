"""Compactions and erasures in tasks of Spark: the same objects as on one machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from secor.adapters.local import DirectoryStore
from secor.archive.erasures import Secret
from secor.archive.objects import Archive
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.one_range import RangeResult
from secor.archive.rewrite.planning import Plan
from secor.batch.workspace import Workspace
from secor.config.load import load
from secor.core.model import Entry, OffsetRange, TopicPartition
from secor.formats import make_format
from secor.spark import backfill
from secor.wiring.rewrite_tasks import RewriteSettings, rewrite_ranges
from tests.fakes.archive import Shelf, messages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # PySpark leaves sockets
]

PARTITIONS, BATCHES, EACH = 3, 6, 10
SECRET = "a secret of some length"


def scene(directory: Path) -> Path:
    """Fill a bucket with small objects; return the configuration of their group."""
    shelf = Shelf(directory / "bucket", make_format("sequencefile"))
    for partition in range(PARTITIONS):
        for start in range(0, BATCHES * EACH, EACH):
            shelf.put(
                messages(range(start, start + EACH)),
                OffsetRange(start, start + EACH),
                topic_partition=TopicPartition("clicks", partition),
            )
    path = directory / "backup.toml"
    path.write_text(
        '[group]\nname = "g"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n'
        'topics = ["clicks"]\n[store]\nkind = "local"\n[store.local]\n'
        f'directory = "{directory / "bucket"}"\n[erase]\nsecret = "{SECRET}"\n'
    )
    return path


def compact(config: Path, *options: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "secor", "archive", "compact", str(config)]
    return subprocess.run(
        [*line, "--older-than", "0s", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file of the bucket, also plans and evidence."""
    bucket = directory / "bucket"
    files = (path for path in bucket.rglob("*") if path.is_file())
    return {str(path.relative_to(bucket)): path.read_bytes() for path in files}


def test_a_compaction_on_spark_makes_the_same_objects(spark_home: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    config = scene(here)
    done = compact(config)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(there, ignore_errors=True)
    on_spark = compact(scene(there), "--master", "local[2]")
    assert on_spark.returncode == 0, on_spark.stderr
    assert on_spark.stdout == done.stdout
    assert "15 objects" in done.stdout
    assert contents(there) == contents(here)
    again = compact(there / "backup.toml", "--master", "local[2]")
    assert (again.returncode, again.stdout) == (0, "clicks: nothing to join\n")
    wrong = compact(config, "--conf", "spark.ui.enabled=false")
    assert (wrong.returncode, "give --master" in wrong.stderr) == (2, True)


def test_an_erasure_in_tasks_leaves_a_damaged_range_and_is_resumed(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = load(scene(tmp_path), {})
    store = DirectoryStore(tmp_path / "bucket")
    archive = Archive(store, "backup")
    before = contents(tmp_path)

    damaged: list[Path] = []

    def in_tasks(number: int, plan: Plan) -> list[RangeResult]:
        settings = RewriteSettings.of(config, {}, number, plan, None)
        if not damaged:  # between the search and the rewrite
            damaged.append(tmp_path / "bucket" / plan.ranges[0].inputs[0])
            damaged[0].write_bytes(damaged[0].read_bytes()[:60])
        return backfill.run(spark, partial(rewrite_ranges, settings), plan.ranges)

    def erase() -> tuple[int, int]:
        secret = Secret(SECRET.encode())
        entries = lambda _: Entry(BATCHES * EACH)  # noqa: E731
        workspace = Workspace(tmp_path / "local", "a")
        eraser = Eraser(archive, "clicks", secret, entries, "now", "a test", in_tasks=in_tasks)
        _, outcomes = eraser.run([b"k"], workspace, tombstones=False)
        workspace.close()
        done = sum(len(outcome.done) for outcome in outcomes)
        return done, sum(len(outcome.failed) for outcome in outcomes)

    assert erase() == (PARTITIONS * BATCHES - 1, 1)
    key = str(damaged[0].relative_to(tmp_path / "bucket"))
    damaged[0].write_bytes(before[key])
    assert erase() == (1, 0)
    left = [
        row
        for archived in archive.objects("clicks")
        for records in archive.read(archived)
        for row in records.column("key").to_pylist()
    ]
    assert left == [None] * (PARTITIONS * BATCHES * EACH // 3)
