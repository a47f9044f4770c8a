"""``secor offsets``: show and move what is committed."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import click

from secor.archive.repair.accept_topic import plan_acceptance
from secor.archive.repair.move_offset import Move, move, plan_move
from secor.archive.repair.recover_ledger import plan_recovery, recover
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import archive_of, earlier_routes, of_topic, table
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import LedgerCorrupt
from secor.core.model import Entry, TopicPartition
from secor.core.ports import OffsetLedger

config_argument = click.argument("config", type=click.Path(path_type=Path))
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def command() -> None:
    """Show or move committed offsets.  Stop the service before you move them."""


@command.command(epilog="Example: secor offsets show backup.toml")
@config_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(config: Path, as_json: bool) -> int:
    """Show the committed offset, the log and the open intent of each topic partition.

    Exit code 5 when an entry cannot be read.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader

    settings = load(config, os.environ)
    rows: list[dict[str, object]] = []
    with open_ledger_for_operator(settings) as ledger, open_reader(settings) as reader:
        kafka = settings.kafka
        topics = kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
        for topic in topics:
            for topic_partition in reader.partitions(topic):
                held = reader.log_range(topic_partition)
                rows.append(
                    {
                        "topic": topic,
                        "partition": topic_partition.partition,
                        "log_start": held.start,
                        "log_end": held.end,
                        **_entry(ledger, topic_partition, held.end),
                    }
                )
    if as_json:
        click.echo(json.dumps({"offsets": rows}, indent=2))
    else:
        _show(rows)
    return Exit.DIFFERENT if any(row["fault"] for row in rows) else Exit.OK


@command.command("set", epilog="Example: secor offsets set backup.toml clicks 0 12345")
@config_argument
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("offset", type=click.IntRange(0))
@click.option("--drop-intent", is_flag=True, help="Give up the open intent.")
@click.option("--delete-objects", is_flag=True, help="Delete the objects at and above OFFSET.")
@click.option("--new-generation", is_flag=True, help="Keep them: output.generation was raised.")
@yes_option
def set_offset(
    config: Path,
    topic: str,
    partition: int,
    offset: int,
    drop_intent: bool,
    delete_objects: bool,
    new_generation: bool,
    yes: bool,
) -> None:
    """Make OFFSET the next offset of TOPIC's PARTITION to store."""
    from secor.wiring.clients import open_ledger_for_operator, open_store

    settings = load(config, os.environ)
    with open_store(settings) as store, open_ledger_for_operator(settings) as ledger:
        archive = archive_of(settings, topic, store, earlier_routes(settings, store))
        planned = plan_move(
            ledger,
            archive,
            TopicPartition(topic, partition),
            offset,
            generation=_generation(settings, topic),
            drop_intent=drop_intent,
            delete_objects=delete_objects,
            new_generation=new_generation,
        )
        _confirm([planned], yes=yes)
        entry = move(ledger, archive, planned)
        click.echo(f"{planned.topic_partition}: committed is {entry.committed}")


@command.command("recover", epilog="Example: secor offsets recover backup.toml clicks")
@config_argument
@click.argument("topic", required=False)
@yes_option
def recover_entries(config: Path, topic: str | None, yes: bool) -> None:
    """Rebuild missing entries from what the objects tell of themselves."""
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    settings = load(config, os.environ)
    kafka = settings.kafka
    with (
        open_store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        open_reader(settings) as reader,
    ):
        routes = earlier_routes(settings, store)
        named = (topic,) if topic else kafka.topics
        planned = []
        for name in named or reader.topics(kafka.topics_pattern, kafka.topics_exclude):
            for topic_partition in of_topic(reader.partitions(name), name):
                found = plan_recovery(
                    ledger,
                    archive_of(settings, name, store, routes),
                    topic_partition,
                    generation=_generation(settings, name),
                    log=reader,
                    owner=f"secor offsets on {socket.gethostname()}",
                    at=time.time(),
                )
                if found is None:
                    continue
                planned.append(found)
                remarks = "".join(f"; {remark}" for remark in found.remarks)
                click.echo(f"{topic_partition}: no entry -> {found.committed}{remarks}")
        if not planned:
            click.echo("nothing to recover: every entry is there, or has no objects")
            return
        if not yes:
            click.confirm("Write this?", abort=True)
        for one in planned:
            entry = recover(ledger, one)
            click.echo(f"{one.topic_partition}: committed is {entry.committed}")


@command.command(epilog="Example: secor offsets accept backup.toml clicks")
@config_argument
@click.argument("topic")
@click.option("--drop-intent", is_flag=True, help="Give up the earlier topic's open intent.")
@yes_option
def accept(config: Path, topic: str, drop_intent: bool, yes: bool) -> None:
    """Accept that TOPIC was deleted and made again: begin at its log's start.

    Where objects of the earlier topic exist, output.generation must have been raised.
    Partitions that are what they were, by the topic's id and their log's end, go on.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    settings = load(config, os.environ)
    with (
        open_store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        open_reader(settings) as reader,
    ):
        archive = archive_of(settings, topic, store, earlier_routes(settings, store))
        planned = plan_acceptance(
            ledger,
            archive,
            reader,
            of_topic(reader.partitions(topic), topic),
            generation=_generation(settings, topic),
            topic_id=reader.topic_id(topic),
            drop_intent=drop_intent,
        )
        if not planned:
            click.echo(
                f"{topic}: nothing to accept: it has no entries, or is the topic that was stored"
            )
            return
        _confirm(planned, yes=yes)
        for one in planned:
            entry = move(ledger, archive, one)
            click.echo(f"{one.topic_partition}: committed is {entry.committed}")


def _generation(config: Config, topic: str) -> int:
    return config.for_topic(topic).output.generation


def _confirm(planned: Iterable[Move], *, yes: bool) -> None:
    for one in planned:
        remarks = "".join(f"; {remark}" for remark in one.remarks)
        before = one.before.committed if one.before else "unreadable"
        click.echo(f"{one.topic_partition}: {before} -> {one.offset}{remarks}")
        for key in one.delete:
            click.echo(f"  delete {key}")
    if not yes:
        click.confirm("Do this?", abort=True)


def _entry(ledger: OffsetLedger, topic_partition: TopicPartition, end: int) -> dict[str, object]:
    entry, fault = Entry(None), None
    try:
        entry = ledger.read(topic_partition)
    except LedgerCorrupt as error:
        fault = str(error)
    intent = entry.intent
    return {
        "committed": entry.committed,
        "lag": None if entry.committed is None else max(0, end - entry.committed),
        "topic_id": entry.topic_id,
        "intent": {"start": intent.start, "end": intent.end, "owner": intent.owner}
        if intent
        else None,
        "fault": fault,
    }


def _show(rows: list[dict[str, object]]) -> None:
    lines = [("topic", "partition", "committed", "log", "lag", "intent")]
    for row in rows:
        intent = row["intent"]
        shown = (
            f"[{intent['start']}, {intent['end']}) {intent['owner']}"
            if (isinstance(intent, dict))
            else "-"
        )
        committed = "unreadable" if row["fault"] else row["committed"]
        lines.append(
            (
                str(row["topic"]),
                str(row["partition"]),
                "none" if committed is None else str(committed),
                f"[{row['log_start']}, {row['log_end']})",
                "-" if row["lag"] is None else str(row["lag"]),
                shown,
            )
        )
    for line in table(lines, left=frozenset({0, 5})):
        click.echo(line)
    for row in rows:
        if row["fault"]:
            click.echo(f"{row['topic']}/{row['partition']}: {row['fault']}")
