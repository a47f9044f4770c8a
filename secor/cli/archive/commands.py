"""``secor archive``: what an archive of years needs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.planning import JoinedRange, Plan, RewriteLimits, RewriteResult, plan_of
from secor.cli.archive.erase import erase_command
from secor.cli.archive.expire import expire_command
from secor.cli.backfill.publish import progress
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import (
    archive_of,
    archived_topics,
    earlier_routes,
    human_size,
    refuse_tables,
    require_stored,
)
from secor.cli.spark_tasks import SparkOptions, rewriting, spark_options, spark_tasks
from secor.cli.topic_type import TOPIC, json_option, metrics_file_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.config.values import parse_duration, parse_size
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.core.text import how_many
from secor.formats.joining import Target
from secor.service.monitoring.last_run import LastRun
from secor.wiring.archives import secret_of

LINES = 20
"""Ranges printed for people; --json has all."""


@click.group(epilog="Example: secor archive compact backup.toml --dry-run")
def command() -> None:
    """Look after what is stored: join small objects, let the oldest go, erase by key."""


command.add_command(expire_command)
command.add_command(erase_command)


@dataclass(slots=True)
class _Compacted:
    """The result for one topic; with ``--dry-run`` it has a plan alone."""

    topic: str
    plan: Plan | None = None
    outcomes: list[RewriteResult] = field(default_factory=list)

    @property
    def ranges(self) -> list[JoinedRange]:
        """The ranges that were, or would be, joined."""
        if self.plan is not None:
            return list(self.plan.ranges)
        return [part for outcome in self.outcomes for part in outcome.done]

    @property
    def failed(self) -> list[tuple[JoinedRange, str]]:
        """The ranges that stay as they are, and why."""
        return [
            (failed.range, failed.why) for outcome in self.outcomes for failed in outcome.failed
        ]


@command.command("compact", epilog="Example: secor archive compact backup.toml clicks --dry-run")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC, required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would be joined.")
@click.option(
    "--older-than",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Leave objects alone that were written since then, such as 12h.",
)
@click.option(
    "--target-size",
    default="256MiB",
    show_default=True,
    metavar="SIZE",
    help="Size of the new objects, at most.  Objects of half of it stay as they are.",
)
@click.option(
    "--format",
    "new_format",
    type=click.Choice(["sequencefile", "parquet"]),
    help="Format of the new objects, where objects hold whole messages, or lines of text that"
    " become parquet.  Default: as they are.",
)
@click.option(
    "--codec",
    metavar="CODEC",
    help="Codec of the new objects, such as zstd.  Default: as they are.",
)
@click.option(
    "--local-directory",
    type=click.Path(path_type=Path),
    help="Directory for files that are being written.  Default: the system's, such as /tmp.",
)
@spark_options
@json_option
@metrics_file_option
def compact_command(
    config: Path,
    topic: str | None,
    dry_run: bool,
    older_than: str,
    target_size: str,
    new_format: str | None,
    codec: str | None,
    local_directory: Path | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    metrics_file: Path | None,
) -> int:
    """Join small objects of TOPIC to larger ones; without TOPIC, those of all stored topics.

    Joined are neighbours of one Kafka partition, under the same settings, in each output partition.
    Every message is compared before the old objects are deleted.  Readers of Secor see each message
    once at every moment.  Needs no Kafka and no ledger.  After a crash, run it again.  Exit code 5
    when objects are damaged: they stay as they are.
    """
    from secor.wiring.backfill import open_workspace
    from secor.wiring.clients import open_store

    settings = load(config, os.environ)
    refuse_tables(settings, config)
    last_run = LastRun(metrics_file, SystemClock())
    limits = replace(_limits(older_than, target_size), target=Target(new_format, codec))
    if not dry_run:
        # Written at the start, too: a run that is killed leaves a time without a success, which an
        # alert sees.
        last_run.compacting(settings.group.name)
    results = []
    options = SparkOptions(master, conf)
    with open_store(settings) as store, open_workspace(local_directory) as workspace:
        routes = earlier_routes(settings, store)
        with spark_tasks("compact", options) as run:
            tasks = rewriting("compact", run, settings, routes, local_directory)
            for name in _topics(settings, store, topic):
                archive = archive_of(settings, name, store, routes)
                join_small = partial(plan_of, name, limits=limits)
                secret = secret_of(settings)
                rewriter = Rewriter(archive, name, workspace, join_small, secret, in_tasks=tasks)
                results.append(_compacted(rewriter, dry_run=dry_run))
                if not as_json:
                    # Each topic when it is done: a run over all of an archive takes hours, and may
                    # be interrupted.
                    _print(results[-1], dry_run=dry_run)
    if as_json:
        shown = {"dry_run": dry_run, "topics": [_as_json(result) for result in results]}
        print_json(shown)
    if any(result.failed for result in results):
        return Exit.DIFFERENT
    if not dry_run:
        ranges = [part for result in results for part in result.ranges]
        last_run.compacted(
            settings.group.name,
            replaced=sum(len(part.inputs) for part in ranges),
            made=sum(len(part.objects) for part in ranges),
            size=sum(part.size for part in ranges),
        )
    return Exit.OK


def _compacted(rewriter: Rewriter, *, dry_run: bool) -> _Compacted:
    if dry_run:
        return _Compacted(rewriter.topic, plan=rewriter.planned())
    with progress(f"compacting {rewriter.topic}", unit="ranges") as show:
        # Spark's tasks count in processes of their own, and Spark shows its own progress.
        if show is not None and rewriter.in_tasks is None:
            rewriter = replace(rewriter, progress=show)
        return _Compacted(rewriter.topic, outcomes=rewriter.run())


def _limits(older_than: str, target_size: str) -> RewriteLimits:
    try:
        age, size = parse_duration(older_than), parse_size(target_size)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    if not isinstance(age, int | float) or not isinstance(size, int) or size < 1 or age < 0:
        raise ConfigurationError(
            f"--older-than {older_than} --target-size {target_size}: give a time such as 1d and a"
            " size such as 256MiB"
        )
    return RewriteLimits(SystemClock().now() - age, size)


def _topics(config: Config, store: ObjectStore, topic: str | None) -> list[str]:
    if topic is None:
        return archived_topics(config, store)
    require_stored(config, store, topic)
    return [topic]


def _print(result: _Compacted, *, dry_run: bool) -> None:
    ranges = result.ranges
    old = sum(len(part.inputs) for part in ranges)
    new = sum(len(part.objects) for part in ranges)
    would = "would be joined" if dry_run else "joined"
    size = human_size(sum(part.size for part in ranges))
    if not ranges and not result.failed:
        click.echo(f"{result.topic}: nothing to join")
        return
    click.echo(f"{result.topic}: {how_many(old, 'object')} ({size}) {would} to {new:,}")
    for part in ranges[:LINES]:
        where = f"{result.topic}/{part.partition} [{part.start}, {part.end})"
        click.echo(f"  {where}: {len(part.inputs):,} to {len(part.objects):,}")
    if len(ranges) > LINES:
        click.echo(f"  and {how_many(len(ranges) - LINES, 'more range')}")
    for part, why in result.failed:
        where = f"{result.topic}/{part.partition} [{part.start}, {part.end})"
        click.echo(f"{where}: left as it is: {why}", err=True)


def _as_json(result: _Compacted) -> dict[str, object]:
    return {
        "topic": result.topic,
        "ranges": [
            {
                "partition": part.partition,
                "start": part.start,
                "end": part.end,
                "bytes": part.size,
                "objects": [{"key": new.key, "replaces": list(new.inputs)} for new in part.objects],
            }
            for part in result.ranges
        ],
        "failed": [
            {"partition": part.partition, "start": part.start, "end": part.end, "why": why}
            for part, why in result.failed
        ],
    }
