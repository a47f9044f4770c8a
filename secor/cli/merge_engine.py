"""The engine that merges rows, for commands that commit to tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.config.model import Config

if TYPE_CHECKING:
    from secor.spark.merge_engine import SparkMergeEngine


@contextmanager
def merging(config: Config) -> Iterator[SparkMergeEngine | None]:
    """Give the engine of a configuration, which starts when it is used; None without need."""
    if not config.changes_rows:
        yield None
        return
    engine = _engine(config)
    try:
        yield engine
    finally:
        engine.stop()


def _engine(config: Config) -> SparkMergeEngine:
    from secor.spark.merge_engine import SparkMergeEngine
    from secor.spark.session import start_spark
    from secor.wiring.tables import open_own_store, spark_catalog_of

    catalog = spark_catalog_of(config)
    folder = Path(config.local.directory) / "spark"
    log = folder / f"{config.group.name}.log"

    def start() -> object:
        return start_spark(
            f"secor-tables {config.group.name}",
            {**catalog.settings, **config.spark.settings},
            catalog.environment,
            jars=_jars,
            java_home=lambda: _java_home(folder),
            log=log,
        )

    return SparkMergeEngine(start, open_own_store(config), catalog=catalog.name, log_place=str(log))


def _jars() -> Path:
    from secor.sandbox.jars import SPARK_ICEBERG, jar_folder

    return jar_folder(SPARK_ICEBERG, lambda line: click.echo(line, err=True))


def _java_home(folder: Path) -> Path:
    from secor.sandbox.spark import spark_java_home

    return spark_java_home(folder)
