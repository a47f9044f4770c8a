"""What a commit of changed rows costs, beside Spark doing the same without Secor.

Secor's commit is the whole of it: the listing of what is staged, the last change of each key, the
merge that nobody sees, its publication with the vector.  Beside it the same rows, as Parquet files,
go into a table of the same kind, by the same session, with a statement that any user would write.
All rows of a commit have different keys, so both have the same work.  Files and catalog are local.

Each engine has a process of its own: Hudi needs another Spark than Iceberg.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from secor.adapters.local import DirectoryStore
from secor.cli.tables.spark import merging
from secor.config.load import validate
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.spark.hudi_engine import spark_columns
from secor.tables.catalog import NewTable
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, Result
from secor.tables.commit.selection import EVERY_OPERATION
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.hudi import DELETED, settings_of_table, write_options
from secor.tables.rows.new_tables import DEFAULT_PROPERTIES
from secor.tables.staging.staged_manifests import Staging
from secor.wiring.hudi import hudi_settings_of, open_hudi_tables
from secor.wiring.table_catalogs import merging_catalog, open_tables
from tests.programs import spark_35
from tools.bench.change_costs import ChangeCost, Cost, costs_in
from tools.bench.change_files import COLUMNS, GROUP, PREFIX, TOPIC, ChangeFiles, Ids
from tools.bench.processes import PeakMemory, cpu_seconds

ENGINES = ("iceberg", "hudi", "hudi-precombine")
"""The last is Hudi with a column that says which row of a key wins."""
PRECOMBINE = "delay"
OURS, PLAIN = "db.ours", "db.plain"

SIZES = (
    (1_000, 10_000),
    (100_000, 1_000),
    (100_000, 10_000),
    (100_000, 100_000),
    (1_000_000, 10_000),
    (1_000_000, 100_000),
    (100_000, 1_000_000),
)
"""Rows of a table, and changes of a commit."""
MOST = 100_000
"""Larger sizes take minutes: they are measured when they are asked for."""
ROUNDS = {1_000: 6, 10_000: 6, 100_000: 4, 1_000_000: 2}
"""Commits of so many changes: each second time Spark alone is the first, so that neither has
always what the other has compiled.
"""
_ROOT = Path(__file__).parents[2]


def config_of(engine: str, folder: Path, memory: str = "3g") -> Config:
    """Return the configuration of a group with one table, all below ``folder``."""
    settings = {"spark.master": "local[2]", "spark.driver.memory": memory}
    table = {"table": OURS, "mode": "upsert", "key": ["id"], "auto_create": True}
    tree: dict[str, Any] = {
        "group": {"name": GROUP, "kind": "table"},
        "kafka": {"bootstrap_servers": ["localhost:1"], "topics": [TOPIC]},
        "store": {"kind": "local", "local": {"directory": str(folder)}},
        "output": {"prefix": PREFIX},
        "local": {"directory": str(folder / "local")},
        "commit": {"coordinator": "alone"},
        "spark": {"settings": settings},
    }
    if engine.startswith("hudi"):
        order = {"precombine": PRECOMBINE} if engine == "hudi-precombine" else {}
        tree["hudi"] = {"warehouse": f"file://{folder}/warehouse"}
        tree["tables"] = [{**table, **order, "format": "hudi"}]
    else:
        uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        tree["catalog"] = {"properties": {"type": "sql", "uri": uri, "warehouse": warehouse}}
        tree["tables"] = [table]
    config, faults = validate(tree)
    if config is None:
        raise SecorError(str(faults))
    return config


class Tables:
    """One engine, with a table that Secor writes and one that Spark writes alone."""

    def __init__(self, config: Config, folder: Path, engine: Any) -> None:
        self._config = config
        self._is_hudi = config.table_format == "hudi"
        self._folder = folder
        self._files = ChangeFiles(folder)
        self._committed: dict[int, dict[TopicPartition, int]] = {}
        engine.start()
        from pyspark.sql import SparkSession

        self.spark: Any = SparkSession.builder.getOrCreate()
        catalog: Any
        if self._is_hudi:
            catalog = open_hudi_tables(config, engine)
        else:
            catalog = merging_catalog(open_tables(config)[0], engine)
        self._table = catalog.create_table(
            OURS, NewTable(COLUMNS, (), DEFAULT_PROPERTIES, key=("id",))
        )
        store = DirectoryStore(folder)
        self._staging = Staging(store, PREFIX, GROUP)
        self._committer = TableCommitter(
            catalog,
            CommitHistory(store, PREFIX),
            SystemClock(),
            random.Random(1),
            group=GROUP,
            operations=EVERY_OPERATION,
        )

    def stage(self, ids: Ids) -> int:
        """Write changes; return their number."""
        number = len(self._committed)
        self._committed[number] = self._files.write(self._table, ids, number)
        return number

    def commit(self, number: int) -> None:
        """Commit changes as a coordinator does."""
        staged = self._staging.read(self._committed[number])
        result = self._committer.commit(OURS, staged, CommitRequest(f"commit-{number}", 1))
        if result.result is not Result.COMMITTED:
            raise SecorError(f"commit {number}: {result}")

    def commit_plain(self, number: int) -> None:
        """Write the same changes by Spark alone."""
        changes = self.spark.read.parquet(str(self._files.plain(number)))
        if self._is_hudi:
            self._write_hudi(changes)
        else:
            self._merge(changes)

    def count(self, table: str) -> int:
        """Return the rows of a table."""
        if self._is_hudi:
            return int(self.spark.read.format("hudi").load(self._location(table)).count())
        return int(self.spark.table(f"secor.{table}").count())

    def _merge(self, changes: Any) -> None:
        target = f"secor.{PLAIN}"
        fields = spark_columns(COLUMNS)
        names = ", ".join(f"{it.name} {it.dataType.simpleString()}" for it in fields)
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {target} ({names}) USING iceberg")
        changes.createOrReplaceTempView("changed")
        sets = ", ".join(f"{name} = s.{name}" for name in COLUMNS.names)
        values = ", ".join(f"s.{name}" for name in COLUMNS.names)
        self.spark.sql(
            f"MERGE INTO {target} AS t USING changed AS s ON t.id = s.id"  # noqa: S608
            " WHEN MATCHED AND s.operation = 1 THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {sets}"
            f" WHEN NOT MATCHED AND s.operation = 0 THEN INSERT ({', '.join(COLUMNS.names)})"
            f" VALUES ({values})"
        )

    def _write_hudi(self, changes: Any) -> None:
        settings = settings_of_table(self._table, hudi_settings_of(self._config, OURS))
        options = write_options(settings, PLAIN, ["id"], [])
        rows = changes.selectExpr(*COLUMNS.names, f"operation = 1 AS {DELETED}")
        rows.write.format("hudi").options(**options).mode("append").save(self._location(PLAIN))

    def _location(self, table: str) -> str:
        return str(self._folder.joinpath("warehouse", *table.split(".")))


def sizes_up_to(most: int) -> list[tuple[int, int]]:
    """Return those of ``SIZES`` in which nothing is above ``most``."""
    return [size for size in SIZES if max(size) <= most]


def measure(engine: str, folder: Path, most: int) -> Iterator[ChangeCost]:
    """Measure one engine below ``folder``, in this process; see ``sizes_up_to``."""
    for rows, changes in sizes_up_to(most):
        own = folder / f"{rows}-{changes}"
        own.mkdir()
        config = config_of(engine, own)
        with merging(config) as spark_engine, PeakMemory() as memory:
            tables = Tables(config, own, spark_engine)
            secor, plain = _measure_size(tables, rows, changes)
            if tables.count(OURS) != tables.count(PLAIN):
                raise SecorError(f"{engine}: the two tables differ")
            yield ChangeCost(engine, rows, changes, secor, plain, memory.peak)


def _measure_size(tables: Tables, rows: int, changes: int) -> tuple[Cost, Cost]:
    """Return the median cost of Secor's commits, and of those of Spark alone."""
    rng = np.random.default_rng(changes)
    costs: dict[Any, list[Cost]] = {tables.commit: [], tables.commit_plain: []}
    for ids in (np.arange(rows), _ids(rng, rows, changes)):  # the second compiles code
        number = tables.stage(ids)
        for commit in costs:
            commit(number)
    for turn in range(ROUNDS[changes]):
        number = tables.stage(_ids(rng, rows, changes))
        for commit in list(costs) if turn % 2 == 0 else reversed(list(costs)):
            cpu, began = cpu_seconds(), time.perf_counter()
            commit(number)
            costs[commit].append(Cost(time.perf_counter() - began, cpu_seconds() - cpu))
    secor, plain = (_median(of_commit) for of_commit in costs.values())
    return secor, plain


def _median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu_seconds for cost in costs),
    )


def _ids(rng: np.random.Generator, rows: int, changes: int) -> Ids:
    """Return different keys: the more rows a table has, the more of them are there already."""
    return rng.choice(max(2 * changes, rows), changes, replace=False)


def measure_apart(engine: str, folder: Path, most: int) -> Iterator[ChangeCost]:
    """Measure one engine in a process of its own.  Raises ``SecorError`` where that fails."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    if engine.startswith("hudi"):
        packages = spark_35(lambda line: print(line, file=sys.stderr))
        environment["PYTHONPATH"] = f"{packages}{os.pathsep}{_ROOT}"
        environment["SPARK_HOME"] = str(packages / "pyspark")
    command = [sys.executable, "-m", "tools.bench.changes", engine, str(folder), str(most)]
    with subprocess.Popen(
        command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield from costs_in(process.stdout)
    if process.returncode:
        raise SecorError(f"{engine}: ended with {process.returncode}")


def main(engine: str, folder: str, most: str) -> None:
    """Measure one engine; print each figure as a line of JSON."""
    for cost in measure(engine, Path(folder), int(most)):
        print(json.dumps(asdict(cost)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
