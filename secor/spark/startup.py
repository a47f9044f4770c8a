"""Starts a Spark session within a time limit, and reports a failure in one line."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from secor.core.errors import ConfigurationError, Unavailable
from secor.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = ("file", "local")
_ERROR = re.compile(r"^\d{4}-\S+ \S+ ERROR \S+: (.*)$", re.MULTILINE)
_WARNING = re.compile(
    r"^\d{4}-\S+ \S+ WARN (?!org\.apache\.(?:hadoop|spark)\.util\.)\S+: (.*)$", re.MULTILINE
)
"""Lines as ``session.start_spark`` lets Spark write them; those of ``util`` are always there."""

_SAFE_PATH = "spark.executorEnv.PYTHONSAFEPATH"
"""Keeps the working directory out of the workers' ``sys.path``: a checkout there, named ``secor``,
would be taken for the package."""

_LONGEST = 300
_WRONG = (
    "java.lang.IllegalArgumentException",
    "java.lang.NumberFormatException",
    "org.apache.spark.SparkIllegalArgumentException",
)
"""What Spark throws as it starts where a setting is wrong.  A ``SparkException`` may also mean a
cluster that refuses just now.
"""


def require_jars(settings: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError`` for a jar on this machine that does not exist.

    Spark would write that to its log alone, and go on without it.
    """
    for jar in filter(None, map(str.strip, settings.get("spark.jars", "").split(","))):
        scheme, mark, location = jar.partition(":")
        if mark and scheme not in _LOCAL:
            continue  # Spark fetches it
        path = Path(location if mark else jar)
        if not (path.exists() or "*" in path.name):
            raise ConfigurationError(
                f"spark.settings: spark.jars names {jar}, which does not exist"
            )


def get_or_start(
    builder: Any, timeout: float | None = None, log: Path | None = None
) -> SparkSession:
    """Return the builder's session.

    After ``timeout`` seconds its JVM is killed.  What Spark writes to ``log`` meanwhile is reported
    with what it raises.  Raises ``ConfigurationError`` where Spark cannot start, ``Unavailable``
    where it did not, or not in time.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkRuntimeError

    began = _size(log)
    builder = builder.config(_SAFE_PATH, "1")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started it
        jvm.say_starting()
    try:
        with _printing_to_stderr(), jvm.starting():
            return cast("SparkSession", _within(timeout, builder))
    except Empty as error:
        # A JVM that hangs would keep its ports and memory, and the next start would wait for it.
        kill_jvm()
        why = f"Spark did not start within {timeout:g} s (spark.timeout)"
        raise Unavailable(why + _last_words(log, began)) from error
    except Py4JJavaError as error:
        thrown = error.java_exception
        why = str(thrown.toString()).splitlines()[0] + _last_words(log, began)
        if str(thrown.getClass().getName()) in _WRONG:
            raise ConfigurationError(f"Spark does not start with these settings: {why}") from error
        raise Unavailable(f"Spark does not start: {why}") from error
    except (PySparkRuntimeError, FileNotFoundError) as error:
        raise ConfigurationError(
            f"Spark does not start ({str(error).splitlines()[0]}): what Java said is printed"
            " above; it needs Java 17 or 21 (JAVA_HOME), and settings of [spark] that Java takes,"
            " such as spark.driver.memory"
        ) from error


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Let a process that starts meanwhile, and what this one prints, write to standard error.

    What libraries in the JVM print is no part of a command's output, such as JSON.
    """
    sys.stdout.flush()
    stdout = os.dup(1)
    # The JVM inherits descriptors, not Python's ``sys.stdout``.
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def _within(timeout: float | None, builder: Any) -> Any:
    """Start it in another thread: PySpark takes SIGINT where it is started in the main one."""
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def start() -> None:
        try:
            answers.put((builder.getOrCreate(), None))
        except BaseException as error:  # noqa: BLE001  # raised again by the waiting thread
            answers.put((None, error))

    # A daemon, so that a process whose Spark hangs can end.
    threading.Thread(target=start, name="start-spark", daemon=True).start()
    try:
        session, error = answers.get(timeout=timeout)
    except KeyboardInterrupt:
        jvm.give_up()
        raise
    if error is not None:
        raise error
    return session


def _size(log: Path | None) -> int:
    return log.stat().st_size if log is not None and log.exists() else 0


def _last_words(log: Path | None, began: int) -> str:
    """Return the last error in a log since it had ``began`` bytes, or the last warning."""
    if log is None or not log.exists():
        return ""
    data = log.read_bytes()
    text = data[began if began <= len(data) else 0 :].decode(errors="replace")
    for words in (_ERROR.findall(text), _WARNING.findall(text)):
        if words:
            return f"; last in its log: {words[-1].rstrip()[:_LONGEST]}; Spark's log is in {log}"
    return f"; Spark's log is in {log}"


def kill_jvm() -> None:
    """Kill the JVM that this process has started, if it has."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()


def require_class(spark: SparkSession, name: str) -> None:
    """Raise ``ConfigurationError`` unless Spark has a class: else its first use would fail."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError as error:
        raise ConfigurationError(
            f"Spark has no {name}: spark.jars and spark.jars.packages of [spark] settings, or the"
            " --jars of spark-submit, leave out the jars of the table format; without such"
            " settings Secor fetches them"
        ) from error
