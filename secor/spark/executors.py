"""Notices that the cluster of a Spark application is gone.

A restarted standalone master does not know the applications of its predecessor.  Without
executors their jobs wait for ever, and only a line in Spark's log says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY = 5.0


@dataclass(slots=True)
class ExecutorWatch:
    """Tells when jobs have waited ``timeout`` seconds for an executor."""

    timeout: float
    _waits_since: float | None = field(default=None, init=False)

    def gives_up(self, now: float, *, jobs: int, executors: int) -> bool:
        """Note what there is at ``now`` (seconds of a monotonic clock); tell whether to give up."""
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
    """Look until told to stop, or until Spark is gone.

    When the watch gives up, ``giving_up`` is called and Spark is stopped, so that its jobs fail.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    context: Any = spark.sparkContext
    try:
        while not stopping.wait(LOOK_EVERY):
            tracker = context._jsc.sc().statusTracker()
            jobs, executors = len(tracker.getActiveJobIds()), len(tracker.getExecutorInfos()) - 1
            if watch.gives_up(monotonic(), jobs=jobs, executors=executors):
                giving_up()
                context._jsc.sc().stop()
                return
    except (Py4JError, OSError, AttributeError):
        return  # it has ended, by whatever else
