"""How Spark is started, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path

from secor.spark.session import CLASS_PATH, java_options, put_next_to_parquet


def test_javas_options_of_a_user_keep_the_log_that_errors_name(tmp_path: Path) -> None:
    log = tmp_path / "spark" / "group.log"
    configuration = log.with_suffix(".log4j2.properties")
    own = f"-Dlog4j2.configurationFile={configuration}"
    assert java_options("", log) == own
    assert java_options("-XX:+UseSerialGC", log) == f"-XX:+UseSerialGC {own}"
    assert f"fileName = {log}" in configuration.read_text()
    chosen = "-Xss8m -Dlog4j2.configurationFile=/etc/spark.properties"
    assert java_options(chosen, log) == chosen


def test_hudis_bundle_is_on_the_class_path_where_it_is_among_the_jars() -> None:
    bundle, other = "/jars/hudi-spark3.5-bundle_2.12-1.2.0.jar", "/jars/hadoop-aws-3.3.4.jar"
    for jars, given, expected in (
        (f"{other},{bundle}", None, bundle),
        (f"file:{bundle}", "/own.jar", f"{bundle}:/own.jar"),
        (other, "/own.jar", "/own.jar"),
        (f"hdfs://host{bundle}", None, None),
    ):
        settings = {"spark.jars": jars, **({} if given is None else {CLASS_PATH: given})}
        put_next_to_parquet(settings)
        assert settings.get(CLASS_PATH) == expected, jars
