"""The part of ``secor verify`` that an engine does: tables as DuckDB or Spark reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from secor.config.model import Config
from secor.core.errors import ConfigurationError, Unavailable
from secor.tables.catalog import Table
from secor.tables.engine_filters import FilterCheck, TableReader
from secor.tables.verification import COLUMNS

if TYPE_CHECKING:
    from secor.wiring.table_group import TableGroup

DUCKDB, SPARK = "duckdb", "spark"

by_option = click.option(
    "--by",
    type=click.Choice([DUCKDB, SPARK]),
    help="Read Iceberg tables by this engine, and look values of each file up by its filters.",
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
def _spark(config: Config) -> Iterator[TableReader]:
    from secor.cli.table_spark import log_of, start_table_spark
    from secor.spark.merge_engine import table_name
    from secor.spark.table_reader import SparkTables, read_head

    spark = start_table_spark(config, "verify")
    try:
        yield SparkTables(
            lambda table, branch: read_head(
                spark.newSession(),
                table_name(config.catalog.name, table.identifier),
                table.head(branch),
            ),
            str(log_of(config)),
        )
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
    reader: TableReader, tables: Mapping[str, Table], branch: str, stopped: dict[str, str]
) -> FilterCheck:
    """Look values of each file up; note in ``stopped`` why a table could not be read."""
    check = FilterCheck(reader.name)
    for name, table in sorted(tables.items()):
        if name in stopped:
            continue
        try:
            check.check(reader, table, branch)
        except (ConfigurationError, Unavailable) as error:
            stopped[name] = str(error)
    return check
