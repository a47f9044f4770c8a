"""``secor backfill plan``: what would be parsed again, and what that replaces."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from secor.archive.backfill.model import BackfillPlan, encode
from secor.archive.backfill.paths import BackfillPaths
from secor.archive.backfill.plan_request import RequestedMessages
from secor.archive.backfill.planning import BackfillPlanner
from secor.cli.open_archive import archive_of, human_size
from secor.cli.topic_type import (
    TOPIC,
    backfilled,
    json_option,
    metrics_file_option,
    milliseconds,
    print_json,
)
from secor.config.load import load
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.core.text import how_many
from secor.service.monitoring.last_run import LastRun

_OFFSETS = re.compile(r"(\d+):(\d+)-(\d+)")
CONFIG = click.Path(path_type=Path)


@click.command(
    "plan",
    epilog="\b\nExample: secor backfill plan backup.toml partition.toml clicks"
    " --from-time 2026-11-20T00:00Z --to-time 2026-11-21T00:00Z -o plan.json",
)
@click.argument("backup", type=CONFIG)
@click.argument("partition", type=CONFIG)
@click.argument("topic", type=TOPIC)
@click.option(
    "--from-time", metavar="TIME", help="Time of the first messages (ISO 8601 with a zone)."
)
@click.option("--to-time", metavar="TIME", help="Time to end before (ISO 8601 with a zone).")
@click.option(
    "--offsets",
    multiple=True,
    metavar="P:START-END",
    help="Offsets of a partition, without END, such as 0:500-900; may be repeated.",
)
@click.option(
    "--objects", "keys", multiple=True, metavar="KEY", help="Replace this object; may be repeated."
)
@click.option(
    "--generation",
    type=click.IntRange(0),
    metavar="N",
    help="Generation of the new objects; default: the next.",
)
@click.option("--allow-gaps", is_flag=True, help="Accept offsets that no backup object has.")
@click.option("--no-ledger", is_flag=True, help="Use the objects instead of the ledger.")
@click.option("-o", "--output", type=CONFIG, required=True, help="The plan's file.")
@json_option
@metrics_file_option
def plan_command(
    backup: Path,
    partition: Path,
    topic: str,
    from_time: str | None,
    to_time: str | None,
    offsets: tuple[str, ...],
    keys: tuple[str, ...],
    generation: int | None,
    allow_gaps: bool,
    no_ledger: bool,
    output: Path,
    as_json: bool,
    metrics_file: Path | None,
) -> None:
    """Find the backup objects with the raw messages, and the objects to replace.

    BACKUP and PARTITION are the configurations of the two groups; PARTITION has the corrected
    parser.  The plan is widened to whole batches.  The command writes the plan's file and nothing
    else.
    """
    from secor.wiring.clients import open_store
    from secor.wiring.plans import kept_schema, plan_for

    last_run = LastRun(metrics_file, SystemClock())
    wanted = _wanted(from_time, to_time, offsets, keys)
    source, target = load(backup, os.environ), load(partition, os.environ)
    check_kinds(source, target, backup, partition)
    # Before anything is read: a plan takes minutes, and would be of no use.
    if target.for_topic(topic).output.naming != "secor":
        raise ConfigurationError(
            f"{partition}: objects named as a connector's have no generation, and old and new ones"
            f" would have one name: backfill {topic} into another prefix, with output.naming ="
            ' "secor"'
        )
    with (
        open_store(source) as raw,
        open_store(target) as store,
        _committed(target, topic, no_ledger=no_ledger) as committed,
    ):
        kept = kept_schema(target, topic, store)
        planner = BackfillPlanner(
            topic,
            archive_of(source, topic, raw),
            archive_of(target, topic, store),
            plan_for(target, topic, kept=kept),
            committed,
            allow_gaps=allow_gaps,
            schema=kept.text if kept is not None else None,
        )
        plan = planner.plan(wanted, generation)
    # Written whole and at the end: a plan that is there is complete.
    output.write_bytes(encode(plan))
    backfilled(last_run, partition, plan, "plan")
    _print_plan(plan, output, as_json=as_json)


def _wanted(
    from_time: str | None, to_time: str | None, offsets: tuple[str, ...], keys: tuple[str, ...]
) -> RequestedMessages:
    times = from_time is not None or to_time is not None
    if times + bool(offsets) + bool(keys) != 1:
        raise click.UsageError("give --from-time and --to-time, or --offsets, or --objects")
    if times:
        start = 0 if from_time is None else milliseconds(from_time)
        end = 1 << 62 if to_time is None else milliseconds(to_time)
        if end <= start:
            raise click.UsageError("--to-time is not after --from-time")
        return RequestedMessages(times=(start, end))
    ranges: dict[int, list[OffsetRange]] = {}
    for text in offsets:
        match = _OFFSETS.fullmatch(text)
        if match is None or int(match[3]) <= int(match[2]):
            raise click.UsageError(
                f"--offsets {text}: write PARTITION:START-END, such as 0:500-900"
            )
        ranges.setdefault(int(match[1]), []).append(OffsetRange(int(match[2]), int(match[3])))
    return RequestedMessages(offsets=ranges, keys=keys)


def check_kinds(source: Config, target: Config, backup: Path, partition: Path) -> None:
    """Raise ``ConfigurationError`` when the configurations are not of these groups."""
    for config, path, kind in ((source, backup, "backup"), (target, partition, "partition")):
        if config.group.kind != kind:
            raise ConfigurationError(
                f'{path}: group.kind is "{config.group.kind}" and must be "{kind}" here: BACKUP'
                " comes first, then PARTITION"
            )


@contextmanager
def _committed(
    config: Config, topic: str, *, no_ledger: bool
) -> Iterator[Callable[[int], int | None]]:
    if no_ledger:
        yield lambda _: None
        return
    from secor.wiring.clients import open_ledger_for_operator

    with open_ledger_for_operator(config) as ledger:
        yield lambda number: ledger.read(TopicPartition(topic, number)).committed


def _print_plan(plan: BackfillPlan, output: Path, *, as_json: bool) -> None:
    inputs, replaced = plan.input_objects, plan.replaced
    facts = {
        "id": plan.id,
        "topic": plan.topic,
        "generation": plan.generation,
        "batches": len(plan.batches),
        "offsets": sum(batch.end - batch.start for batch in plan.batches),
        "backup_objects": len(inputs),
        "backup_bytes": sum(inputs.values()),
        "replaced_objects": len(replaced),
        "replaced_bytes": sum(old_object.size for old_object in replaced),
        "replaced_messages": sum(old_object.records for old_object in replaced),
        "output_partitions": sorted({old_object.output_partition for old_object in replaced}),
        "notes": list(plan.notes),
    }
    if as_json:
        print_json(facts)
        return
    ranges: dict[int, list[OffsetRange]] = {}
    for batch in plan.batches:
        ranges.setdefault(batch.partition, []).append(batch.range)
    for number, partition_ranges in ranges.items():
        end = max(offset_range.end for offset_range in partition_ranges)
        reach = f"[{partition_ranges[0].start}, {end})"
        batches = how_many(len(partition_ranges), "batch", "batches")
        click.echo(f"{plan.topic}/{number}: {batches} in {reach}")
    for note in plan.notes:
        click.echo(f"note: {note}")
    messages = sum(old_object.records for old_object in replaced)
    places = {old_object.output_partition for old_object in replaced}
    click.echo(
        f"reads {how_many(len(inputs), 'backup object')} ({human_size(sum(inputs.values()))})\n"
        f"replaces {how_many(len(replaced), 'object')}"
        f" ({human_size(sum(old_object.size for old_object in replaced))},"
        f" {how_many(messages, 'message')}) in {how_many(len(places), 'output partition')}\n"
        f"by generation {plan.generation}, staged below"
        f" {BackfillPaths.of(plan.head).staging()[0]}\n"
        f"plan {plan.id} is in {output}; nothing else was written. Next: secor backfill run"
    )
