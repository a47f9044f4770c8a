"""``secor backfill publish`` and ``rollback``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from secor.archive.backfill.model import read_plan
from secor.cli.backfill.plan import CONFIG
from secor.cli.topic_type import backfilled, metrics_file_option
from secor.config.load import load
from secor.core.clock import SystemClock
from secor.core.text import how_many
from secor.service.monitoring.last_run import LastRun


@contextmanager
def progress(
    what: str, offsets: int | None = None, unit: str = "batches"
) -> Iterator[Callable[[int, int], None] | None]:
    """Show total, rate and time left on standard error, when a person watches.

    Call the function with the parts done and the parts in all.  With ``offsets``, the number
    in all parts together, progress is shown in these: parts are of about one size.  Else ``unit``
    names the parts.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.fields[all]:,} {task.fields[unit]}"),
        TextColumn("{task.fields[rate]:,.1f}/s"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeLeft(elapsed_when_finished=False),
    )
    unit = unit if offsets is None else "offsets"
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None, all=offsets or 0, unit=unit, rate=0.0)

        def show(done: int, parts: int) -> None:
            total = parts if offsets is None else offsets
            completed = total * done / max(parts, 1)
            elapsed = bars.tasks[0].elapsed or 0.0
            rate = completed / elapsed if elapsed else 0.0
            bars.update(task, completed=completed, total=total, all=total, rate=rate)

        yield show


_workers_option = click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    default=4,
    show_default=True,
    help="Batches to handle at once.",
)
_local_directory_option = click.option(
    "--local-directory",
    type=CONFIG,
    help="Directory for temporary copies.  Default: the system's, such as /tmp.",
)


@click.command("publish", epilog="Example: secor backfill publish partition.toml plan.json")
@click.argument("partition", type=CONFIG)
@click.argument("plan_file", metavar="PLAN", type=CONFIG)
@click.option(
    "--old",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="Keep or delete the old objects; you may delete them later, too.",
)
@_workers_option
@_local_directory_option
@metrics_file_option
def publish_command(
    partition: Path,
    plan_file: Path,
    old: str,
    workers: int,
    local_directory: Path | None,
    metrics_file: Path | None,
) -> None:
    """Put the new objects in place of the old ones, batch by batch.

    It first deletes the _SUCCESS marks of the output partitions, and puts them back last.  After
    a crash, run it again.  With --old keep the old objects stay below _replaced.
    """
    from secor.wiring.backfill import open_publisher

    plan, last_run = read_plan(plan_file), LastRun(metrics_file, SystemClock())
    config = load(partition, os.environ)
    with (
        progress("publishing") as show,
        open_publisher(config, plan, local_directory, workers) as publisher,
    ):
        publisher.progress = _counted(show, len(plan.batches))
        publisher.publish()
        if old == "delete":
            publisher.clean()
    backfilled(last_run, partition, plan, "publish")
    kept = "deleted" if old == "delete" else "kept: secor backfill rollback undoes it"
    old_ones = how_many(len(plan.replaced), "old object")
    click.echo(f"published generation {plan.generation}; {old_ones} {kept}")


@click.command("rollback", epilog="Example: secor backfill rollback partition.toml plan.json")
@click.argument("partition", type=CONFIG)
@click.argument("plan_file", metavar="PLAN", type=CONFIG)
@_workers_option
@_local_directory_option
@metrics_file_option
def rollback_command(
    partition: Path,
    plan_file: Path,
    workers: int,
    local_directory: Path | None,
    metrics_file: Path | None,
) -> None:
    """Put the old objects back, and delete everything that the backfill has made.

    It works until the old objects are deleted.  After a crash, run it again.
    """
    from secor.wiring.backfill import open_publisher

    plan, last_run = read_plan(plan_file), LastRun(metrics_file, SystemClock())
    config = load(partition, os.environ)
    with (
        progress("rolling back") as show,
        open_publisher(config, plan, local_directory, workers) as publisher,
    ):
        publisher.progress = _counted(show, len(plan.batches))
        was_published = publisher.rollback()
    backfilled(last_run, partition, plan, "rollback")
    if was_published:
        click.echo(f"rolled back: {how_many(len(plan.replaced), 'old object')} in place again")
    else:
        click.echo("given up: it was not published, so no object was replaced")


def _counted(show: Callable[[int, int], None] | None, total: int) -> Callable[[int], None]:
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if show is not None:
            show(done, total)

    return count
