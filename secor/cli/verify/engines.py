"""The part of ``secor verify`` that an engine does: tables as DuckDB or Spark reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.tables.catalog import Table
from secor.verify.engine_filters import LOOK_UP, TableReader

DUCKDB, SPARK = "duckdb", "spark"

by_option = click.option(
    "--by",
    type=click.Choice([DUCKDB, SPARK]),
    help="Read Iceberg tables by this engine, and look values of each file up by its filters.",
)

look_up_option = click.option(
    "--look-up",
    type=click.IntRange(1),
    metavar="N",
    help="Of each table, look at most so many values up, evenly over files and columns."
    f"  Default: {LOOK_UP['duckdb']} by DuckDB, {LOOK_UP['spark']} by Spark.",
)


@contextmanager
def reading_by(config: Config, engine: str | None) -> Iterator[TableReader | None]:
    """Open an engine that reads the group's tables; None without one.

    Raises ``ConfigurationError`` for one that is not installed, ``Unavailable``.
    """
    if engine is None:
        yield None
        return
    if config.table_format == "hudi":
        raise ConfigurationError(
            f"--by {engine} reads Iceberg tables, and those of {config.group.name} are Hudi's"
        )
    if engine == DUCKDB:
        from secor.wiring.table_catalogs import open_duckdb

        with open_duckdb() as tables:
            yield tables
        return
    with _spark(config) as tables:
        yield tables


@contextmanager
def reading_rows(config: Config, engine: str | None) -> Iterator[TableReader | None]:
    """Open an engine that reads rows: as ``reading_by``, and Spark where tables are Hudi's."""
    if config.table_format == "hudi" and engine in (None, SPARK):
        with _spark(config) as tables:
            yield tables
        return
    with reading_by(config, engine) as reader:
        yield reader


@contextmanager
def _spark(config: Config) -> Iterator[TableReader]:
    from secor.cli.tables.spark import log_of, start_table_spark
    from secor.spark.hudi_engine import read_table
    from secor.spark.merge_engine import table_name
    from secor.spark.table_reader import SparkTables, read_head

    # The same manifests are read for each value that is looked up.
    cached = {f"spark.sql.catalog.{config.catalog.name}.io.manifest.cache-enabled": "true"}
    spark = start_table_spark(config, "verify", {**cached, **config.spark.settings})

    def read(table: Table, branch: str) -> Any:
        session = spark.newSession()
        if config.table_format == "hudi":
            return read_table(session, table)
        name = table_name(config.catalog.name, table.identifier)
        return read_head(session, name, table.head(branch))

    try:
        yield SparkTables(read, str(log_of(config)))
    finally:
        spark.stop()
