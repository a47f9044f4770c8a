"""``secor quarantine``: messages that could not be parsed."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import click

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.quarantine.listing import Quarantined, counted, messages, quarantined
from secor.archive.quarantine.replay import Replay, Replayed
from secor.batch.workspace import Workspace
from secor.cli.cat import line
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import archive_of, human_size, quarantined_topics, table
from secor.cli.topic_type import TOPIC
from secor.config.load import load
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore, OffsetLedger
from secor.core.text import how_many

REASONS = 15
"""Kinds of reasons printed for people."""

_VALUE = re.compile(r"'(?:[^'\\]|\\.)*'|(?<![\w.])-?\d[\w.:+-]*")
"""What a reason quotes of its message, and numbers."""

_ReplayObject = Callable[[ArchivedObject], Replayed]

config_argument = click.argument("config", type=click.Path(path_type=Path))
topic_argument = click.argument("topic", type=TOPIC, required=False)


@click.group()
def command() -> None:
    """Show messages that could not be parsed, and parse them again."""


@command.command(epilog="Example: secor quarantine ls partition.toml clicks")
@config_argument
@topic_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ls(config: Path, topic: str | None, as_json: bool) -> None:
    """List the objects in quarantine, and count their messages by reason."""
    settings, rows = load(config, os.environ), list[Quarantined]()
    with _store(settings) as store:
        for name in _topics(settings, store, topic):
            archive = archive_of(settings, name, store)
            rows += [counted(archive, archived) for archived in quarantined(archive, name)]
    if as_json:
        click.echo(json.dumps({"objects": [_as_json(row) for row in rows]}, indent=2))
        return
    _show(rows)


@command.command(epilog="Example: secor quarantine cat partition.toml clicks --limit 3")
@config_argument
@topic_argument
@click.option("--limit", type=click.IntRange(1), help="Messages at most.")
@click.option("--raw", is_flag=True, help="Print payloads only, a line each.")
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
@click.option("--dry-run", is_flag=True, help="Only say what would become of the messages.")
@click.option(
    "--take-over", is_flag=True, help="Give up a replay begun under another configuration."
)
@click.option("--verbose", "-v", is_flag=True, help="Also say what became of each object.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(
    config: Path,
    topic: str | None,
    dry_run: bool,
    take_over: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Parse the messages in quarantine again, with CONFIG as it is now.

    Those that are good now are placed where they belong, each exactly once, whatever
    interrupts this; those that are still bad stay in quarantine.  The service may run
    meanwhile.  Exit code 5 when messages are left there.
    """
    from secor.wiring.clients import open_ledger_for_operator

    settings, done = load(config, os.environ), list[Replayed]()
    if settings.group.kind == "backup":
        raise ConfigurationError(f'{config}: group.kind is "backup", which parses nothing')
    if settings.group.kind == "table" and take_over:
        raise ConfigurationError(
            f"{config}: rows of tables are never taken back: take --take-over away; a replay that"
            " was begun is finished as it was begun"
        )
    with (
        _store(settings) as store,
        open_ledger_for_operator(settings) as ledger,
        tempfile.TemporaryDirectory(prefix="secor-replay-") as folder,
    ):
        workspace = Workspace(Path(folder), "replay", settings.limits.open_files)
        try:
            replays = _replays(settings, store, ledger, workspace)
            for name in _topics(settings, store, topic):
                replay_object = replays(name, dry_run=dry_run, take_over=take_over)
                for archived in quarantined(archive_of(settings, name, store), name):
                    done.append(replay_object(archived))
                    if not as_json and (verbose or done[-1].skipped is not None):
                        _tell(done[-1], dry_run=dry_run)
        finally:
            workspace.close()
    _summarize(done, dry_run=dry_run, as_json=as_json)
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
        grew = partial(_grew, topic, dry_run=dry_run)
        plans = replaying_plans(config, topic, store, grew, dry_run=dry_run)
        replay = Replay(archive, plans, ledger, workspace, SystemClock())
        return partial(replay.replay, dry_run=dry_run, take_over=take_over)

    return into_objects


def _store(config: Config) -> AbstractContextManager[ObjectStore]:
    from secor.wiring.clients import open_store

    return open_store(config)


def _topics(config: Config, store: ObjectStore, topic: str | None) -> Sequence[str]:
    return [topic] if topic is not None else quarantined_topics(config, store)


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


def _as_json(row: Quarantined) -> dict[str, object]:
    archived, info = row.archived, row.archived.info
    return {
        "topic": archived.topic,
        "partition": archived.name.partition,
        "key": archived.key,
        "messages": row.messages,
        "size": archived.size,
        "modified": datetime.fromtimestamp(archived.modified, UTC).isoformat(),
        "batch": None if info is None else [info.batch.start, info.batch.end],
        "reasons": dict(row.reasons.most_common()),
    }


def _show(rows: Sequence[Quarantined]) -> None:
    if not rows:
        click.echo("nothing is in quarantine")
        return
    lines: list[tuple[str, ...]] = [
        ("topic", "partition", "first offset", "messages", "size", "modified (UTC)", "key")
    ]
    for row in rows:
        archived = row.archived
        modified = datetime.fromtimestamp(archived.modified, UTC).strftime("%Y-%m-%d %H:%M:%S")
        numbers = (archived.name.partition, archived.first_offset, row.messages)
        cells = (*map(str, numbers), human_size(archived.size), modified, archived.key)
        lines.append((archived.topic, *cells))
    for text in table(lines, left=frozenset({0, 6})):
        click.echo(text)
    total: Counter[str] = sum((row.reasons for row in rows), Counter[str]())
    click.echo(
        f"{how_many(total.total(), 'message')} in {how_many(len(rows), 'object')}, by reason:"
    )
    _show_reasons(total)


def _show_reasons(total: Counter[str]) -> None:
    kinds = _kinds(total)
    shown = [(f"{number:,}", reason) for number, reason in kinds[:REASONS]]
    for text in table(shown, frozenset({1})):
        click.echo("  " + text)
    if len(kinds) > REASONS:
        more = how_many(len(kinds) - REASONS, "other reason")
        click.echo(f"  … and {more}; --json shows all")


def _kinds(reasons: Counter[str]) -> list[tuple[int, str]]:
    """Return numbers and reasons, the most frequent first; those that differ in values as one."""
    alike: dict[str, Counter[str]] = {}
    for reason, number in reasons.items():
        alike.setdefault(_VALUE.sub("…", reason), Counter())[reason] += number
    kinds = []
    for kind, same in alike.items():
        [(example, _)] = same.most_common(1)
        values = " and ".join(_VALUE.findall(example))
        kinds.append((same.total(), example if len(same) == 1 else f"{kind}, such as {values}"))
    return sorted(kinds, key=lambda count_and_kind: -count_and_kind[0])


def _grew(
    topic: str, version: int, fields: list[str], outvoted: list[str], *, dry_run: bool
) -> None:
    what = "would grow" if dry_run else "grew"
    click.echo(f"{topic}: the schema {what} to version {version}: {', '.join(fields)}", err=True)
    for values in outvoted:
        click.echo(f"{topic}: does not fit: {values}", err=True)


def _tell(replayed: Replayed, *, dry_run: bool) -> None:
    if replayed.gone:
        click.echo(f"{replayed.archived.key}: is gone: another replay was faster")
    elif replayed.skipped is not None:
        click.echo(f"{replayed.archived.key}: left as it is: {replayed.skipped}")
    else:
        would = "would be " if dry_run else ""
        click.echo(
            f"{replayed.archived.key}: {replayed.placed:,} {would}placed,"
            f" {replayed.filtered:,} {would}filtered, {replayed.bad:,} still bad"
        )
    for number, reason in _kinds(replayed.reasons)[:3]:
        click.echo(f"  {number:,} × {reason}")


def schema_remedy(reasons: Counter[str]) -> str | None:
    """Return what to do about messages that are in conflict with the schema, None without any."""
    conflicts = sum(number for why, number in reasons.items() if why.startswith("schema:"))
    if not conflicts:
        return None
    return (
        f"{conflicts:,} are in conflict with the schema, and will be at every replay: declare types"
        " that hold them (secor schema show, output.schema_file), then replay; for what is stored"
        " already, parse the backup again (secor backfill)"
    )


def _summarize(done: Sequence[Replayed], *, dry_run: bool, as_json: bool) -> None:
    totals = {
        "objects": len(done),
        "placed": sum(replayed.placed for replayed in done),
        "filtered": sum(replayed.filtered for replayed in done),
        "bad": sum(replayed.bad for replayed in done),
    }
    if as_json:
        listed = [
            {
                "key": replayed.archived.key,
                "placed": replayed.placed,
                "filtered": replayed.filtered,
                "bad": replayed.bad,
                "objects": list(replayed.keys),
                "reasons": dict(replayed.reasons.most_common()),
                "skipped": replayed.skipped,
                "gone": replayed.gone,
            }
            for replayed in done
        ]
        click.echo(json.dumps({**totals, "dry_run": dry_run, "replayed": listed}, indent=2))
    elif done:
        would = "would be " if dry_run else ""
        click.echo(
            f"{how_many(totals['objects'], 'object')}:"
            f" {how_many(totals['placed'], 'message')} {would}placed,"
            f" {totals['filtered']:,} {would}filtered, {totals['bad']:,} still bad"
        )
        reasons = sum((replayed.reasons for replayed in done), Counter[str]())
        _show_reasons(reasons)
        remedy = schema_remedy(reasons)
        if remedy is not None:
            click.echo(remedy)
    else:
        click.echo("nothing is in quarantine")
