"""``secor offsets``: show and move what is committed."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secor.archive.repair.accept_topic import plan_acceptance
from secor.archive.repair.move_offset import move
from secor.archive.repair.recover_ledger import (
    RecoveredEntry,
    plan_recovery,
    recover,
    refuse_earlier_topic,
)
from secor.cli.doctor.stop_reasons import StopReasons, next_to_store, sentence
from secor.cli.exit_codes import Exit
from secor.cli.offsets.groups import export_offsets, import_offsets
from secor.cli.offsets.move import move_ledger
from secor.cli.offsets.set import (
    config_argument,
    confirm_moves,
    generation_of,
    set_offset,
    yes_option,
)
from secor.cli.offsets.table_moves import with_dropped_manifests
from secor.cli.open_archive import archive_of, earlier_routes, no_topic_matches, of_topic, table
from secor.cli.topic_type import TOPIC, json_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import LedgerCorrupt
from secor.core.model import TopicPartition
from secor.core.ports import ObjectStore, OffsetLedger
from secor.core.text import waiting_text

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader


@click.group(epilog="Example: secor offsets show backup.toml")
def command() -> None:
    """Show or move committed offsets.  Stop the service before you move them."""


@command.command(epilog="Example: secor offsets show backup.toml")
@config_argument
@json_option
def show(config: Path, as_json: bool) -> int:
    """Show the committed offset, the log and the open intent of each topic partition.

    The log's end is that for readers of committed messages; offsets that wait behind an open
    transaction are named apart.

    Without an entry the lag is what kafka.reset leaves to read: the whole log, or nothing with
    "latest".  Exit code 5 when a partition is stopped, for example by an unreadable entry, and when
    no topic matches.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader

    settings = load(config, os.environ)
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger_for_operator(settings))
        reader = opened.enter_context(open_reader(settings))
        reasons = StopReasons(settings, reader, opened)
        kafka = settings.kafka
        topics = kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
        rows = [
            _row(settings, ledger, reader, reasons, topic_partition)
            for topic in topics
            for topic_partition in of_topic(reader.partitions(topic), topic)
        ]
    if as_json:
        print_json({"offsets": rows})
    elif rows:
        _show(rows)
    else:
        click.echo(no_topic_matches(settings))
    return Exit.DIFFERENT if not rows or any(row["fault"] for row in rows) else Exit.OK


command.add_command(set_offset)
command.add_command(move_ledger)
command.add_command(import_offsets)
command.add_command(export_offsets)


@command.command("recover", epilog="Example: secor offsets recover backup.toml clicks")
@config_argument
@click.argument("topic", type=TOPIC, required=False)
@yes_option
def recover_entries(config: Path, topic: str | None, yes: bool) -> int:
    """Rebuild missing entries of the ledger from the objects' metadata.

    For a table group: from the tables' vectors, from manifests and from objects in quarantine.
    Exit code 5 when no topic matches: then nothing was looked at.
    """
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    settings = load(config, os.environ)
    kafka = settings.kafka
    with (
        open_store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        open_reader(settings) as reader,
    ):
        routes = earlier_routes(settings, store)
        plan = _recoveries(settings, store, ledger, reader)
        named = (topic,) if topic else kafka.topics
        planned, looked_at = [], 0
        for name in named or reader.topics(kafka.topics_pattern, kafka.topics_exclude):
            for topic_partition in of_topic(reader.partitions(name), name):
                looked_at += 1
                entry_recovery = plan(
                    archive_of(settings, name, store, routes),
                    topic_partition,
                    generation=generation_of(settings, name),
                    owner=f"secor offsets on {socket.gethostname()}",
                    now=time.time(),
                )
                if entry_recovery is None:
                    continue
                refuse_earlier_topic(entry_recovery, reader.topic_id(name))
                planned.append(entry_recovery)
                remarks = "".join(f"; {remark}" for remark in entry_recovery.remarks)
                click.echo(f"{topic_partition}: no entry -> {entry_recovery.committed}{remarks}")
        if not looked_at:
            click.echo(f"nothing was looked at: {no_topic_matches(settings)}")
            return Exit.DIFFERENT
        if not planned:
            click.echo("nothing to recover: every entry is there, or has no objects")
            return Exit.OK
        if not yes:
            click.confirm("Write this?", abort=True)
        for recovery in planned:
            entry = recover(ledger, recovery)
            click.echo(f"{recovery.topic_partition}: committed is {entry.committed}")
    return Exit.OK


def _recoveries(
    config: Config, store: ObjectStore, ledger: OffsetLedger, reader: KafkaReader
) -> Callable[..., RecoveredEntry | None]:
    """Return what plans missing entries."""
    if config.group.kind == "table":
        from secor.wiring.table_entries import table_recoveries

        return table_recoveries(config, store, ledger, reader)
    return partial(plan_recovery, ledger, log=reader)


@command.command(epilog="Example: secor offsets accept backup.toml clicks")
@config_argument
@click.argument("topic", type=TOPIC)
@click.option("--drop-intent", is_flag=True, help="Give up the earlier topic's open intent.")
@yes_option
def accept(config: Path, topic: str, drop_intent: bool, yes: bool) -> None:
    """Accept that TOPIC was deleted and created again: begin at its log's start.

    If objects of the earlier topic exist, raise output.generation first.  Partitions that have not
    changed, by the topic's id and their log's end, continue.
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
            generation=generation_of(settings, topic),
            topic_id=reader.topic_id(topic),
            drop_intent=drop_intent,
        )
        if not planned:
            click.echo(
                f"{topic}: nothing to accept: it has no entries, or is the topic that was stored"
            )
            return
        if settings.group.kind == "table":
            planned = with_dropped_manifests(planned, store, settings.output.prefix)
        confirm_moves(planned, yes=yes)
        for planned_move in planned:
            entry = move(ledger, archive, planned_move)
            click.echo(f"{planned_move.topic_partition}: committed is {entry.committed}")


def _row(
    config: Config,
    ledger: OffsetLedger,
    reader: KafkaReader,
    reasons: StopReasons,
    topic_partition: TopicPartition,
) -> dict[str, Any]:
    entry, log, stopped = reasons.look(ledger, reader, topic_partition)
    intent = entry.intent
    next_offset = next_to_store(config, entry.committed, log, stopped)
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "log_start": log.start,
        "log_end": log.end,
        "committed": entry.committed,
        "lag": None if next_offset is None else max(0, log.end - next_offset),
        "withheld": log.withheld,
        "topic_id": entry.topic_id,
        "intent": {"start": intent.start, "end": intent.end, "owner": intent.owner}
        if intent
        else None,
        "stopped": None if stopped is None else stopped.reason,
        "fault": None if stopped is None else sentence(topic_partition, stopped),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    lines = [("topic", "partition", "committed", "log", "lag", "intent")]
    for row in rows:
        intent = row["intent"]
        shown = (
            f"[{intent['start']}, {intent['end']}) {intent['owner']}"
            if (isinstance(intent, dict))
            else "-"
        )
        unreadable = row["stopped"] == LedgerCorrupt.reason
        committed = "unreadable" if unreadable else row["committed"]
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
        where = f"{row['topic']}/{row['partition']}"
        if row["withheld"]:
            click.echo(f"{where}: {waiting_text(row['withheld'])}")
        if row["fault"]:
            click.echo(f"{where}: {row['fault']}")
