"""The JVM's process: Ctrl-C ends it whenever it comes, and leaves one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.core.errors import Unavailable
from secor.spark import jvm

ROOT = Path(__file__).parents[3]

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from pyspark import java_gateway
from secor.cli import main
from secor.core.errors import Unavailable
from secor.spark.startup import get_or_start

class Builder:
    def config(self, name, value):
        return self

    def getOrCreate(self):
        script = "trap 'echo last words' TERM; echo $$ >$1; echo noise; sleep 60 & wait; sleep 60"
        process = java_gateway.Popen(["bash", "-c", script, "-", sys.argv[1]])
        while WHILE:
            time.sleep(0.1)
        return process

def command(**options):
    session = get_or_start(Builder())
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        raise Unavailable("the JVM does not answer")  # as what fails on the way out says

main.cli.main = command
sys.exit(main.run([]))
"""


def _alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("starts", ["True", "False"], ids=["as_it_starts", "as_it_works"])
@pytest.mark.slow
def test_ctrl_c_is_one_line_and_leaves_no_jvm(
    starts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pid_file = tmp_path / "pid"
    program = PROGRAM.replace("WHILE", starts)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(pid_file)],
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        until = time.monotonic() + 60
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        try:
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == Exit.INTERRUPTED
    assert said.split() == ["noise", "interrupted"]
    assert not _alive(int(pid_file.read_text()))


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm._State, "interrupted", True)
    monkeypatch.setattr(jvm._State, "process", None)


def test_what_fails_after_an_interrupt_is_the_interrupt(
    interrupted: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (Unavailable("Spark gave up"), RuntimeError("answer of another call")):

        def fail(error: Exception = error, **_options: object) -> None:
            raise error

        monkeypatch.setattr(main.cli, "main", fail)
        assert main.run([]) == Exit.INTERRUPTED
        assert capsys.readouterr().err == "interrupted\n"


def test_an_interrupt_under_spark_submit_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its JVM is no child of ours; calls that were cut off get wrong answers all the same."""
    monkeypatch.setattr(jvm._State, "interrupted", False)
    monkeypatch.setattr(jvm._State, "process", None)
    with pytest.raises(KeyboardInterrupt):
        jvm._interrupt(signal.SIGINT, None)
    assert jvm.interrupted()


def test_no_jvm_is_started_after_an_interrupt(interrupted: None) -> None:
    with pytest.raises(FileNotFoundError):
        jvm._launch(["true"])


def test_what_java_prints_at_every_start_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    said = "WARNING: Using incubator modules: jdk.incubator.vector\\nOutOfMemoryError\\n"
    process = jvm._launch(["printf", said])
    process.wait(60)
    until = time.monotonic() + 10
    shown = ""
    while not shown and time.monotonic() < until:
        time.sleep(0.05)
        shown += capfd.readouterr().err
    assert shown == "OutOfMemoryError\n"


@pytest.mark.parametrize(
    ("master", "settings", "expected"),
    [
        ("local[2]", {}, {"SPARK_LOCAL_IP": "127.0.0.1"}),
        ("spark://host:7077", {}, {}),
        ("local[2]", {"spark.driver.host": "192.0.2.1"}, {}),
        ("local[2]", {"spark.driver.bindAddress": "0.0.0.0"}, {}),  # noqa: S104
    ],
)
def test_a_driver_alone_listens_on_loopback(
    master: str, settings: dict[str, str], expected: dict[str, str]
) -> None:
    environment: dict[str, str] = {}
    jvm.on_loopback(master, settings, environment)
    assert environment == expected
