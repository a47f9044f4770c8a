"""Run by a test, with Spark 3.5 first on the path: prints what ``read_archive`` gives there."""

from __future__ import annotations

import json
import sys

import pyspark
from pyspark.sql import SparkSession

from secor.core.errors import ConfigurationError
from secor.spark import read_archive, register


def main(archive: str, java_options: str, *selected: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    frame = read_archive(spark, archive, corruptObjects="skip")
    rows = frame.selectExpr(*selected)
    try:
        register(spark)
        refused = ""
    except ConfigurationError as error:
        refused = str(error)
    told = {
        "version": pyspark.__version__,
        "schema": frame.schema.simpleString(),
        "rows": [list(one.asDict(recursive=True).values()) for one in rows.collect()],
        "refused": refused,
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
