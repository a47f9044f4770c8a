"""Runs independent pieces of work as Spark tasks, and returns their results to the driver.

Spark shuffles nothing and writes nothing.  Each task puts its objects itself, if absent, so tasks
that fail, are repeated or run twice at a time store nothing twice.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from secor.core.errors import SecorError, Unavailable
from secor.spark import jvm
from secor.spark.session import JAVA_OPTIONS, LOGGING_OPTION
from secor.spark.startup import get_or_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TASKS = 10_000
"""Most tasks; of more pieces, neighbours share a task."""

POLL = 0.5
"""Seconds between two looks at how far a job has come."""

_ERRORS_ALONE = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c: %m%n
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""
"""Spark's logging on one machine: its warnings at every start say nothing of the backfill."""

_PYTHON = re.compile(r"(?!org\.|java\.)[\w.]+(Error|Exception): ")
_JAVA = re.compile(r".*Job aborted|.*[Cc]aused by|[\w.]+Exception: ")

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Iterator[Item]], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Result]):
    """The outcome of one task: its results, and the error that ended it, if any."""

    results: tuple[Result, ...]
    error: SecorError | None = None


@contextmanager
def session(
    name: str, master: str | None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session that ends with the block.

    Without ``master``: that of ``spark-submit``, or ``local[*]``.  On this machine tasks run
    in this Python, unless ``PYSPARK_PYTHON`` names another.  Speculation is harmless here.
    Raises ``ConfigurationError`` where PySpark or a Java is not there.
    """
    from secor.spark.versions import require_pyspark

    require_pyspark(name)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    with tempfile.TemporaryDirectory(prefix="secor-spark-") as folder:
        chosen = {"spark.ui.showConsoleProgress": "false", **(settings or {})}
        if master is not None:
            builder = builder.master(master)
            if master.startswith("local"):
                jvm.on_loopback(master, chosen)
                chosen[JAVA_OPTIONS] = _quiet(chosen.get(JAVA_OPTIONS, ""), Path(folder))
        for key, value in chosen.items():
            builder = builder.config(key, value)
        spark = get_or_start(builder)
        context = spark.sparkContext
        if context.master.startswith("local[") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # else the first python3 of the PATH
        try:
            yield spark
        finally:
            if not jvm.interrupted():
                spark.stop()


def _quiet(given: str, folder: Path) -> str:
    """Return the driver's Java options ``given`` with our logging, unless they choose one."""
    if LOGGING_OPTION in given:
        return given
    logging = folder / "log4j2.properties"
    logging.write_text(_ERRORS_ALONE)
    return f"{given} {LOGGING_OPTION}={logging}".strip()


def run(
    spark: SparkSession,
    work: Work[Item, Result],
    items: Sequence[Item],
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Do all the work and return the results, in the order of ``items``.

    ``work`` gets the items of one task; it goes to the executors, where it is imported.
    ``progress`` gets how many tasks of how many are done.  A ``SecorError`` in one task
    lets the others finish and is raised then; a lost executor's tasks are Spark's to repeat.
    Raises ``Unavailable`` when Spark gives the job up.
    """
    if not items:
        return []
    tasks = min(len(items), MOST_TASKS)
    jobs = spark.sparkContext.parallelize(list(items), tasks).mapPartitions(_Guarded(work))
    outcomes = _watched(spark, jobs.collect, tasks, progress)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        raise errors[0]
    return list(itertools.chain.from_iterable(outcome.results for outcome in outcomes))


class _Guarded(Generic[Item, Result]):
    """Turns Secor's errors into results, because Spark would repeat the task for nothing."""

    def __init__(self, work: Work[Item, Result]) -> None:
        self._work = work

    def __call__(self, items: Iterable[Item]) -> Iterator[TaskOutcome[Result]]:
        results: list[Result] = []
        error: SecorError | None = None
        try:
            results.extend(self._work(iter(items)))
        except SecorError as found:
            # A result, not an exception: Spark would repeat the task four times, and then end the
            # whole job with a text.
            error = found
        yield TaskOutcome(tuple(results), error)


def _watched(
    spark: SparkSession,
    collect: Callable[[], list[TaskOutcome[Any]]],
    tasks: int,
    progress: Callable[[int, int], None] | None,
) -> list[TaskOutcome[Any]]:
    """Run ``collect`` in a thread of its own and report its progress."""
    context = spark.sparkContext
    group = f"secor-backfill-{uuid.uuid4().hex}"

    def go() -> list[TaskOutcome[Any]]:
        # In the thread that runs the job: Spark keeps job groups by thread.
        context.setJobGroup(group, "secor backfill", interruptOnCancel=True)
        return collect()

    with ThreadPoolExecutor(1, thread_name_prefix="backfill") as pool:
        future = pool.submit(go)
        try:
            while not wait([future], POLL).done:
                if progress is not None:
                    progress(min(_completed_tasks(context, group), tasks), tasks)
        except BaseException:
            if not jvm.interrupted():
                context.cancelJobGroup(group)
            raise
    error = future.exception()
    if error is not None:
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
            raise error
        raise Unavailable(
            f"Spark gave up: {_cause(str(error))}; run it again, what is done stays"
        ) from error
    if progress is not None:
        progress(tasks, tasks)
    return future.result()


def _cause(text: str) -> str:
    """Return the useful line of Spark's traceback: the error in Python, or the first one."""
    lines = [line.strip() for line in text.splitlines()]
    python = [line for line in lines if _PYTHON.match(line)]
    java = [line for line in lines if _JAVA.match(line)]
    return (python[-1:] or java[:1] or lines[:1] or ["no reason given"])[0]


def _completed_tasks(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            stage_info = tracker.getStageInfo(stage)
            done += stage_info.numCompletedTasks if stage_info else 0
    return done
