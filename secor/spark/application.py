"""One Spark application that writes tables, started when needed, with a session for each table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from secor.core.errors import Unavailable
from secor.spark.failures import failing_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOOK_EVERY = 5.0


@dataclass(slots=True)
class ExecutorWatch:
    """A watch for jobs that have waited ``timeout`` seconds for an executor."""

    timeout: float
    _waits_since: float | None = field(default=None, init=False)

    def gives_up(self, now: float, *, jobs: int, executors: int) -> bool:
        """Note what there is at ``now`` (monotonic seconds); return whether to give up."""
        if not jobs or executors:
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= self.timeout


def watch_executors(
    spark: SparkSession,
    watch: ExecutorWatch,
    stopping: threading.Event,
    monotonic: Callable[[], float],
    giving_up: Callable[[], None],
) -> None:
    """Look until ``stop`` is set, or until Spark is gone.

    When the watch gives up, ``giving_up`` is called and Spark is stopped, so that its jobs fail.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    context: Any = spark.sparkContext
    try:
        while not stopping.wait(LOOK_EVERY):
            tracker = context._jsc.sc().statusTracker()
            # Less the driver, which Spark counts among its executors.
            jobs, executors = len(tracker.getActiveJobIds()), len(tracker.getExecutorInfos()) - 1
            if watch.gives_up(monotonic(), jobs=jobs, executors=executors):
                # Before the stop: what fails because of it asks why.
                giving_up()
                context._jsc.sc().stop()
                return
    except (Py4JError, OSError, AttributeError):
        return  # it has ended, by whatever else


class TableApplication:
    """One application, for any thread.

    PySpark has one JVM in the life of a process: when it is gone, only a new process can go on.
    """

    def __init__(
        self, start: Callable[[], SparkSession], log_place: str, timeout: float = 300.0
    ) -> None:
        """``log_place`` says where Spark logs; after ``timeout`` seconds without executors Spark is
        given up.
        """
        self._start = start
        self._log_place = log_place
        self._timeout = timeout
        self._why_ended = "its JVM died, or its cluster ended it"
        self._stopping = threading.Event()
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
                self._watch(self._spark)
            return self._spark

    @property
    def ended(self) -> bool:
        """True if it was started and is gone: its JVM died, or its cluster ended it."""
        with self._lock:
            return self._spark is not None and _has_ended(self._spark)

    @property
    def why_ended(self) -> str:
        """The reason why it ended by itself, and where Spark logs."""
        return f"{self._why_ended}; Spark's log is in {self._log_place}"

    def _watch(self, spark: SparkSession) -> None:
        """Watch the executors of a cluster; on this machine alone the driver is one."""
        if spark.sparkContext.master.startswith("local"):
            return

        def report() -> None:
            self._why_ended = (
                f"rows waited for an executor for {self._timeout:g} s (spark.timeout): the"
                " cluster is gone, or has nothing free"
            )

        arguments = (spark, ExecutorWatch(self._timeout), self._stopping, time.monotonic, report)
        threading.Thread(
            target=watch_executors, args=arguments, name="watch-executors", daemon=True
        ).start()

    def stop(self) -> None:
        """End the application, if one runs."""
        self._stopping.set()
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
                # A session of its own: temporary views of two tables that are written side by side
                # have one name.
                self._sessions[table] = application.newSession()
            return self._sessions[table]


class TableEngine:
    """The common part of the engines of all table formats: the application, and its log."""

    def __init__(
        self, start: Callable[[], SparkSession], log_place: str, timeout: float = 300.0
    ) -> None:
        """See ``TableApplication``."""
        self._application = TableApplication(start, log_place, timeout)
        self._log_place = log_place

    def start(self) -> None:
        """Start Spark now.  Raises ``Unavailable``."""
        self._application.start()

    @property
    def ended(self) -> bool:
        """True if Spark was started and is gone; see ``TableApplication``."""
        return self._application.ended

    @property
    def why_ended(self) -> str:
        """The reason why Spark ended by itself; see ``TableApplication``."""
        return self._application.why_ended

    def stop(self) -> None:
        """End the application, if one was started."""
        self._application.stop()


def _has_ended(spark: SparkSession) -> bool:
    """Return whether the application has ended: its process died, or its cluster ended it."""
    from py4j.protocol import Py4JError

    try:
        context: Any = spark.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
