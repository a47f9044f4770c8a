"""The archive as a DataFrame by ``mapInArrow``, for Spark versions without Python data sources."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.spark.archive_location import open_archive
from secor.spark.columns import ddl
from secor.spark.options import ReadOptions, as_text, parse_options
from secor.spark.planning import plan
from secor.spark.reading import read_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def archive_frame(spark: SparkSession, path: str, options: Mapping[str, Any]) -> DataFrame:
    """List the archive and return the DataFrame that reads it, one partition per task."""
    texts = {name: as_text(value) for name, value in options.items()}
    if "minpartitions" not in {name.lower() for name in texts}:
        texts["minPartitions"] = str(max(1, spark.sparkContext.defaultParallelism))
    read_options = parse_options({**texts, "path": path})
    with open_archive(read_options) as archive:
        tasks = plan(archive, read_options)
    rows = [(bytearray(pickle.dumps(task)),) for task in tasks]
    pickled = spark.sparkContext.parallelize(rows, max(1, len(rows)))
    frame = spark.createDataFrame(pickled, "task binary")
    return frame.mapInArrow(partial(_read_pickled, read_options), ddl(read_options.columns))


def _read_pickled(
    options: ReadOptions, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the tasks in the only column of ``batches``, which the driver has made."""
    pickled = (pickled_row for batch in batches for pickled_row in batch.column(0).to_pylist())
    return read_tasks(options, (pickle.loads(pickled_row) for pickled_row in pickled))  # noqa: S301  # our own
