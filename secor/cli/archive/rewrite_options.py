"""Options and progress of the commands that rewrite ranges: here, or in tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from secor.archive.rewrite.carrying_out import InTasks
from secor.archive.rewrite.one_range import RangeResult
from secor.archive.rewrite.planning import Plan
from secor.cli.topic_type import spark_settings
from secor.config.model import Config
from secor.wiring.archives import Routes


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """Options that say where ranges are rewritten; see ``spark_options``."""

    master: str | None
    conf: tuple[str, ...]
    local_directory: Path | None


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --master and --conf."""
    for option in (
        click.option(
            "--master",
            metavar="URL",
            help="Rewrite ranges in tasks of this Spark, such as local[4].  Default: here, one"
            " after the other.",
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


@contextmanager
def rewriting_in_tasks(
    name: str, config: Config, routes: Routes, options: RewriteOptions
) -> Iterator[InTasks | None]:
    """Give what rewrites plans in tasks of Spark; None without --master.

    Spark begins with the first plan that has ranges, and ends with the block.
    """
    settings = spark_settings(options.conf)
    if options.master is None:
        if settings:
            raise click.UsageError("--conf is for Spark: give --master, too")
        yield None
        return
    with ExitStack() as opened:
        sessions: list[Any] = []

        def in_tasks(number: int, plan: Plan) -> list[RangeResult]:
            from secor.cli.backfill.publish import progress
            from secor.spark import backfill
            from secor.wiring.rewrite_tasks import RewriteSettings, rewrite_ranges

            if not sessions:
                session = backfill.session(f"secor {name}", options.master, settings)
                sessions.append(opened.enter_context(session))
            task = RewriteSettings.of(config, routes, number, plan, options.local_directory)
            with progress(name, unit="ranges") as show:
                return backfill.run(sessions[0], partial(rewrite_ranges, task), plan.ranges, show)

        yield in_tasks
