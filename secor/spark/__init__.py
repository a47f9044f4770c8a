"""Spark: the archive as DataFrames, backfills, and rows merged into tables.

Spark 4: ``register(spark)``, then ``spark.read.format("secor").load("s3://bucket/prefix")``.
Spark 3.5: ``read_archive(spark, "s3://bucket/prefix")``.  The options are those of
``secor.spark.options``, the columns those of ``secor.spark.columns``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secor.spark.versions import pushes_filters, require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_archive", "register"]


def register(spark: SparkSession) -> None:
    """Make the format ``secor`` known to this session, for batch and streaming reads.

    From Spark 4.1 on filters of queries are pushed down to it; the session's setting for
    that, which is off by default, is switched on.  Raises ``ConfigurationError`` before Spark 4.0.
    """
    require_spark(spark, (4, 0), "the format 'secor'")
    from secor.spark.source import FilteringDataSource, SecorDataSource

    if not pushes_filters():
        spark.dataSource.register(SecorDataSource)
        return
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(FilteringDataSource)


def read_archive(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    """Return the archive below ``path`` as a DataFrame, on Spark 3.5 or newer.

    ``options`` are those of the format ``secor``; lists, numbers, booleans and dates may be
    given as such.  The objects are listed now, and read when the DataFrame is.
    Raises ``ConfigurationError``, ``AccessDenied``, ``Unavailable``.
    """
    require_spark(spark, (3, 5), "read_archive")
    from secor.spark.frames import archive_frame

    return archive_frame(spark, path, options)
