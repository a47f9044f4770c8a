"""Calls Iceberg's procedures in Spark, and translates their failures into the program's errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from secor.core.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def call(spark: SparkSession, statement: str) -> dict[str, Any]:
    """Run one ``CALL``; return what it says of itself, by name.

    Raises ``Unavailable`` with the first line of Spark's error: the table is as it was.
    """

    def run() -> list[Any]:
        return list(spark.sql(statement).collect())

    with ThreadPoolExecutor(1, thread_name_prefix="spark") as pool:
        future = pool.submit(run)
    error = future.exception()
    if error is None:
        rows = future.result()
        return dict(rows[0].asDict()) if rows else {}
    if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
        raise error
    raise Unavailable(f"{statement}: {first_line(error)}") from error


def rows_of(spark: SparkSession, statement: str) -> Iterator[tuple[Any, ...]]:
    """Give the rows of a query, those of one of Spark's partitions at a time.

    Raises ``Unavailable`` as ``call``.
    """
    try:
        for row in spark.sql(statement).toLocalIterator():
            yield tuple(row)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
            raise
        raise Unavailable(f"{statement}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without Java's traceback."""
    lines = [line.strip(" \t:") for line in str(error).splitlines() if line.strip(" \t:")]
    causes = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (causes or lines or [type(error).__name__])[0]
