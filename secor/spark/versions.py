"""The versions of Spark that the package supports."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

from secor.core.errors import ConfigurationError
from secor.core.installing import how_to_install


def require_spark(spark: Any, least: tuple[int, int], what: str) -> None:
    """Raise ``ConfigurationError`` when this session's Spark is too old, or none is installed."""
    require_pyspark(what)
    import pyspark

    for name, version in (("Spark", spark.version), ("PySpark", pyspark.__version__)):
        numbers = re.match(r"(\d+)\.(\d+)", version)
        installed = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
        if installed < least:
            instead = (
                "use secor.spark.read_archive(spark, path), which has the same options and columns"
                if installed >= (3, 5)
                else "use a newer one"
            )
            raise ConfigurationError(
                f"{what} needs {name} {least[0]}.{least[1]} or newer, and this is {version}:"
                f" {instead}"
            )


def require_pyspark(what: str, extra: str = "spark") -> None:
    """Raise ``ConfigurationError`` when PySpark, or pandas for it, is not installed.

    PySpark does not depend on pandas, but refuses ``mapInArrow`` without it.
    """
    for package, name in (("pyspark", "PySpark"), ("pandas", "pandas")):
        if find_spec(package) is None:
            raise ConfigurationError(
                f"{what} needs {name}, which is not installed: {how_to_install(extra)}"
            )


def require_spark_35() -> None:
    """Raise ``ConfigurationError`` unless this is PySpark 3.5, the newest that Hudi knows."""
    require_pyspark("writing Hudi tables", "hudi")
    import pyspark

    if not pyspark.__version__.startswith("3.5."):
        raise ConfigurationError(
            f"Hudi tables are written by PySpark 3.5, and this is {pyspark.__version__}: make an"
            " environment of its own, by scripts/hudi-environment DIRECTORY, or with Python's venv:"
            f" {how_to_install('hudi')}"
        )


def pushes_filters() -> bool:
    """Return whether this PySpark pushes filters down to Python data sources."""
    from pyspark.sql.datasource import DataSourceReader

    return hasattr(DataSourceReader, "pushFilters")
