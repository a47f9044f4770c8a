"""One quiet Spark for all tests of this folder."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from secor.java.bundles import SPARK_ICEBERG
from secor.java.jars import jar_folder
from secor.java.runtime import spark_java_home
from secor.sandbox.sandbox import quiet
from secor.sandbox.spark import quiet_java_options
from secor.spark import register
from secor.tables.spark_catalog import EXTENSIONS


@pytest.fixture(scope="package")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of Spark's own; the environment is set so that any Spark starts."""
    place = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("JAVA_HOME", str(spark_java_home(place)))
        yield place


@pytest.fixture(scope="package")
def spark(spark_home: Path) -> Iterator[SparkSession]:
    """The session; its JVM ends with this folder's tests."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # Short tests: the second compiler would take more time than it gives.
        .config(
            "spark.driver.extraJavaOptions",
            f"{quiet_java_options(spark_home)} -XX:TieredStopAtLevel=1",
        )
        .config("spark.driver.memory", "768m")
        .config("spark.local.dir", str(spark_home))
        .config("spark.sql.warehouse.dir", str(spark_home / "warehouse"))
        .config("spark.sql.extensions", EXTENSIONS)
        .config("spark.jars", ",".join(map(str, jar_folder(SPARK_ICEBERG, quiet).glob("*.jar"))))
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None
    del gateway, session
    gc.collect()  # PySpark leaves sockets to the collector: here, not in somebody else's test
