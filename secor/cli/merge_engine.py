"""The engine that merges rows, for commands that commit to tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from secor.cli.table_spark import log_of, start_table_spark
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
    from secor.wiring.table_storage import open_own_store, spark_catalog_of

    return SparkMergeEngine(
        lambda: start_table_spark(config, "run"),
        open_own_store(config),
        catalog=spark_catalog_of(config).name,
        log_place=str(log_of(config)),
    )
