"""The JVM that PySpark starts: Ctrl-C ends it, whenever it comes, and its noise is left out."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

_NOISE = (
    b"WARNING: Using incubator modules",
    b"Setting default log level to ",
    b"To adjust logging level use ",
)
"""What Java and Spark print at every start, and no option keeps them from it."""

_PATIENCE = 5.0
"""Seconds for a JVM to stop and to remove its temporary files; then it is killed."""


class _State:
    process: subprocess.Popen[bytes] | None = None
    interrupted = False


def interrupted() -> bool:
    """Return whether Ctrl-C has ended the JVM: what fails afterwards fails for that reason."""
    return _State.interrupted


@contextmanager
def starting() -> Iterator[None]:
    """Let PySpark start its JVM in the block as a process that we can end.

    PySpark gives the process away only when the JVM has answered, and its own handler of SIGINT
    calls a JVM that may be busy or gone.
    """
    from pyspark import java_gateway

    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it would log a JVM that has gone
    _take_interrupts()
    launcher: Any = java_gateway
    own = launcher.Popen
    # PySpark has no other place where its process can be had before the JVM has answered.
    launcher.Popen = _launch
    try:
        yield
    finally:
        launcher.Popen = own


def _launch(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    if interrupted():
        raise FileNotFoundError("interrupted before Java was started")
    # A process group of its own: a terminal's Ctrl-C is for us alone, and we can end spark-submit's
    # scripts together with the JVM.
    process = subprocess.Popen(
        command,
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    _State.process = process
    if interrupted():
        _send(signal.SIGKILL)
    assert process.stdout is not None
    threading.Thread(target=_relay, args=(process.stdout,), name="java-says", daemon=True).start()
    return process


def _relay(output: IO[bytes]) -> None:
    """Pass on what the JVM prints, to standard error, but for noise and a JVM's last words."""
    for line in output:
        if not (_State.interrupted or line.startswith(_NOISE)):
            with suppress(OSError):
                os.write(2, line)


def _take_interrupts() -> None:
    """End the JVM by Ctrl-C, unless the process has a handler of its own, as a daemon has."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    give_up()
    raise KeyboardInterrupt


def give_up() -> None:
    """Start no JVM any more, and end the one that was started: an interrupt came.

    That of spark-submit, which is not ours, ends with this process.
    """
    _State.interrupted = True
    _send(signal.SIGTERM)


def end() -> None:
    """Wait for the JVM that was asked to end; kill it when it takes too long."""
    process = _State.process
    if process is None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # we are ending
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    _send(signal.SIGKILL)


def _send(number: signal.Signals) -> None:
    # Not of a process that has ended: its id may be another group's by now.
    if _State.process is not None and _State.process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(_State.process.pid, number)


def on_loopback(master: str, settings: Mapping[str, str], environment: Any = os.environ) -> None:
    """Let a driver on this machine alone listen on the loopback address, unless the user chose."""
    chosen = {"spark.driver.host", "spark.driver.bindAddress"} & settings.keys()
    if master.startswith("local") and not chosen:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def say_starting() -> None:
    """Say it to a waiting person; it takes ten seconds and more."""
    if sys.stderr.isatty():
        print("starting Spark …", file=sys.stderr, flush=True)
