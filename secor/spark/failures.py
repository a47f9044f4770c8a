"""Reduces what Spark and its gateway raise to one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from secor.core.errors import Unavailable

DEEPEST = 20
LONGEST = 500
"""Causes that are followed, and characters of one that are shown."""

_OF_PYTHON = (
    "An exception was thrown from the Python worker",  # PySpark's own text
    "org.apache.spark.api.python.PythonException: Traceback",  # Java's
)
_RAISED = re.compile(r"[A-Za-z_][\w.]*: .")
"""The last line of a traceback: what Python raised."""


@contextmanager
def failing_as(what: str, log_place: str) -> Iterator[None]:
    """Raise ``Unavailable`` that begins with ``what`` and names the place of Spark's log."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        why = _first_line(error)
        raise Unavailable(f"{what}: {why}; Spark's log is in {log_place}") from error


@contextmanager
def tidying() -> Iterator[None]:
    """Ignore Spark's errors while tidying up: the work itself, or its failure, matters more."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        yield


def _first_line(error: Exception) -> str:
    """Return the first line of the innermost cause; the outer ones only wrap it."""
    java: Any = getattr(error, "java_exception", None)
    text = str(error).strip()
    for _ in range(DEEPEST):
        if java is None:
            break
        text = str(java.toString())
        java = java.getCause()
    lines = (text or type(error).__name__).splitlines()
    raised = [line for line in lines if _RAISED.match(line)]
    if raised and any(begin in lines[0] for begin in _OF_PYTHON):
        return raised[-1][:LONGEST]
    return lines[0][:LONGEST]
