"""The engine that merges rows, for commands that commit to tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from secor.cli.table_spark import log_of, start_table_spark
from secor.config.model import Config

if TYPE_CHECKING:
    from secor.spark.hudi_engine import SparkHudiEngine
    from secor.spark.merge_engine import SparkMergeEngine


@contextmanager
def merging(config: Config) -> Iterator[SparkMergeEngine | SparkHudiEngine | None]:
    """Give the engine of a configuration, which starts when it is used; None without need."""
    if not config.changes_rows:
        yield None
        return
    engine = _engine(config)
    try:
        yield engine
    finally:
        engine.stop()


def _engine(config: Config) -> SparkMergeEngine | SparkHudiEngine:
    from secor.spark.hudi_engine import SparkHudiEngine
    from secor.spark.merge_engine import SparkMergeEngine
    from secor.wiring.table_catalogs import spark_catalog_of
    from secor.wiring.table_storage import open_own_store

    if config.table_format == "hudi":
        from secor.wiring.hudi import hudi_settings_of
        from secor.wiring.hudi_tasks import guard_of_tables, stores_of_tasks

        return SparkHudiEngine(
            lambda: start_table_spark(config, "run"),
            stores_of_tasks(config),
            partial(hudi_settings_of, config),
            guard_of_tables(config),
            log_place=str(log_of(config)),
            timeout=config.spark.timeout,
        )
    return SparkMergeEngine(
        lambda: start_table_spark(config, "run"),
        open_own_store(config),
        catalog=spark_catalog_of(config).name,
        log_place=str(log_of(config)),
        timeout=config.spark.timeout,
    )
