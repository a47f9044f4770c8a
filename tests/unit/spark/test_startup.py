"""A Spark that does not start: one line that says what to do, and in time."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext

from secor.core.errors import ConfigurationError, SecorError, Unavailable
from secor.spark.startup import get_or_start, require_jars


class _Builder:
    def config(self, name: str, value: str) -> Self:
        assert (name, value) == ("spark.executorEnv.PYTHONSAFEPATH", "1")
        return self


def test_a_java_that_ends_at_once_is_one_line_that_says_where_to_look() -> None:
    class Builder(_Builder):
        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            raise FileNotFoundError("java\nand more")

    with pytest.raises(ConfigurationError) as raised:
        get_or_start(Builder())
    assert "\n" not in str(raised.value)
    assert "(java): what Java said is printed above" in str(raised.value)


def test_what_java_prints_is_no_part_of_a_commands_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Builder(_Builder):
        def getOrCreate(self) -> str:  # noqa: N802  # Spark's
            subprocess.run(["echo", "# WARNING: of a library"], check=True)
            return "a session"

    for timeout in (None, 60):
        assert str(get_or_start(Builder(), timeout)) == "a session"
    print("{}")
    assert capfd.readouterr() == ("{}\n", 2 * "# WARNING: of a library\n")


def test_a_spark_that_hangs_as_it_starts_is_killed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = threading.Event()

    class Process:
        def kill(self) -> None:
            killed.set()

    class Gateway:
        proc = Process()

    class Builder(_Builder):
        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            assert killed.wait(60)

    monkeypatch.setattr(SparkContext, "_gateway", Gateway())
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"did not start within 0\.05 s \(spark\.timeout\)"):
        get_or_start(Builder(), 0.05)
    assert killed.is_set()
    assert time.monotonic() - began < 30


def test_the_last_words_of_sparks_log_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of an earlier start."""
    log = tmp_path / "spark.log"
    at = "2026-11-22 23:30:21.947"
    log.write_text(f"{at} ERROR a.B: an earlier one\n")
    lines = [f"{at} ERROR a.B: no master\n", "\tat a.B.c\n", f"{at} WARN a.B: and then\n"]
    usual = f"{at} WARN org.apache.hadoop.util.NativeCodeLoader: x\n"

    over = threading.Event()

    class Builder(_Builder):
        def __init__(self, words: list[str]) -> None:
            self.words = words

        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            with log.open("a") as file:
                file.writelines([*self.words, usual])
            over.wait(60)

    monkeypatch.setattr(SparkContext, "_gateway", None)
    endings = {
        0: "(spark.timeout); Spark's log is in",
        1: "last in its log: and then;",
        3: "last in its log: no master;",
    }
    for count, words in endings.items():
        with pytest.raises(Unavailable) as raised:
            get_or_start(Builder(lines[-count:] if count else []), 0.1, log)
        assert words in str(raised.value)
        assert "earlier" not in str(raised.value)
        assert str(log) in str(raised.value)
    over.set()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("java.lang.NumberFormatException", ConfigurationError),
        ("org.apache.spark.SparkException", Unavailable),
    ],
)
def test_wrong_settings_are_told_from_a_cluster_that_refuses(
    name: str, kind: type[SecorError]
) -> None:
    thrown = SimpleNamespace(
        _target_id="o1",
        getClass=lambda: SimpleNamespace(getName=lambda: name),
        toString=lambda: f"{name}: what is wrong\n\tand more",
    )

    class Builder(_Builder):
        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            raise Py4JJavaError("An error occurred", thrown)

    with pytest.raises(kind, match="what is wrong") as raised:
        get_or_start(Builder(), 60.0)
    assert "\n" not in str(raised.value)


def test_what_is_raised_in_time_is_raised_here() -> None:
    class Builder(_Builder):
        def getOrCreate(self) -> None:  # noqa: N802  # Spark's
            raise KeyError("x")

    with pytest.raises(KeyError):
        get_or_start(Builder(), 60.0)


def test_a_session_in_time_is_returned() -> None:
    class Builder(_Builder):
        def getOrCreate(self) -> str:  # noqa: N802  # Spark's
            return "session"

    assert str(get_or_start(Builder(), 60.0)) == "session"


def test_jars_that_do_not_exist_are_named(tmp_path: Path) -> None:
    """Spark itself goes on without them."""
    there = tmp_path / "a.jar"
    there.touch()
    elsewhere = "s3a://jars/b.jar,hdfs://host/c.jar"
    require_jars({})
    require_jars({"spark.jars": f"{there}, file:{there},file://{there},{tmp_path}/*,{elsewhere}"})
    for missing in ("/nowhere/x.jar", "file:/nowhere/x.jar", "local:///nowhere/x.jar"):
        with pytest.raises(ConfigurationError, match=r"nowhere/x\.jar, which does not exist"):
            require_jars({"spark.jars": f"{there},{missing}"})
