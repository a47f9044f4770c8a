"""Hudi tables on a real Spark 3.5, beside the one of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from secor.sandbox.spark import quiet_java_options
from tests.spark.test_spark_35 import ROOT, SPARK_35

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_life_of_hudi_tables(spark_home: Path, tmp_path: Path) -> None:
    """Copy-on-write, merge-on-read and inserted rows; what is checked is in the script."""
    assert (SPARK_35 / "pyspark").is_dir(), "Spark 3.5 is not there: scripts/test installs it"
    script = Path(__file__).with_name("write_hudi_on_spark_35.py")
    finished = subprocess.run(
        [sys.executable, script, tmp_path, quiet_java_options(spark_home)],
        env={
            **os.environ,
            "PYTHONPATH": f"{SPARK_35}{os.pathsep}{ROOT}",
            "SPARK_HOME": str(SPARK_35 / "pyspark"),
        },
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-6000:]
    assert '"tables": 3' in finished.stdout
