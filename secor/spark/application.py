"""One Spark application that writes tables, with a session for each; it is started when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from secor.core.errors import Unavailable
from secor.spark.failures import failing_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableApplication:
    """One application, for any thread.

    PySpark has one JVM in the life of a process: when it is gone, only a new process can go on.
    """

    def __init__(self, start: Callable[[], SparkSession], log_place: str) -> None:
        """``log_place`` says where Spark logs."""
        self._start = start
        self._log_place = log_place
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._sessions: dict[str, SparkSession] = {}

    def start(self) -> SparkSession:
        """Start Spark now, if it does not run.  Raises ``Unavailable``."""
        with self._lock:
            if self._spark is not None and _has_ended(self._spark):
                raise Unavailable("Spark has ended, and this process can start no other")
            if self._spark is None:
                with failing_as("Spark could not be started", self._log_place):
                    self._spark = self._start()
            return self._spark

    @property
    def ended(self) -> bool:
        """Whether it was started and is gone: its JVM died, or its cluster ended it."""
        with self._lock:
            return self._spark is not None and _has_ended(self._spark)

    def stop(self) -> None:
        """End the application, if one runs."""
        with self._lock:
            if self._spark is not None and not _has_ended(self._spark):
                self._spark.stop()
            self._spark = None
            self._sessions = {}

    def session(self, table: str) -> SparkSession:
        """Return the session of a table.  Raises ``Unavailable``."""
        application = self.start()
        with self._lock:
            if table not in self._sessions:
                self._sessions[table] = application.newSession()
            return self._sessions[table]


class TableEngine:
    """What the engines of all table formats share: the application, and where it logs."""

    def __init__(self, start: Callable[[], SparkSession], log_place: str) -> None:
        """``log_place`` says where Spark logs."""
        self._application = TableApplication(start, log_place)
        self._log_place = log_place

    def start(self) -> None:
        """Start Spark now.  Raises ``Unavailable``."""
        self._application.start()

    @property
    def ended(self) -> bool:
        """Whether Spark was started and is gone; see ``TableApplication``."""
        return self._application.ended

    def stop(self) -> None:
        """End the application, if one was started."""
        self._application.stop()


def _has_ended(spark: SparkSession) -> bool:
    """Tell whether the application is gone: its process died, or its cluster ended it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        context: Any = spark.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
