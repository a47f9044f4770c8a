"""What Spark's commands need of the environment."""

from __future__ import annotations

import sys
from importlib.metadata import requires

import pytest

from secor.core.errors import ConfigurationError
from secor.spark.versions import require_pyspark, require_spark_35


@pytest.mark.parametrize(("package", "name"), [("pyspark", "PySpark"), ("pandas", "pandas")])
def test_a_missing_package_is_named_with_the_part_that_brings_it(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=rf"needs {name}, .*\[spark\]'"):
        require_pyspark("secor backfill run")
    with pytest.raises(ConfigurationError, match=rf"needs {name}, .*\[hudi\]'"):
        require_spark_35()


@pytest.mark.parametrize("extra", ["spark", "hudi", "sandbox"])
def test_whatever_brings_pyspark_brings_pandas_for_its_arrow_functions(extra: str) -> None:
    brought = [text for text in requires("secor") or () if f'extra == "{extra}"' in text]
    assert {"pyspark", "pandas"} <= {text.split("=")[0].rstrip(">") for text in brought}
