"""Hudi tables on a real Spark 3.5, beside the one of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from secor.sandbox.spark import quiet_java_options
from tests.spark.test_spark_35 import spark_35_variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_life_of_hudi_tables(spark_home: Path, tmp_path: Path) -> None:
    """Copy-on-write, merge-on-read and inserted rows; what is checked is in the script."""
    script = Path(__file__).with_name("write_hudi_on_spark_35.py")
    finished = subprocess.run(
        [sys.executable, script, tmp_path, quiet_java_options(spark_home)],
        env={**os.environ, **spark_35_variables()},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    print(finished.stdout)  # how long each scene took
    assert finished.returncode == 0, finished.stderr[-6000:]
    assert '"tables": 3' in finished.stdout
