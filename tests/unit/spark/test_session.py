"""How Spark is started, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path

from secor.spark.session import java_options


def test_javas_options_of_a_user_keep_the_log_that_errors_name(tmp_path: Path) -> None:
    log = tmp_path / "spark" / "group.log"
    configuration = log.with_suffix(".log4j2.properties")
    own = f"-Dlog4j2.configurationFile={configuration}"
    assert java_options("", log) == own
    assert java_options("-XX:+UseSerialGC", log) == f"-XX:+UseSerialGC {own}"
    assert f"fileName = {log}" in configuration.read_text()
    chosen = "-Xss8m -Dlog4j2.configurationFile=/etc/spark.properties"
    assert java_options(chosen, log) == chosen
