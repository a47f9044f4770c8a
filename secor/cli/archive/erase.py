"""``secor archive erase``: all messages of some keys go, and stay away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from secor import __version__
from secor.archive.erasures import SETTING
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.erasure_search import Searched
from secor.archive.rewrite.field_search import FieldSearch
from secor.archive.rewrite.planning import FailedRange, RewriteResult
from secor.cli.archive.erased_values import Keys, encoding_option, lines_option, search_of
from secor.cli.backfill.publish import progress
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import archive_of, earlier_routes, human_size, require_stored
from secor.cli.spark_tasks import SparkOptions, rewriting, searching, spark_options, spark_tasks
from secor.cli.topic_type import TOPIC
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError
from secor.core.ports import VersionedStore
from secor.core.text import how_many, iso_time
from secor.wiring.archives import secret_of

LINES = 20
"""Objects and lines of the file that are printed for people; --json has all."""

HOLDERS = (
    "the topic in Kafka, until its retention or compaction removes them: this is not done here",
    "other groups, tables, replicas, exports and backups of these messages: erase them there, too",
)
"""What this command cannot reach."""


@click.command("erase", epilog="Example: secor archive erase backup.toml --topic c --keys FILE")
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "--topic", type=TOPIC, required=True, metavar="TOPIC", help="The topic to erase from."
)
@lines_option("--keys", "The keys of the messages to erase")
@encoding_option("the key in UTF-8")
@click.option(
    "--field",
    "path",
    metavar="PATH",
    help="Instead of keys: erase messages whose field, such as customer.id, has one of --values.",
)
@lines_option("--values", "The values of --field")
@click.option(
    "--parser",
    type=click.Path(path_type=Path),
    metavar="CONFIG",
    help="With --field: a configuration of a group whose parser reads the topic.",
)
@click.option("--null-key", is_flag=True, help="Erase the messages without a key, too.")
@click.option("--empty-key", is_flag=True, help="Erase the messages with an empty key, too.")
@click.option(
    "--tombstone",
    "tombstones",
    is_flag=True,
    help="Keep the messages with a null value and without headers.  Their keys stay.",
)
@click.option(
    "--old-versions",
    is_flag=True,
    help="In a bucket with versions, delete all noncurrent versions of the topic's objects.",
)
@click.option("--dry-run", is_flag=True, help="Only count, and name the objects.")
@click.option(
    "--note",
    is_flag=True,
    help="Erase nothing: only put the list, so that verify explains what is missing from a"
    " partition group that was backfilled from an erased backup.",
)
@click.option(
    "--local-directory",
    type=click.Path(path_type=Path),
    help="Directory for files that are being written.  Default: the system's, such as /tmp.",
)
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def erase_command(
    config: Path,
    topic: str,
    keys_file: Path | None,
    encoding: str,
    path: str | None,
    values_file: Path | None,
    parser: Path | None,
    null_key: bool,
    empty_key: bool,
    tombstones: bool,
    old_versions: bool,
    dry_run: bool,
    note: bool,
    local_directory: Path | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Erase all messages of some keys, or values of a field, from a backup, and keep them away.

    The objects that hold them are written again without them.  Every other message is compared
    before the old objects are deleted.  A list of hashes of the keys stays in the archive, made
    with erase.secret: restore, backfill and cat leave these messages out, also of objects that
    somebody copies back, and verify does not call them missing.  The service may run meanwhile.
    After a crash, run it again.  Exit code 5 when objects could not be searched or rewritten.
    """
    if note and (dry_run or old_versions):
        raise click.UsageError("--note erases nothing: take --dry-run and --old-versions away")
    settings = load(config, os.environ)
    _refuse_other_kinds(settings, config, note=note)
    search = None
    if path is None:
        if values_file is not None or parser is not None:
            raise click.UsageError("--values and --parser are for --field")
        # Before anything is opened: a file that cannot be read is a fault of the command line.
        wanted = Keys.read(keys_file, encoding, null_key=null_key, empty_key=empty_key)
    else:
        if keys_file is not None or null_key or empty_key:
            raise click.UsageError("--field: take --keys, --null-key and --empty-key away")
        wanted = Keys({})
        search = search_of(path, values_file, parser, topic)
    options = SparkOptions(master, conf)
    with _eraser(settings, topic, search, options, local_directory) as eraser:
        if note:
            waiting = eraser.note(wanted.all, tombstones=tombstones)
            click.echo(
                f"{topic}: noted that {how_many(len(wanted.all), 'key is', 'keys are')} erased"
            )
            return _in_quarantine(topic, waiting)
        result = _Result(topic, dry_run, search=search)
        if dry_run:
            result.searched = eraser.look(wanted.all, tombstones=tombstones)
        else:
            from secor.wiring.backfill import open_workspace

            with (
                open_workspace(local_directory) as workspace,
                progress(f"erasing from {topic}", unit="ranges") as show,
            ):
                if show is not None and eraser.in_tasks is None:
                    eraser = replace(eraser, rewritten=show)
                result.searched, result.outcomes = eraser.run(
                    wanted.all, workspace, tombstones=tombstones
                )
        # After the rewriting: what it has replaced and deleted is a noncurrent version by now.
        result.versions = _Versions.of(eraser, delete=old_versions and not dry_run)
        result.copies = eraser.copies()
        hashed = eraser.secret.hasher(topic)
    if search is None:
        result.absent = [
            name
            for key, name in wanted.all.items()
            if hashed(key) not in result.searched.found_hashes
        ]
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        result.print()
    return Exit.DIFFERENT if result.is_incomplete else Exit.OK


def _in_quarantine(topic: str, waiting: Searched) -> int:
    """Say which messages of the list are in quarantine; return the exit code."""
    for part in waiting.ranges:
        click.echo(f"still in quarantine: {', '.join(part.inputs)}", err=True)
    for key, why in waiting.unsearchable.items():
        click.echo(f"{key}: not searched: {why}", err=True)
    if waiting.messages:
        click.echo(
            f"{topic}: {how_many(waiting.messages, 'message')} of the list in quarantine, where"
            " whole messages are: correct the parser and say 'secor quarantine replay', then"
            " backfill; or delete these objects, which takes their other messages away, too",
            err=True,
        )
    return Exit.DIFFERENT if waiting.messages or waiting.unsearchable else Exit.OK


def _refuse_other_kinds(config: Config, where: Path, *, note: bool) -> None:
    if config.group.kind == "table":
        raise ConfigurationError(
            f"{where}: the messages of a table group are rows: 'secor tables erase' deletes them,"
            " and names the snapshots that still hold them"
        )
    if config.group.kind != "backup" and not note:
        raise ConfigurationError(
            f"{where}: only a backup keeps whole messages with their keys. Erase them there, and"
            " then backfill this group's range from it with 'publish --old delete', and say"
            " 'archive erase --note' here, so that verify knows"
        )


@contextmanager
def _eraser(
    config: Config,
    topic: str,
    search: FieldSearch | None,
    options: SparkOptions,
    directory: Path | None,
) -> Iterator[Eraser]:
    from secor.wiring.clients import open_ledger_for_operator, open_store

    secret = secret_of(config)
    if secret is None:
        raise ConfigurationError(
            f"set {SETTING}: keys are kept as hashes with it. Make one with 'openssl rand -hex 32',"
            " and keep it as long as the archive: without it the archive cannot be read any more"
        )
    with open_store(config) as store, open_ledger_for_operator(config) as ledger:
        require_stored(config, store, topic)
        routes = earlier_routes(config, store)
        archive = archive_of(config, topic, store, routes)
        now, by = iso_time(time.time()), f"secor {__version__}"
        with spark_tasks("erase", options) as tasks:
            yield Eraser(
                archive,
                topic,
                secret,
                ledger.read,
                now,
                by,
                search=search,
                in_tasks=rewriting("erase", tasks, config, routes, directory),
                search_in_tasks=searching(tasks, config, routes, topic),
            )


@dataclass(frozen=True, slots=True)
class _Versions:
    """The topic's objects that a bucket with versions still has.

    ``why`` says why that is not known.
    """

    count: int = 0
    size: int = 0
    deleted: int = 0
    why: str | None = None

    @classmethod
    def of(cls, eraser: Eraser, *, delete: bool) -> _Versions:
        """Look, and delete them if that is wanted."""
        store = eraser.archive.store
        if not isinstance(store, VersionedStore):
            return cls(why="this kind of store is not asked for versions and deleted objects")
        try:
            versions = eraser.old_versions(store)
        except AccessDenied as error:
            if delete:
                raise
            return cls(why=str(error))
        if delete:
            for version in versions:
                store.delete_version(version)
            return cls(deleted=len(versions))
        return cls(len(versions), sum(version.size for version in versions))

    def lines(self) -> Iterator[str]:
        """Give what to say."""
        if self.why is not None:
            yield f"noncurrent versions and deleted objects that the store keeps: {self.why}"
        if self.count:
            yield (
                f"{how_many(self.count, 'noncurrent version')} of the topic's objects in the bucket"
                f" ({human_size(self.size)}): delete them with --old-versions, or let a lifecycle"
                " rule do it"
            )


@dataclass(slots=True)
class _Result:
    """The result, for people and for scripts."""

    topic: str
    dry_run: bool
    searched: Searched = field(default_factory=Searched)
    outcomes: list[RewriteResult] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    versions: _Versions = field(default_factory=_Versions)
    copies: list[str] = field(default_factory=list)
    search: FieldSearch | None = None

    @property
    def unread(self) -> int:
        """Messages that the parser could not decode, so whose field is not known."""
        return self.search.unread if self.search is not None else 0

    @property
    def unsearchable(self) -> Mapping[str, str]:
        """Objects in which nothing was found or replaced, and why."""
        damaged = self.search.damaged if self.search is not None else {}
        return {**damaged, **self.searched.unsearchable}

    @property
    def failed(self) -> list[FailedRange]:
        """Ranges that stay as they are."""
        return [failed for outcome in self.outcomes for failed in outcome.failed]

    @property
    def is_incomplete(self) -> bool:
        """Whether messages may be left that should be gone."""
        return bool(self.failed or self.unsearchable or self.unread)

    @property
    def holders(self) -> list[str]:
        """What may still hold the messages."""
        copies = [f"{key}: a copy of an object; delete it" for key in self.copies]
        return [*copies, *self.versions.lines(), *HOLDERS]

    @property
    def keys(self) -> list[str]:
        """The objects that hold what is erased."""
        return [key for part in self.searched.ranges for key in part.inputs]

    def print(self) -> None:
        """Print it for people."""
        searched = self.searched
        would = "would be erased" if self.dry_run else "erased"
        messages = how_many(searched.messages, "message")
        emptied = f" ({searched.emptied:,} keep their key)" if searched.emptied else ""
        objects = how_many(len(self.keys), "object")
        click.echo(
            f"{self.topic}: {messages} {would}{emptied}, in {objects} of {searched.objects:,}"
        )
        _print_some([f"  {key}" for key in self.keys], "more object")
        for key, why in list(self.unsearchable.items())[:LINES]:
            click.echo(f"{key}: not erased from: {why}", err=True)
        if len(self.unsearchable) > LINES:
            more = how_many(len(self.unsearchable) - LINES, "more object")
            click.echo(f"not erased from {more}: --json names them", err=True)
        if self.unread:
            click.echo(
                f"{how_many(self.unread, 'message')} not searched: the parser cannot decode them",
                err=True,
            )
        if self.search is not None:
            absent = len(self.search.values) - len(self.search.found_values)
            if absent:
                click.echo(f"no message has {how_many(absent, 'value')} of the file")
        for failed in self.failed:
            where = f"{self.topic}/{failed.range.partition}"
            offsets = f"[{failed.range.start}, {failed.range.end})"
            click.echo(f"{where} {offsets}: left as it is: {failed.why}", err=True)
        if searched.later:
            click.echo(
                f"{how_many(searched.later, 'object')} not committed yet, so not searched: run it"
                " again later"
            )
        if self.absent:
            click.echo(f"no object has a message of {how_many(len(self.absent), 'key')}:")
            _print_some([f"  {name}" for name in self.absent], "more key")
        if self.versions.deleted:
            click.echo(f"{how_many(self.versions.deleted, 'noncurrent version')} deleted")
        if not self.dry_run:
            click.echo("What may still hold them:")
            for holder in self.holders:
                click.echo(f"  {holder}")

    def as_json(self) -> dict[str, object]:
        """Return it for ``--json``."""
        return {
            "dry_run": self.dry_run,
            "topic": self.topic,
            "messages": self.searched.messages,
            "tombstones": self.searched.emptied,
            "searched": self.searched.objects,
            "objects": self.keys,
            "undecoded": self.unread,
            "unsearchable": self.unsearchable,
            "failed": [
                {
                    "partition": failed.range.partition,
                    "start": failed.range.start,
                    "end": failed.range.end,
                    "why": failed.why,
                }
                for failed in self.failed
            ],
            "not_committed": self.searched.later,
            "absent": self.absent,
            "old_versions": {"left": self.versions.count, "deleted": self.versions.deleted},
            "may_still_hold_them": self.holders,
        }


def _print_some(lines: list[str], more: str) -> None:
    for line in lines[:LINES]:
        click.echo(line)
    if len(lines) > LINES:
        click.echo(f"  and {how_many(len(lines) - LINES, more)} (--json has all)")
