"""``secor finalize``: hours and days that are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor import __version__
from secor.archive.finalize.finalizer import FinalizedTopic, Finalizer
from secor.archive.finalize.periods import Periods
from secor.archive.finalize.stored_time import UP_TO_DATE, StoredTime, progress_of
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import of_topic
from secor.cli.topic_type import TOPIC, json_option, metrics_file_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.ports import MessageParser, ObjectStore, OffsetLedger
from secor.core.text import how_many, iso_time
from secor.service.monitoring.last_run import LastRun

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader

LISTED = 10
"""Late objects and waiting partitions printed for people."""


@click.command(epilog="Example: secor finalize partition.toml clicks --dry-run")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("topic", type=TOPIC, required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would be marked.")
@json_option
@metrics_file_option
def command(
    config: Path, topic: str | None, dry_run: bool, as_json: bool, metrics_file: Path | None
) -> int:
    """Mark the complete hours or days of TOPIC with an object _SUCCESS.

    An hour or day is complete when every Kafka partition has passed its end by finalize.delay; a
    partition with all messages stored has passed everything up to now.  finalize.command and
    finalize.glue run before the mark.  Without TOPIC, mark all topics of CONFIG.  Objects that came
    after the mark are reported.  Exit code 5 when a command or Glue failed.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    settings = load(config, os.environ)
    if settings.group.kind != "partition":
        raise ConfigurationError(
            f'{config}: group.kind is "{settings.group.kind}"; only "partition" has hours and days'
        )
    last_run = LastRun(metrics_file, SystemClock())
    if not dry_run:
        last_run.finalizing(settings.group.name)
    with ExitStack() as opened:
        store = opened.enter_context(open_store(settings))
        ledger = opened.enter_context(open_ledger_for_operator(settings))
        reader = opened.enter_context(open_reader(settings))
        # In the order of topics, and each as soon as it is marked: jobs wait for the mark, and a
        # later topic may fail.
        outcomes = []
        for name in _topics(settings, reader, topic):
            for outcome in _finalized(settings, name, store, ledger, reader, dry_run=dry_run):
                outcomes.append(outcome)
                if not as_json:
                    _print_outcome(outcome, dry_run=dry_run)
    if as_json:
        shown = {"dry_run": dry_run, "topics": [_as_json(result) for result in outcomes]}
        print_json(shown)
    if not outcomes:
        click.echo("nothing was looked at: no topic has hours or days", err=True)
        return Exit.DIFFERENT
    if any(result.failed for result in outcomes):
        return Exit.DIFFERENT
    if not dry_run:
        last_run.finalized(settings.group.name, _counts(outcomes))
    return Exit.OK


def _counts(outcomes: list[FinalizedTopic]) -> dict[str, int]:
    return {
        "marked": sum(len(outcome.marked) for outcome in outcomes),
        "waiting": sum(len(outcome.waiting) for outcome in outcomes),
        "late": sum(len(outcome.late) for outcome in outcomes),
    }


def _topics(config: Config, reader: KafkaReader, topic: str | None) -> list[str]:
    from secor.wiring.finalize_actions import has_message_times

    if topic is not None:
        return [topic]
    kafka = config.kafka
    names = kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
    timed = [name for name in names if has_message_times(config, name)]
    absent = [name for name in timed if not reader.partitions(name)]
    for name in absent:  # one that is not made yet keeps no other waiting
        click.echo(f"warning: the broker has no topic {name!r}", err=True)
    return [name for name in timed if name not in absent]


def _finalized(
    config: Config,
    topic: str,
    store: ObjectStore,
    ledger: OffsetLedger,
    reader: KafkaReader,
    *,
    dry_run: bool,
) -> Iterator[FinalizedTopic]:
    """Finalize a topic's directory, and those to which a route sends its messages."""
    from secor.wiring.finalize_actions import actions_for, periods_for
    from secor.wiring.parsers import routed_streams
    from secor.wiring.plans import plan_for

    plan, periods = plan_for(config, topic, limited=False), periods_for(config, topic)
    progress = _progress(topic, plan.parser, periods, ledger, reader)
    routed = routed_streams(config.for_topic(topic).parser, topic)
    # A directory that routes fill has hours of its own, which are complete when those of this topic
    # are.
    roots = {topic: plan.root} | {to: plan.stream(stream).root for stream, to in routed.items()}
    for target, root in roots.items():
        finalizer = Finalizer(
            store,
            root,
            topic,
            periods,
            delay=config.finalize.delay,
            now=SystemClock().now,
            by=f"secor {__version__}",
            target=target,
            actions=actions_for(config, target),
        )
        yield finalizer.run(progress, dry_run=dry_run)


def _progress(
    topic: str, parser: MessageParser, periods: Periods, ledger: OffsetLedger, reader: KafkaReader
) -> list[StoredTime]:
    """Return how far each partition of a topic has come."""
    topic_id, now = reader.topic_id(topic), SystemClock().now
    return [
        progress_of(
            topic_partition,
            topic_id,
            ledger=ledger,
            log=reader,
            parser=parser,
            periods=periods,
            now=now,
        )
        for topic_partition in of_topic(reader.partitions(topic), topic)
    ]


def _print_outcome(outcome: FinalizedTopic, *, dry_run: bool) -> None:
    what = "would be marked" if dry_run else "marked"
    for period_objects in outcome.marked:
        objects = how_many(len(period_objects.objects), "object")
        click.echo(f"{outcome.root}/{period_objects.period.path}: {what} ({objects})")
    for path, why in outcome.failed:
        click.echo(f"{outcome.root}/{path}: not marked: {why}", err=True)
    if outcome.waiting and outcome.slowest_partition is not None:
        first = outcome.waiting[0].period
        why = _held(outcome.slowest_partition)
        if outcome.slowest_partition.why == UP_TO_DATE:
            why = f"at the earliest at {iso_time(first.end + outcome.delay)}"
        click.echo(
            f"{outcome.root}: {len(outcome.waiting)} not complete yet, the first is {first.path}:"
            f" {why}"
        )
    if not (outcome.periods or outcome.strange):
        click.echo(f"{outcome.root}: no hours or days with objects, so nothing to mark")
    for late in outcome.late:
        shown = ", ".join(late.keys[:LISTED])
        more = f" and {len(late.keys) - LISTED} more" if len(late.keys) > LISTED else ""
        came = f"{how_many(len(late.keys), 'object')} came after it had been marked"
        click.echo(f"warning: {outcome.root}/{late.path}: {came}: {shown}{more}", err=True)
    if outcome.strange:
        click.echo(
            f"warning: {outcome.root}: passed over:"
            f" {how_many(outcome.strange, 'object')} made under another layout",
            err=True,
        )


def _held(progress: StoredTime) -> str:
    until = f", up to {iso_time(progress.through)}" if progress.through is not None else ""
    return f"partition {progress.topic_partition} {progress.why}{until}"


def _as_json(outcome: FinalizedTopic) -> dict[str, object]:
    slowest = outcome.slowest_partition
    return {
        "topic": outcome.topic,
        "root": outcome.root,
        "marked": [period_objects.period.path for period_objects in outcome.marked],
        "waiting": [period_objects.period.path for period_objects in outcome.waiting],
        "failed": [{"partition": path, "why": why} for path, why in outcome.failed],
        "late": [{"partition": late.path, "objects": list(late.keys)} for late in outcome.late],
        "strange": outcome.strange,
        "held_by": None
        if slowest is None
        else {
            "topic": slowest.topic_partition.topic,
            "partition": slowest.topic_partition.partition,
            "through": None if slowest.through is None else iso_time(slowest.through),
            "why": slowest.why,
        },
    }
