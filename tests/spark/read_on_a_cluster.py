"""Submitted by a test: reads an archive where Secor is only what ``--py-files`` brings.

read_on_a_cluster.py ARCHIVE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pyarrow as pa
from pyspark.sql import SparkSession

import secor.spark


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give for each batch the file that Secor is imported from on an executor."""
    spec = find_spec("secor")
    rows = sum(batch.num_rows for batch in batches)
    place = "" if spec is None or spec.origin is None else spec.origin
    yield pa.RecordBatch.from_pydict({"place": [place], "messages": [rows]})


def main(archive: str) -> None:
    """Print what was read, and from where."""
    spark = SparkSession.builder.getOrCreate()
    secor.spark.register(spark)
    frame = (
        spark.read.format("secor")
        .option("columns", "offset,value")
        .option("splitSize", "1MiB")
        .load(archive)
    )
    found = frame.mapInArrow(whereabouts, "place string, messages bigint").collect()
    told = {
        "messages": sum(row.messages for row in found),
        "tasks": len(found),
        "places": sorted({row.place for row in found}),
        "driver": secor.spark.__file__,
        "archive": secor.spark.read_archive(spark, archive, columns="offset").count(),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
