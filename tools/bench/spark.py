"""The archive in Spark: how fast it is read, beside Spark's own ways, and parsed again."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from secor.core.errors import SecorError
from tools.bench.archive import TOPIC, Stored, group, store
from tools.bench.processes import cpu_seconds

CORES = 2
ROUNDS = 3
CODECS = ("none", "lz4", "gzip")
HADOOP, TEXT = "sc.sequenceFile", "spark.read.text"
GOALS = MappingProxyType({HADOOP: 2, TEXT: 1})
"""How many times as fast as these reading the same messages should be."""
PARSER = {"decoder": "json", "time_field": "timestamp", "time_format": "ms"}


@dataclass(frozen=True, slots=True)
class Scan:
    """One way to read (or to parse) the same messages: the best of some rounds.

    Bytes are those of the values.  ``per_core`` is MB a second of wall clock, divided by the
    cores of ``local[2]``; ``per_cpu_second`` is MB a second of CPU time, all of the JVM's and
    of Python's: it tells the same where others use the machine, too.
    """

    name: str
    codec: str
    per_core: float
    per_cpu_second: float

    def ratio(self, other: Scan) -> tuple[float, float]:
        """Return how many times as fast as ``other`` it is, by clock and by CPU time."""
        return self.per_core / other.per_core, self.per_cpu_second / other.per_cpu_second


@dataclass(frozen=True, slots=True)
class _Way:
    """Something to measure: ``run`` returns the bytes or messages that it saw."""

    name: str
    codec: str
    run: Callable[[], int]
    right: int
    value_bytes: int


@dataclass(frozen=True, slots=True)
class _Cost:
    seconds: float
    cpu: float


def measure(directory: Path, *, messages: int, partitions: int) -> list[Scan]:
    """Write archives below ``directory``, and read them in every way, by turns.

    Raises ``SecorError`` when one way does not see all messages.
    """
    bucket, local = directory / "bucket", directory / "local"
    bucket.mkdir()
    backups = {
        codec: _stored(
            f"backup-{codec}", "sequencefile", codec, bucket, local, messages, partitions
        )
        for codec in CODECS
    }
    text = _stored("text", "text", "none", bucket, local, messages, partitions)
    with session(directory) as spark:
        ways = [way for codec, stored in backups.items() for way in _ways(spark, codec, stored)]
        ways.append(_text(spark, text))
        scans = _by_turns(ways)
        return [*scans, _backfill(spark, backups["none"], bucket, local)]


def _stored(
    name: str,
    kind: str,
    codec: str,
    bucket: Path,
    local: Path,
    messages: int,
    partitions: int,
) -> Stored:
    config = group(name, bucket, {"format": kind, "codec": codec})
    return store(config, bucket, local, partitions=partitions, messages=messages)


@contextmanager
def session(directory: Path, cores: int = CORES) -> Iterator[Any]:
    """Give a quiet session of this machine."""
    from secor.java.runtime import spark_java_home
    from secor.sandbox.spark import quiet_java_options
    from secor.spark import register
    from secor.spark.backfill import session as started

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JAVA_HOME"] = str(spark_java_home(directory))
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": quiet_java_options(directory),
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    with started("secor bench", f"local[{cores}]", settings) as spark:
        register(spark)
        yield spark


def _ways(spark: Any, codec: str, stored: Stored) -> Iterator[_Way]:
    def ours() -> int:
        read = spark.read.format("secor").option("columns", "offset,value")
        return _bytes_of(read.load(str(stored.directory)))

    def hadoop() -> int:
        return int(spark.sparkContext.sequenceFile(stored.objects).count())

    yield _Way("secor", codec, ours, stored.value_bytes, stored.value_bytes)
    yield _Way(HADOOP, codec, hadoop, stored.messages, stored.value_bytes)


def _text(spark: Any, stored: Stored) -> _Way:
    def run() -> int:
        return _bytes_of(spark.read.text(stored.objects))

    return _Way(TEXT, "none", run, stored.value_bytes, stored.value_bytes)


def _bytes_of(frame: Any) -> int:
    """Return the bytes of all values, so that every one has been in the JVM."""
    return int(frame.selectExpr("sum(octet_length(value))").first()[0])


def _by_turns(ways: list[_Way]) -> list[Scan]:
    """Run all of them, then all again: what else the machine does is then shared by all."""
    costs: dict[tuple[str, str], list[_Cost]] = {}
    for _ in range(ROUNDS):
        for way in ways:
            costs.setdefault((way.name, way.codec), []).append(_cost(way))
    return [_scan(way, costs[way.name, way.codec]) for way in ways]


def _cost(way: _Way) -> _Cost:
    before, began = cpu_seconds(), time.monotonic()
    seen = way.run()
    cost = _Cost(time.monotonic() - began, cpu_seconds() - before)
    if seen != way.right:
        raise SecorError(f"{way.name}, {way.codec}: {seen} read, {way.right} written")
    return cost


def _scan(way: _Way, costs: list[_Cost]) -> Scan:
    megabytes = way.value_bytes / 1e6
    seconds, cpu = min(cost.seconds for cost in costs), min(cost.cpu for cost in costs)
    return Scan(
        way.name, way.codec, round(megabytes / seconds / CORES, 1), round(megabytes / cpu, 1)
    )


def _backfill(spark: Any, backup: Stored, bucket: Path, local: Path) -> Scan:
    """Parse the backup once; every round goes into a prefix of its own."""
    rounds = iter(range(ROUNDS))

    def run() -> int:
        name = f"partition-{next(rounds)}"
        output = {"format": "sequencefile", "codec": "none"}
        return _parse_again(spark, backup, name, output, bucket, local)

    way = _Way("secor backfill", "none", run, backup.messages, backup.value_bytes)
    return _scan(way, [_cost(way) for _ in range(ROUNDS)])


def _parse_again(
    spark: Any,
    backup: Stored,
    name: str,
    output: Mapping[str, object],
    bucket: Path,
    local: Path,
) -> int:
    """Plan and run; return the messages that were read."""
    from secor.adapters.local import DirectoryStore
    from secor.archive.backfill.plan_request import RequestedMessages
    from secor.archive.backfill.planning import BackfillPlanner
    from secor.core.model import OffsetRange
    from secor.spark import backfill
    from secor.wiring.archives import archive_of
    from secor.wiring.backfill import ExecutorSettings, stage
    from secor.wiring.plans import plan_for

    target = group(name, bucket, output, PARSER)
    files = DirectoryStore(bucket)
    ranges = {
        number: [OffsetRange(0, backup.messages_of(number))] for number in range(backup.partitions)
    }
    planner = BackfillPlanner(
        topic=TOPIC,
        backup=archive_of(backup.config, TOPIC, files),
        archive=archive_of(target, TOPIC, files),
        topic_plan=plan_for(target, TOPIC),
        committed=backup.messages_of,
    )
    plan = planner.plan(RequestedMessages(offsets=ranges))
    setting = ExecutorSettings.of(backup.config, target, plan, local)
    receipts = backfill.run(spark, partial(stage, setting), plan.batches)
    return sum(receipt.read for receipt in receipts)
