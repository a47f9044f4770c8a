"""Starts Spark with the catalog of a table group, for commands that merge or maintain tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.config.model import Config

if TYPE_CHECKING:
    from secor.spark.hudi_engine import SparkHudiEngine
    from secor.spark.merge_engine import SparkMergeEngine


def log_of(config: Config) -> Path:
    """Return the file to which Spark logs, where ``spark-submit`` does not say."""
    return Path(config.local.directory) / "spark" / f"{config.group.name}.log"


def start_table_spark(
    config: Config, purpose: str, settings: Mapping[str, str] | None = None
) -> Any:
    """Start an application; return its ``SparkSession``, which has the group's catalog.

    ``settings`` have the last word over ``[spark]`` of the configuration; ``purpose`` is for
    the application's name.  Raises as ``start_spark``.
    """
    from secor.java.bundles import SPARK_HUDI, SPARK_ICEBERG
    from secor.spark.hudi_engine import hudi_session
    from secor.spark.session import start_spark
    from secor.spark.versions import require_spark_35
    from secor.wiring.hudi import hadoop_settings
    from secor.wiring.table_catalogs import spark_catalog_of

    name = f"secor tables {purpose} {config.group.name}"
    if config.table_format == "hudi":
        require_spark_35()
        return start_spark(
            name,
            {**hudi_session(hadoop_settings(config)), **config.spark.settings, **(settings or {})},
            {},
            bundle=SPARK_HUDI,
            log=log_of(config),
            progress=_print,
            needs="org.apache.hudi.DefaultSource",
            timeout=config.spark.timeout,
        )
    catalog = spark_catalog_of(config)
    return start_spark(
        name,
        {**catalog.settings, **config.spark.settings, **(settings or {})},
        catalog.environment,
        bundle=SPARK_ICEBERG,
        log=log_of(config),
        progress=_print,
        needs="org.apache.iceberg.spark.SparkCatalog",
        timeout=config.spark.timeout,
    )


@contextmanager
def table_session(
    config: Config, purpose: str, master: str | None, conf: Mapping[str, str] | None = None
) -> Iterator[Any]:
    """Give a session with the group's catalog, and stop it; ``conf`` has the last word."""
    settings = {**({} if master is None else {"spark.master": master}), **(conf or {})}
    spark = start_table_spark(config, purpose, settings)
    try:
        yield spark
    finally:
        spark.stop()


def _print(line: str) -> None:
    click.echo(line, err=True)


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
