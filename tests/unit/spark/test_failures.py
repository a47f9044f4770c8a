"""What is said of Spark's errors: one line, with the innermost cause and the log's place."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from secor.core.errors import Unavailable
from secor.spark.failures import failing_as, tidying


class Thrown:
    """A Java exception as the gateway shows it."""

    def __init__(self, text: str, cause: Thrown | None = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:  # noqa: N802  # Java's
        return self._text

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self._cause


class GatewayError(Py4JError):
    def __init__(self, thrown: Thrown) -> None:
        super().__init__("An error occurred while calling o1.sql.")
        self.java_exception = thrown


TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 1, in main
secor.core.errors.AccessDenied: no right to read
"""


@pytest.mark.parametrize(
    ("innermost", "line"),
    [
        ("java.io.IOException: No space left on device\n\tat a.b", "No space left on device"),
        (f"org.apache.spark.api.python.PythonException: {TRACEBACK}", "no right to read"),
    ],
)
def test_the_innermost_cause_is_one_line(innermost: str, line: str) -> None:
    thrown = Thrown("org.apache.spark.SparkException: Job aborted", Thrown(innermost))
    with (
        pytest.raises(Unavailable, match=f"^the table: .*{line}; Spark's log is in here$"),
        failing_as("the table", "here"),
    ):
        raise GatewayError(thrown)


def test_an_error_of_pyspark_is_what_the_worker_raised() -> None:
    text = "An exception was thrown from the Python worker. Please see the stack trace below."
    with (
        pytest.raises(Unavailable, match=r"^the table: .*no right to read; Spark's log"),
        failing_as("the table", "here"),
    ):
        raise PySparkException(f"\n  {text}\n{TRACEBACK}")


def fail_twice() -> None:
    with failing_as("the table", "here"):
        try:
            raise GatewayError(Thrown("gone"))
        finally:
            with tidying():
                raise GatewayError(Thrown("the session has ended, too"))


def test_tidying_hides_no_earlier_error() -> None:
    with pytest.raises(Unavailable, match="the table: gone;"):
        fail_twice()
