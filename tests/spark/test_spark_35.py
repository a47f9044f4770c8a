"""``read_archive`` on a real Spark 3.5, beside the one of the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from secor.core.model import OffsetRange
from secor.formats import make_format
from secor.sandbox.spark import quiet_java_options
from secor.spark import read_archive
from tests.fakes.archive import Shelf
from tests.programs import ROOT, spark_35
from tests.unit.formats.sequencefile_messages import batch, varied

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves sockets to the collector
]

SELECTED = (
    "partition",
    "offset",
    "unix_millis(timestamp)",
    "timestamp_type",
    "hex(key)",
    "hex(value)",
    "transform(headers, one -> named_struct('key', one.key, 'value', hex(one.value)))",
    "generation",
    "output_partition",
    "object",
)


def spark_35_variables() -> dict[str, str]:
    """Return the variables of the environment with which Python runs Spark 3.5."""
    packages = spark_35(print)
    return {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "SPARK_HOME": str(packages / "pyspark"),
    }


def on_spark_35(archive: Path, home: Path) -> dict[str, Any]:
    environment = {**os.environ, **spark_35_variables()}
    script = Path(__file__).with_name("read_on_spark_35.py")
    done = subprocess.run(
        [sys.executable, script, archive, quiet_java_options(home), *SELECTED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_read_archive_gives_on_spark_35_what_it_gives_on_spark_4(
    spark: SparkSession, spark_home: Path, tmp_path: Path
) -> None:
    rows = varied(200)
    for name, start, end in (("sequencefile", 0, 120), ("parquet", 120, 200)):
        shelf = Shelf(tmp_path / "store", make_format(name), prefix="")
        shelf.put(batch(rows[start:end]), OffsetRange(rows[start]["offset"], 1000))
    broken = shelf.put(batch(varied(1)), OffsetRange(0, 1), output_partition="offset=1")
    shelf.change(broken, lambda data: data[:-3])

    told = on_spark_35(tmp_path / "store", spark_home)
    frame = read_archive(spark, str(tmp_path / "store"), corruptObjects="skip")
    ours = [list(one.asDict(True).values()) for one in frame.selectExpr(*SELECTED).collect()]
    assert told["version"].startswith("3.5.")
    assert told["schema"] == frame.schema.simpleString()
    assert sorted(told["rows"]) == sorted(ours)
    assert len(ours) == 200
    assert "read_archive" in told["refused"]
