"""The part of ``secor verify`` that an engine does: tables as DuckDB or Spark reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from secor.config.model import Config
from secor.core.errors import ConfigurationError, Unavailable
from secor.tables.catalog import Table
from secor.verify.engine_filters import MOST, FilterCheck, TableReader
from secor.verify.tables import COLUMNS

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

DUCKDB, SPARK = "duckdb", "spark"

by_option = click.option(
    "--by",
    type=click.Choice([DUCKDB, SPARK]),
    help="Read Iceberg tables by this engine, and look values of each file up by its filters.",
)

LOOK_UP = {DUCKDB: MOST, SPARK: 60}
"""Values of a table that are looked up: a statement each, for which Spark takes seconds."""

look_up_option = click.option(
    "--look-up",
    type=click.IntRange(1),
    metavar="N",
    help="Of each table, look at most so many values up, evenly over files and columns."
    f"  Default: {LOOK_UP[DUCKDB]} by DuckDB, {LOOK_UP[SPARK]} by Spark.",
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


def origins(
    group: TableGroup, engine: TableReader | None, table: Table
) -> Iterator[pa.RecordBatch]:
    """Give where each row of a table came from, as the engine reads it.

    Raises ``ConfigurationError`` for a table that cannot be read.
    """
    branch = group.config.commit.branch
    if engine is None:
        yield from group.catalog.scan(table, branch, COLUMNS)
        return
    try:
        yield from engine.scan(table, branch, COLUMNS)
    except Unavailable as error:
        raise ConfigurationError(str(error)) from error


def check_filters(
    reader: TableReader,
    tables: Mapping[str, Table],
    branch: str,
    stopped: dict[str, str],
    most: int | None,
) -> FilterCheck:
    """Look values of each file up; note in ``stopped`` why a table could not be read."""
    check = FilterCheck(reader.name, most or LOOK_UP[reader.name.lower()])
    for name, table in sorted(tables.items()):
        if name in stopped:
            continue
        try:
            check.check(reader, table, branch)
        except (ConfigurationError, Unavailable) as error:
            stopped[name] = str(error)
    return check
