"""Rewriting in tasks beside a plain Spark job over the same bytes, and queries before and after.

A process of its own, so that the JVM and its workers are all that is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from secor.adapters.local import DirectoryStore
from secor.archive.objects import Archive
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.erasure_search import Searched, SearchPart
from secor.archive.rewrite.one_range import RangeResult
from secor.archive.rewrite.planning import Plan, RewriteLimits, plan_of
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.model import Config
from secor.core.errors import SecorError
from secor.core.model import Entry
from secor.spark.backfill import run
from secor.wiring.reading_tasks import ReadingTask, search_parts
from secor.wiring.rewrite_tasks import RewriteSettings, rewrite_ranges
from tools.bench.archive import PREFIX, SECRET, TARGET, TOPIC
from tools.bench.processes import PeakMemory, cpu_seconds
from tools.bench.spark import session

QUERY = (
    "SELECT count(*), sum(octet_length(value)), max(timestamp) FROM {source} AS t"
    " WHERE t.offset BETWEEN {first} AND {last}"
)
"""Of a twentieth of the messages: a reader that looks at footers first gains by fewer objects."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step took: seconds of the clock and of all processors, MiB of all processes."""

    name: str
    seconds: float
    cpu: float
    peak: int


def measure(bucket: Path, workers: int, messages: int) -> Iterator[Cost]:
    """Give costs: the plain copy, queries, compact, the queries again, erase.

    Raises ``SecorError`` where a query sees another number of messages afterwards.
    """
    with session(bucket.parent, workers) as spark:
        spark.range(10).count()  # starts the JVM's part and the first worker
        plain = str(bucket.parent / "plain")
        yield _cost("plain Spark copy", partial(_copy, spark, bucket, plain, workers))
        seen = {}
        for when in ("before", "after"):
            for name, query in _queries(spark, bucket, messages):
                seen[name, when] = query()  # once without being counted: files are cached then
                yield _cost(f"{name}, {when}", query)
            if when == "before":
                yield _cost("archive compact --master", partial(_compact, spark, bucket))
        if len({str(rows) for rows in seen.values()}) != 1:
            raise SecorError(f"the queries do not see the same: {seen}")
        yield _cost("archive erase --master", partial(_erase, spark, bucket))


def _cost(name: str, step: Callable[[], object]) -> Cost:
    before, began = cpu_seconds(), time.monotonic()
    with PeakMemory() as memory:
        step()
    return Cost(name, time.monotonic() - began, cpu_seconds() - before, memory.peak >> 20)


def _objects(bucket: Path) -> str:
    return f"{bucket / PREFIX / TOPIC}/*/*.parquet"


def _copy(spark: Any, bucket: Path, target: str, workers: int) -> None:
    """Read all objects and write as many files as ``compact`` makes at least, and no more."""
    frame = spark.read.parquet(_objects(bucket))
    frame.coalesce(workers).write.option("compression", "zstd").parquet(target)


def _queries(
    spark: Any, bucket: Path, messages: int
) -> Sequence[tuple[str, Callable[[], list[int]]]]:
    first, last = messages // 2, messages // 2 + messages // 20

    def by_spark() -> list[int]:
        spark.read.parquet(_objects(bucket)).createOrReplaceTempView("bench")
        sql = QUERY.format(source="bench", first=first, last=last)
        return [*map(int, spark.sql(sql).first())]

    def by_duckdb() -> list[int]:
        # The directory is called offset=0, and the column is meant.
        source = f"read_parquet('{_objects(bucket)}', hive_partitioning = false)"
        with duckdb.connect() as connection:
            row = connection.sql(QUERY.format(source=source, first=first, last=last)).fetchone()
            assert row is not None
            return [*map(int, row)]

    return (("Spark's query", by_spark), ("DuckDB's query", by_duckdb))


def _config(bucket: Path) -> Config:
    config, faults = validate(
        {
            "group": {"name": "bench"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": [TOPIC]},
            "store": {"kind": "local", "local": {"directory": str(bucket)}},
            "output": {"prefix": PREFIX, "format": "parquet"},
            "erase": {"secret": SECRET.secret.decode()},
        }
    )
    assert config is not None, faults
    return config


def _rewritten(spark: Any, bucket: Path, number: int, plan: Plan) -> list[RangeResult]:
    settings = RewriteSettings.of(_config(bucket), {}, number, plan, bucket.parent)
    return run(spark, partial(rewrite_ranges, settings), plan.ranges)


def _searched(spark: Any, bucket: Path, parts: Sequence[SearchPart]) -> list[Searched]:
    task = ReadingTask.of(_config(bucket), {}, TOPIC)
    return run(spark, partial(search_parts, task), parts)


def _compact(spark: Any, bucket: Path) -> None:
    def choose(objects: Any, waiting: Any) -> Plan:
        return plan_of(TOPIC, objects, waiting, RewriteLimits(time.time() + 60, TARGET))

    workspace = Workspace(bucket.parent / "local", "compact")
    archive = Archive(DirectoryStore(bucket), PREFIX)
    in_tasks = partial(_rewritten, spark, bucket)
    Rewriter(archive, TOPIC, workspace, choose, in_tasks=in_tasks).run()
    workspace.close()


def _erase(spark: Any, bucket: Path) -> None:
    archive = Archive(DirectoryStore(bucket), PREFIX)
    eraser = Eraser(
        archive,
        TOPIC,
        SECRET,
        lambda _: Entry(1 << 60),
        "now",
        "a measurement",
        in_tasks=partial(_rewritten, spark, bucket),
        search_in_tasks=partial(_searched, spark, bucket),
    )
    workspace = Workspace(bucket.parent / "local", "erase")
    eraser.run([b"key-%d" % key for key in range(10)], workspace, tombstones=False)
    workspace.close()
