"""``secor offsets set``: move committed offsets, of one partition or of a whole topic."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.archive.repair.move_offset import Move, move, plan_move
from secor.cli.offsets.table_moves import refuse_below_vectors, with_dropped_manifests
from secor.cli.open_archive import archive_of, earlier_routes, of_topic
from secor.cli.topic_type import TOPIC, milliseconds
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, Refused
from secor.core.model import TopicPartition

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader

config_argument = click.argument("config", type=click.Path(path_type=Path))
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command(
    "set",
    epilog="\b\nExample: secor offsets set backup.toml clicks --to-time 2026-11-21T00:00Z"
    " --dry-run",
)
@config_argument
@click.argument("topic", type=TOPIC)
@click.argument("partition", type=click.IntRange(0), required=False)
@click.argument("offset", type=click.IntRange(0), required=False)
@click.option(
    "--to-time",
    metavar="TIME",
    help="The first offset of this time or later (ISO 8601 with a zone), instead of OFFSET; the "
    "log's end where there is none.",
)
@click.option("--drop-intent", is_flag=True, help="Give up the open intent.")
@click.option("--delete-objects", is_flag=True, help="Delete the objects at and above OFFSET.")
@click.option(
    "--new-generation", is_flag=True, help="Keep these objects: you have raised output.generation."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option(
    "--force",
    is_flag=True,
    help="Allow a missing partition, an offset beyond the log's end, running processes.",
)
@yes_option
def set_offset(
    config: Path,
    topic: str,
    partition: int | None,
    offset: int | None,
    to_time: str | None,
    drop_intent: bool,
    delete_objects: bool,
    new_generation: bool,
    dry_run: bool,
    force: bool,
    yes: bool,
) -> None:
    """Make OFFSET the next offset of TOPIC's PARTITION to store.

    With --to-time you may leave out PARTITION: then it moves all partitions of TOPIC.  The command
    first shows what this means.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    if (offset is None) == (to_time is None) or (partition is None and to_time is None):
        raise click.UsageError("give PARTITION and OFFSET, or --to-time (and perhaps PARTITION)")
    settings = load(config, os.environ)
    timestamp = None if to_time is None else milliseconds(to_time)
    with (
        open_store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        open_reader(settings) as reader,
    ):
        # Before anything is planned: a running process would move the offset again, from what it
        # has in memory.
        if not force and not dry_run:
            refuse_running(settings)
        archive = archive_of(settings, topic, store, earlier_routes(settings, store))
        planned = [
            plan_move(
                ledger,
                archive,
                topic_partition,
                target,
                generation=generation_of(settings, topic),
                drop_intent=drop_intent,
                delete_objects=delete_objects,
                new_generation=new_generation,
            )
            for topic_partition, target in _targets(
                reader, topic, partition, offset, timestamp, force=force
            )
        ]
        if settings.group.kind == "table":
            refuse_below_vectors(planned, settings, reader.topic_id(topic))
            # A dropped intent of a table group has a manifest, too, which a commit would take up.
            planned = with_dropped_manifests(planned, store, settings.output.prefix)
        show_moves(planned)
        if dry_run:
            click.echo("nothing is changed: this was a dry run")
            return
        if not yes:
            click.confirm("Do this?", abort=True)
        for planned_move in planned:
            entry = move(ledger, archive, planned_move)
            click.echo(f"{planned_move.topic_partition}: committed is {entry.committed}")


def refuse_running(config: Config) -> None:
    """Raise ``Refused`` while processes of the group run: they would go on as before."""
    from secor.wiring.clients import open_group

    with open_group(config) as group:
        members = group.members()
    if members:
        raise Refused(
            f"the group {config.group.name} is running ({', '.join(sorted(members))}): stop its"
            " processes first, or add --force"
        )


def _targets(
    reader: KafkaReader,
    topic: str,
    partition: int | None,
    offset: int | None,
    timestamp: int | None,
    *,
    force: bool,
) -> list[tuple[TopicPartition, int]]:
    """Return the partitions and their next offsets.  Raises ``ConfigurationError``."""
    known: Sequence[TopicPartition] = reader.partitions(topic)
    if partition is None:
        chosen = of_topic(list(known), topic)
    else:
        chosen = [TopicPartition(topic, partition)]
        if chosen[0] not in known and not (force and offset is not None):
            why = f"topic {topic} has no partition {partition}, but 0 to {len(known) - 1}"
            if not known:
                why = f"the broker has no topic {topic!r}: look at the spelling"
            raise ConfigurationError(f"{why}; with --force, OFFSET is set all the same")
    if timestamp is None:
        assert offset is not None
        if not force:
            _refuse_beyond(reader, chosen[0], offset)
        return [(chosen[0], offset)]
    return [
        (topic_partition, _at(reader, topic_partition, timestamp)) for topic_partition in chosen
    ]


def _at(reader: KafkaReader, topic_partition: TopicPartition, timestamp: int) -> int:
    offset = reader.offset_at(topic_partition, timestamp)
    end = reader.log_range(topic_partition).end
    # A time in an open transaction gives an offset that nothing can be read at yet.
    return end if offset is None else min(offset, end)


def _refuse_beyond(reader: KafkaReader, topic_partition: TopicPartition, offset: int) -> None:
    log = reader.log_range(topic_partition)
    if offset > log.last:
        raise ConfigurationError(
            f"{topic_partition}: offset {offset} is beyond the log's end {log.last}: the partition"
            " would stop as topic_recreated; give an offset of the log, or add --force"
        )


def generation_of(config: Config, topic: str) -> int:
    """Return ``output.generation`` of a topic."""
    return config.for_topic(topic).output.generation


def show_moves(planned: Iterable[Move]) -> None:
    """Print what is going to be done."""
    for planned_move in planned:
        remarks = "".join(f"; {remark}" for remark in planned_move.remarks)
        before = planned_move.before.committed if planned_move.before else "unreadable"
        click.echo(f"{planned_move.topic_partition}: {before} -> {planned_move.offset}{remarks}")
        for key in planned_move.delete:
            click.echo(f"  delete {key}")


def confirm_moves(planned: Iterable[Move], *, yes: bool) -> None:
    """Print what is going to be done, and ask."""
    show_moves(planned)
    if not yes:
        click.confirm("Do this?", abort=True)
