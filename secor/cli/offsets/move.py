"""``secor offsets move``: move all offsets of a group to another ledger."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import click

from secor.archive.repair.relocation import (
    MovableLedger,
    RelocationPlan,
    plan_relocation,
    relocate,
)
from secor.cli.open_archive import table
from secor.cli.topic_type import print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, Refused
from secor.core.model import TopicPartition
from secor.core.relocation import LedgerPlace
from secor.core.text import how_many


@click.command("move", epilog="\b\nExample: secor offsets move old.toml new.toml --dry-run")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option(
    "--replace",
    is_flag=True,
    help="Overwrite other offsets of this group that NEW's ledger has, or its record of a move"
    " to a third ledger.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def move_ledger(
    old: Path, new: Path, dry_run: bool, replace: bool, as_json: bool, yes: bool
) -> None:
    """Move all offsets of a group from the ledger of OLD to the ledger of NEW.

    OLD and NEW are the group's configuration before and after the change of [ledger].  Stop all
    processes first: while one runs, this is refused with exit code 5.  Committed offsets move with
    their open intents, topic ids and leader epochs.  They are copied, read back and compared; then
    OLD's ledger says that they were moved, and processes with OLD are refused.  If anything
    interrupts it, say the same again: until it is finished no process can use both ledgers.

    To go back, move from NEW to OLD.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask: add --yes or --dry-run")
    before, after = load(old, os.environ), load(new, os.environ)
    with ExitStack() as opened:
        # First, and without a ledger: two groups, or two stores, would be mixed by the copy.
        exists = _same_group(before, after, opened)
        source, target = _ledgers(before, after, opened)
        if not dry_run:
            _refuse_running(after, source, target)
        places = _places(source, target, identify=not dry_run)
        plan = plan_relocation(source, target, places, exists, replace=replace)
        if not as_json:
            _show(plan)
        moves = not dry_run and not plan.done
        if moves:
            if not yes:
                click.confirm("Move them?", abort=True)
            relocate(
                source,
                target,
                plan,
                # Called again between the copy and the closing: a process may have started since
                # the first look.
                lambda: _refuse_running(after, source, target),
                time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                by=f"{_user()}@{socket.gethostname()}",
            )
    if as_json:
        print_json(_document(plan, moved=moves or plan.done))
    elif moves:
        click.echo(
            f"moved {how_many(len(plan.entries), 'entry', 'entries')}; processes with {old} are"
            f" refused from now on: start them with {new}, then say 'secor verify {new}'"
        )
    elif dry_run:
        click.echo("nothing is changed: this was a dry run")


def _same_group(
    before: Config, after: Config, opened: ExitStack
) -> Callable[[TopicPartition], bool]:
    """Refuse configurations that differ in more than the ledger; return what Kafka has.

    Raises ``ConfigurationError``.
    """
    from secor.wiring.clients import open_reader
    from secor.wiring.membership import store_of

    if before.group.name != after.group.name:
        raise ConfigurationError(
            f"OLD is of group {before.group.name}, NEW of {after.group.name}: only the ledger of"
            " one group can be moved"
        )
    if store_of(before) != store_of(after):
        raise ConfigurationError(
            f"OLD stores in {store_of(before)}, NEW in {store_of(after)}: change the ledger"
            " alone, then the store"
        )
    reader = opened.enter_context(open_reader(after))
    # Names of brokers differ often for one cluster; only its id says that it is another one.
    if before.kafka.bootstrap_servers != after.kafka.bootstrap_servers:
        with open_reader(before) as other:
            clusters = other.cluster_id(), reader.cluster_id()
        if clusters[0] != clusters[1]:
            raise ConfigurationError(
                f"OLD reads the Kafka cluster {clusters[0]}, NEW {clusters[1]}: offsets are those"
                " of one cluster's topics, in another one they say nothing"
            )
    partitions = cache(lambda topic: frozenset(reader.partitions(topic)))
    return lambda topic_partition: topic_partition in partitions(topic_partition.topic)


def _ledgers(
    before: Config, after: Config, opened: ExitStack
) -> tuple[MovableLedger, MovableLedger]:
    from secor.wiring.clients import open_movable_ledger

    return (
        opened.enter_context(open_movable_ledger(before)),
        opened.enter_context(open_movable_ledger(after)),
    )


def _places(
    source: MovableLedger, target: MovableLedger, *, identify: bool
) -> tuple[LedgerPlace, LedgerPlace]:
    if identify:
        return source.identify(), target.identify()
    return source.place(), target.place()


def _refuse_running(config: Config, *ledgers: MovableLedger) -> None:
    """Raise ``Refused`` while processes of the group run, or hold what only they hold."""
    from secor.wiring.clients import open_group

    with open_group(config) as group:
        users = group.members()
    # A process may have left the group and still hold locks, or have a session that has not ended.
    users += [user for ledger in ledgers for user in ledger.users() if user not in users]
    if users:
        raise Refused(
            f"the group {config.group.name} is running ({', '.join(sorted(users))}): stop its"
            " processes first. One that was killed counts until its session is over:"
            " kafka.session_timeout, ledger.zookeeper.session_timeout"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _show(plan: RelocationPlan) -> None:
    click.echo(f"from: {plan.source.name}")
    click.echo(f"to:   {plan.target.name}")
    if plan.done:
        click.echo("the offsets were moved before: nothing is left to do")
        return
    lines = [("topic", "partition", "committed", "intent", "leader epoch", "topic id")]
    for topic_partition, entry in plan.entries.items():
        intent, epoch = entry.intent, entry.leader_epoch
        lines.append(
            (
                topic_partition.topic,
                str(topic_partition.partition),
                str(entry.committed),
                "-" if intent is None else f"[{intent.start}, {intent.end})",
                "-" if epoch is None else str(epoch),
                entry.topic_id or "-",
            )
        )
    for line in table(lines, left=frozenset({0, 3, 5})):
        click.echo(line)
    for remark in _remarks(plan):
        click.echo(remark)


def _remarks(plan: RelocationPlan) -> list[str]:
    remarks = [
        f"{key}: Kafka has no such partition, its entry stays behind" for key in plan.unknown
    ]
    remarks += [f"{key}: the new ledger has another entry, which is lost" for key in plan.replaced]
    remarks += [f"{key}: the new ledger keeps its entry" for key in plan.reopened]
    if plan.resumed:
        remarks.append("an earlier move was interrupted: this finishes it")
    intents = sum(entry.intent is not None for entry in plan.entries.values())
    if intents:
        remarks.append(
            f"{how_many(intents, 'upload was', 'uploads were')} interrupted: the open intents move,"
            " and the first process with NEW finishes them"
        )
    return remarks


def _document(plan: RelocationPlan, *, moved: bool) -> dict[str, object]:
    return {
        "from": plan.source.name,
        "to": plan.target.name,
        "moved": moved,
        "entries": [
            {
                "topic": key.topic,
                "partition": key.partition,
                "committed": entry.committed,
                "intent": entry.intent and {"start": entry.intent.start, "end": entry.intent.end},
                "leader_epoch": entry.leader_epoch,
                "topic_id": entry.topic_id,
            }
            for key, entry in plan.entries.items()
        ],
        "remarks": _remarks(plan),
    }
