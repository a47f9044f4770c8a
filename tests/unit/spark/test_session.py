"""How Spark is started, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.core.errors import ConfigurationError
from secor.spark.session import get_or_start, java_options


def test_javas_options_of_a_user_keep_the_log_that_errors_name(tmp_path: Path) -> None:
    log = tmp_path / "spark" / "group.log"
    configuration = log.with_suffix(".log4j2.properties")
    own = f"-Dlog4j2.configurationFile={configuration}"
    assert java_options("", log) == own
    assert java_options("-XX:+UseSerialGC", log) == f"-XX:+UseSerialGC {own}"
    assert f"fileName = {log}" in configuration.read_text()
    chosen = "-Xss8m -Dlog4j2.configurationFile=/etc/spark.properties"
    assert java_options(chosen, log) == chosen


def test_a_java_that_ends_at_once_is_one_line_that_says_where_to_look() -> None:
    class Builder:
        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            raise FileNotFoundError("java\nand more")

    with pytest.raises(ConfigurationError) as raised:
        get_or_start(Builder())
    assert "\n" not in str(raised.value)
    assert "(java): what Java said is printed above" in str(raised.value)
