"""A directory of objects as one table, as DuckDB and Spark have it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from secor.java.bundles import Bundle
from secor.java.jars import jar_folder
from secor.java.runtime import spark_java_home
from secor.sandbox.sandbox import quiet
from secor.sandbox.spark import quiet_java_options

_AVRO = Bundle("spark-avro-4.0.2", ("org.apache.spark:spark-avro_2.13:4.0.2",), "1 MB")
"""What Spark needs for Avro."""


@dataclass(frozen=True, slots=True)
class Table:
    """How many messages a table has, and how many rows; the rows of each value of its first
    partition column, where it has one, each asked for by a filter.
    """

    messages: int
    rows: int
    by_directory: Mapping[str, int]


def table_of(folder: Path) -> Table | None:
    """Return what DuckDB finds; None for Avro, which it cannot read."""
    kind = _format_of(folder)
    if kind == "avro":
        return None
    options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
    if kind == "parquet":
        source = f"read_parquet('{folder}/**/*', {options})"
    else:
        source = f"read_json('{folder}/**/*', format = 'newline_delimited', {options})"
    connection = duckdb.connect()

    def ask(query: str, *values: str) -> tuple[int, ...]:
        row = connection.execute(query, values).fetchone()
        assert row is not None
        return row

    messages, rows = ask(f"SELECT count(DISTINCT id), count(*) FROM {source}")  # noqa: S608
    column, values = _partition_of(folder)
    query = f'SELECT count(*) FROM {source} WHERE CAST("{column}" AS VARCHAR) = ?'  # noqa: S608
    return Table(messages, rows, {value: ask(query, value)[0] for value in values})


def spark_table_of(folder: Path) -> Table:
    """Return what Spark finds, which takes the types of one file for all."""
    spark = _spark()
    kind = _format_of(folder)
    reader = spark.read.format(kind)
    if kind == "parquet":
        reader = reader.schema(_without_times(folder))
    frame = reader.load(str(folder))
    column, values = _partition_of(folder)
    by_directory = {
        value: frame.where(sql.col(column).cast("string") == value).count() for value in values
    }
    frame.foreach(lambda row: None)  # all columns of all files, as their types are
    return Table(frame.select("id").distinct().count(), frame.count(), by_directory)


def _without_times(folder: Path) -> StructType:
    """Return a file's schema without Connect's ``Time``: Spark refuses whole files for it."""
    schema = pq.read_schema(next(path for path in folder.rglob("*") if path.is_file()))
    times = [item.name for item in schema if pa.types.is_time(item.type)]
    for name in times:
        schema = schema.remove(schema.get_field_index(name))
    return from_arrow_schema(schema)


def _format_of(folder: Path) -> str:
    path = next(path for path in folder.rglob("*") if path.is_file())
    with path.open("rb") as file:
        begin = file.read(4)
    return {b"PAR1": "parquet", b"Obj\x01": "avro"}.get(begin, "json")


def _partition_of(folder: Path) -> tuple[str, list[str]]:
    """Return the first partition column and its values; no values where there is none."""
    parts = [path.name.partition("=") for path in folder.iterdir() if "=" in path.name]
    column = parts[0][0] if parts else ""
    return column, sorted(unquote(value) for _, _, value in parts)


@cache
def _spark() -> SparkSession:
    folder = Path(tempfile.mkdtemp(prefix="secor-conformance-spark-"))
    os.environ |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(spark_java_home(folder)),
    }
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "768m")
        .config("spark.driver.extraJavaOptions", quiet_java_options(folder))
        # Its own decoder fails on the connectors' small decimals, which are bytes in dictionaries.
        .config("spark.sql.parquet.enableVectorizedReader", "false")
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        .config("spark.local.dir", str(folder))
        .config("spark.jars", ",".join(map(str, jar_folder(_AVRO, quiet).glob("spark-avro*.jar"))))
        .getOrCreate()
    )
