"""A cluster that is gone: jobs wait, and no executor comes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from secor.spark import application
from secor.spark.application import ExecutorWatch, watch_executors


def test_only_jobs_that_wait_long_enough_give_up() -> None:
    watch = ExecutorWatch(60.0)
    assert not watch.gives_up(0.0, jobs=0, executors=0)  # nothing to do: a cluster may take it away
    assert not watch.gives_up(100.0, jobs=1, executors=0)
    assert not watch.gives_up(159.0, jobs=1, executors=0)
    assert watch.gives_up(160.0, jobs=1, executors=0)


@pytest.mark.parametrize(("jobs", "present"), [(1, 1), (0, 0)])
def test_an_executor_or_the_end_of_the_jobs_begins_the_time_anew(jobs: int, present: int) -> None:
    watch = ExecutorWatch(60.0)
    assert not watch.gives_up(0.0, jobs=1, executors=0)
    assert not watch.gives_up(50.0, jobs=jobs, executors=present)
    assert not watch.gives_up(61.0, jobs=1, executors=0)
    assert watch.gives_up(121.0, jobs=1, executors=0)


class Context:
    """Of an application whose driver alone is left, with one job."""

    def __init__(self) -> None:
        self.stopped = False
        tracker = SimpleNamespace(getActiveJobIds=lambda: [7], getExecutorInfos=lambda: ["driver"])
        self._sc = SimpleNamespace(statusTracker=lambda: tracker, stop=self.stop)
        self._jsc = SimpleNamespace(sc=lambda: self._sc)

    def stop(self) -> None:
        self.stopped = True


def test_spark_is_stopped_when_its_cluster_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "LOOK_EVERY", 0.0)
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=context)
    times = iter(range(100))
    watch, told = ExecutorWatch(10.0), list[bool]()
    looking = threading.Event()
    watch_executors(
        spark, watch, looking, lambda: float(next(times)), lambda: told.append(context.stopped)
    )
    assert told == [False], "who sees that it has ended must find the reason"
    assert context.stopped
    assert next(times) == 11

    # One that has ended by something else, and one that was told to stop.
    context._jsc = None  # type: ignore[assignment]  # as PySpark does
    watch_executors(spark, watch, looking, lambda: 99.0, lambda: told.append(True))
    looking.set()
    watch_executors(spark, watch, looking, lambda: 99.0, lambda: told.append(True))
    assert told == [False]
