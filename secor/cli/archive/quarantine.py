"""``secor quarantine``: messages that could not be parsed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Protocol

import click

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import QuarantinedObject, counted, messages, quarantined
from secor.archive.quarantine.replay import ALL_STILL_BAD, Replay, ReplayResult
from secor.batch.workspace import Workspace
from secor.cli.archive.cat import line
from secor.cli.archive.quarantine_report import (
    object_as_json,
    print_growth,
    print_replayed,
    show_objects,
    summarize,
)
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import archive_of, quarantined_topics, require_stored
from secor.cli.topic_type import TOPIC, json_option, print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore, OffsetLedger

_ReplayObject = Callable[[ArchivedObject], ReplayResult]

config_argument = click.argument("config", type=click.Path(path_type=Path))
topic_argument = click.argument("topic", type=TOPIC, required=False)


@click.group(epilog="Example: secor quarantine ls partition.toml")
def command() -> None:
    """Show messages that could not be parsed, and parse them again."""


@command.command(epilog="Example: secor quarantine ls partition.toml clicks")
@config_argument
@topic_argument
@json_option
def ls(config: Path, topic: str | None, as_json: bool) -> None:
    """List the objects in quarantine, and count their messages by reason."""
    settings, rows = load(config, os.environ), list[QuarantinedObject]()
    with _store(settings) as store:
        for name in _topics(settings, store, topic):
            archive = archive_of(settings, name, store)
            rows += [counted(archive, archived) for archived in quarantined(archive, name)]
    if as_json:
        print_json({"objects": [object_as_json(row) for row in rows]})
        return
    show_objects(rows)


@command.command(epilog="Example: secor quarantine cat partition.toml clicks --limit 3")
@config_argument
@topic_argument
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Print at most this many messages.  Default: all.",
)
@click.option("--raw", is_flag=True, help="Print only payloads, one a line.")
def cat(config: Path, topic: str | None, limit: int | None, raw: bool) -> None:
    """Print the messages in quarantine as JSON lines, each with its reason."""
    settings = load(config, os.environ)
    with _store(settings) as store:
        left = limit
        for printed in _lines(settings, store, topic, raw=raw):
            click.echo(printed, nl=False)
            left = None if left is None else left - 1
            if left == 0:
                return


@command.command(epilog="Example: secor quarantine replay partition.toml clicks --dry-run")
@config_argument
@topic_argument
@click.option("--dry-run", is_flag=True, help="Only show what would become of the messages.")
@click.option(
    "--take-over", is_flag=True, help="Give up a replay that began under another configuration."
)
@click.option("--verbose", "-v", is_flag=True, help="Also show what became of each object.")
@json_option
def replay(
    config: Path,
    topic: str | None,
    dry_run: bool,
    take_over: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Parse the messages in quarantine again, with CONFIG as it is now.

    Messages that are good now go where they belong, each exactly once, whatever interrupts the
    command.  Messages that are still bad stay in quarantine.  The service may run meanwhile.
    Exit code 5 when messages are left in quarantine.
    """
    from secor.wiring.clients import open_ledger_for_operator

    settings, done = load(config, os.environ), list[ReplayResult]()
    if settings.group.kind == "backup":
        raise ConfigurationError(f'{config}: group.kind is "backup", which parses nothing')
    if settings.group.kind == "table" and take_over:
        raise ConfigurationError(
            f"{config}: rows of tables are never taken back: take --take-over away; a replay that"
            " was started is finished in the same way"
        )
    with (
        _store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        tempfile.TemporaryDirectory(prefix="secor-replay-") as folder,
        closing(Workspace(Path(folder), "replay", settings.limits.open_files)) as workspace,
    ):
        replays = _replays(settings, store, ledger, workspace)
        for name in _topics(settings, store, topic):
            replay_object = replays(name, dry_run=dry_run, take_over=take_over)
            for archived in quarantined(archive_of(settings, name, store), name):
                done.append(replay_object(archived))
                if not as_json and (verbose or done[-1].skipped not in (None, ALL_STILL_BAD)):
                    print_replayed(done[-1], dry_run=dry_run)
    into_tables = settings.group.kind == "table"
    summarize(done, into_tables=into_tables, dry_run=dry_run, as_json=as_json)
    return Exit.DIFFERENT if any(replayed.bad or replayed.skipped for replayed in done) else Exit.OK


class _Replays(Protocol):
    def __call__(self, topic: str, *, dry_run: bool, take_over: bool) -> _ReplayObject:
        """Return what replays one object of a topic."""


def _replays(
    config: Config, store: ObjectStore, ledger: OffsetLedger, workspace: Workspace
) -> _Replays:
    """Return how the objects of a topic are replayed: into objects, or into rows of tables."""
    if config.group.kind == "table":
        from secor.wiring.table_replays import TableReplays

        tables = TableReplays(config, ledger, workspace)

        def into_tables(topic: str, *, dry_run: bool, take_over: bool) -> _ReplayObject:
            replay = tables.of_topic(archive_of(config, topic, store), topic)
            return partial(replay.replay, dry_run=dry_run)

        return into_tables

    def into_objects(topic: str, *, dry_run: bool, take_over: bool) -> _ReplayObject:
        from secor.wiring.plans import replaying_plans

        archive = archive_of(config, topic, store)
        grew = partial(print_growth, topic, dry_run=dry_run)
        plans = replaying_plans(config, topic, store, grew, dry_run=dry_run)
        replay = Replay(archive, plans, ledger, workspace, SystemClock())
        return partial(replay.replay, dry_run=dry_run, take_over=take_over)

    return into_objects


def _store(config: Config) -> AbstractContextManager[ObjectStore]:
    from secor.wiring.clients import open_store

    return open_store(config)


def _topics(config: Config, store: ObjectStore, topic: str | None) -> Sequence[str]:
    """Return the topics that are wanted.  Says so where one has nothing and others have.

    Raises ``ConfigurationError`` for one that is neither configured by name nor stored.
    """
    if topic is None:
        return quarantined_topics(config, store)
    if next(iter(quarantined(archive_of(config, topic, store), topic)), None) is None:
        # The objects of a table group are not below its prefix: only its topics are known.
        if topic not in config.kafka.topics and config.group.kind != "table":
            require_stored(config, store, topic)
        others = ", ".join(quarantined_topics(config, store)) or "none"
        click.echo(f"nothing of {topic} is in quarantine; topics that have: {others}", err=True)
    return [topic]


def _lines(config: Config, store: ObjectStore, topic: str | None, *, raw: bool) -> Iterator[bytes]:
    for name in _topics(config, store, topic):
        archive: Archive = archive_of(config, name, store)
        for archived in quarantined(archive, name):
            about: dict[str, object] = {"topic": name, "partition": archived.name.partition}
            for records, reasons in messages(archive, archived):
                for row, reason in zip(records.to_pylist(), reasons, strict=True):
                    if not raw:
                        yield line({**about, "reason": reason}, row)
                    elif row["value"] is not None:
                        yield row["value"] + b"\n"
