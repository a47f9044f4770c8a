"""Starts Spark with the catalog of a table group, for commands that merge or maintain tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from secor.config.model import Config


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
    from secor.java.bundles import SPARK_ICEBERG
    from secor.spark.session import start_spark
    from secor.wiring.table_storage import spark_catalog_of

    catalog = spark_catalog_of(config)
    return start_spark(
        f"secor tables {purpose} {config.group.name}",
        {**catalog.settings, **config.spark.settings, **(settings or {})},
        catalog.environment,
        bundle=SPARK_ICEBERG,
        log=log_of(config),
        progress=lambda line: click.echo(line, err=True),
    )
