"""Options and progress of commands that work here, or in tasks of Spark: compact, erase, verify."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from secor.archive.rewrite.carrying_out import InTasks
from secor.archive.rewrite.erasure_search import Searched, SearchInTasks, SearchPart
from secor.archive.rewrite.one_range import RangeResult
from secor.archive.rewrite.planning import Plan
from secor.cli.topic_type import spark_settings
from secor.config.model import Config
from secor.verify.archive.partition_work import InTasks as VerifyInTasks
from secor.verify.archive.partition_work import PartitionWork
from secor.verify.archive.report import PartitionReport
from secor.wiring.archives import Routes

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Options that say where a command works; see ``spark_options``."""

    master: str | None
    conf: tuple[str, ...]


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master and --conf."""
    for option in (
        click.option(
            "--master",
            metavar="URL",
            help="Work in tasks of this Spark, such as local[4].  Default: here, one range after"
            " the other.",
        ),
        click.option(
            "--conf",
            "conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be repeated.",
        ),
    ):
        function = option(function)
    return function


class RunTasks(Protocol):
    """Does work on items in tasks of Spark; gives the results in the order of the items."""

    def __call__(
        self,
        what: str,
        work: Callable[[Iterator[Item]], Iterator[Result]],
        items: Sequence[Item],
        unit: str = "ranges",
    ) -> list[Result]:
        """Show progress under ``what``, counted in ``unit``.  Raises as ``spark.backfill.run``."""


@contextmanager
def spark_tasks(name: str, options: SparkOptions) -> Iterator[RunTasks | None]:
    """Give what works in tasks of Spark; None without --master.

    Spark begins with the first work that has items, and ends with the block.
    """
    settings = spark_settings(options.conf)
    if options.master is None:
        if settings:
            raise click.UsageError("--conf is for Spark: give --master, too")
        yield None
        return
    with ExitStack() as opened:
        sessions: list[Any] = []

        def run(
            what: str,
            work: Callable[[Iterator[Item]], Iterator[Result]],
            items: Sequence[Item],
            unit: str = "ranges",
        ) -> list[Result]:
            from secor.cli.backfill.publish import progress
            from secor.spark import backfill

            if not items:
                return []
            if not sessions:
                session = backfill.session(f"secor {name}", options.master, settings)
                sessions.append(opened.enter_context(session))
            with progress(what, unit=unit) as show:
                return backfill.run(sessions[0], work, items, show)

        yield run


def rewriting(
    name: str, tasks: RunTasks | None, config: Config, routes: Routes, directory: Path | None
) -> InTasks | None:
    """Return what rewrites plans in tasks; ``directory`` is for files that are being written."""
    if tasks is None:
        return None

    def in_tasks(number: int, plan: Plan) -> list[RangeResult]:
        from secor.wiring.rewrite_tasks import RewriteSettings, rewrite_ranges

        settings = RewriteSettings.of(config, routes, number, plan, directory)
        return tasks(name, partial(rewrite_ranges, settings), plan.ranges)

    return in_tasks


def searching(
    tasks: RunTasks | None, config: Config, routes: Routes, topic: str
) -> SearchInTasks | None:
    """Return what looks for messages to erase in tasks."""
    if tasks is None:
        return None

    def in_tasks(parts: Sequence[SearchPart]) -> list[Searched]:
        from secor.wiring.reading_tasks import ReadingTask, search_parts

        settings = ReadingTask.of(config, routes, topic)
        return tasks(f"searching {topic}", partial(search_parts, settings), parts)

    return in_tasks


def verifying(
    tasks: RunTasks | None, config: Config, routes: Routes, topic: str
) -> VerifyInTasks | None:
    """Return what compares pieces of topic partitions in tasks."""
    if tasks is None:
        return None

    def in_tasks(works: Sequence[PartitionWork]) -> list[PartitionReport]:
        from secor.wiring.reading_tasks import ReadingTask, check_pieces

        settings = ReadingTask.of(config, routes, topic)
        return tasks(f"verifying {topic}", partial(check_pieces, settings), works)

    return in_tasks
