"""``secor offsets import`` and ``export``: offsets of another consumer group, as a connector's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.archive.objects import Archive
from secor.archive.repair.move_offset import Move, entry_or_none, move
from secor.cli.offsets.set import config_argument, refuse_running, yes_option
from secor.cli.offsets.table_moves import refuse_below_vectors, with_dropped_manifests
from secor.cli.open_archive import archive_of, earlier_routes, of_topic, table
from secor.cli.topic_type import print_json
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError, Refused
from secor.core.model import RUNNING_UNLESS, Committed, Entry, TopicPartition
from secor.core.ports import ObjectStore, OffsetLedger
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.adapters.kafka.group_admin import GroupAdmin

DRY_RUN = "nothing is changed: this was a dry run"

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run."
)


@dataclass(frozen=True, slots=True)
class Row:
    """An offset that is taken over: ``before`` is None where there was none."""

    topic_partition: TopicPartition
    before: int | None
    after: int | None
    remark: str = ""

    def document(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "before": self.before,
            "after": self.after,
            "remark": self.remark,
        }


@click.command(
    "import",
    epilog="\b\nExample: secor offsets import clicks.toml --from-group connect-clicks-to-s3",
)
@config_argument
@click.option(
    "--from-group",
    "group",
    required=True,
    metavar="GROUP",
    help="The consumer group that has stopped; connect-NAME is that of a connector.",
)
@click.option(
    "--replace", "replaces", is_flag=True, help="Overwrite offsets that CONFIG's group has."
)
@dry_run_option
@json_option
@yes_option
def import_offsets(
    config: Path, group: str, replaces: bool, dry_run: bool, as_json: bool, yes: bool
) -> None:
    """Begin where another consumer group has ended.

    The committed offsets of GROUP become those of CONFIG's group, for all topics of CONFIG.  Both
    groups must be stopped: while one has members, this is refused with exit code 5.  Objects that
    begin at or above an offset are named and refused: their messages would be stored again.

    With ledger.kind "kafka" and group.name GROUP nothing has to be imported.
    """
    _refuse_silence(as_json=as_json, yes=yes, dry_run=dry_run)
    from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store

    settings = load(config, os.environ)
    _refuse_same(settings, group)
    with ExitStack() as opened:
        store = opened.enter_context(open_store(settings))
        ledger = opened.enter_context(open_ledger_for_operator(settings))
        reader = opened.enter_context(open_reader(settings))
        offsets = _offsets_of(opened, settings, group)
        if not dry_run:
            refuse_running(settings)
        routes = earlier_routes(settings, store)
        planned: list[tuple[Row, Move | None, Archive]] = []
        for topic, partitions in _topics(settings, reader):
            archive = archive_of(settings, topic, store, routes)
            moves = [
                _plan(ledger, reader, archive, place, offsets, replaces=replaces)
                for place in partitions
            ]
            if settings.group.kind == "table":
                # Tables have offsets of their own, in their snapshots: rows below them would be
                # there twice.
                moves = _of_tables(moves, settings, reader.topic_id(topic), store)
            planned += [(row, change, archive) for row, change in moves]
        # All partitions are planned before any is moved: one that is refused must not leave the
        # group half moved.
        _show([row for row, _, _ in planned], as_json=as_json)
        if dry_run:
            click.echo(DRY_RUN, err=as_json)
            return
        if not yes:
            click.confirm("Take these offsets over?", abort=True)
        written = [move(ledger, archive, change) for _, change, archive in planned if change]
        click.echo(
            f"{how_many(len(written), 'offset')} of {group} taken over: start the service with"
            f" {config}",
            err=as_json,
        )


def _of_tables(
    moves: Sequence[tuple[Row, Move | None]],
    settings: Config,
    topic_id: str | None,
    store: ObjectStore,
) -> list[tuple[Row, Move | None]]:
    """Refuse offsets below what tables have, and drop manifests that would be committed twice."""
    changes = [change for _, change in moves if change is not None]
    refuse_below_vectors(changes, settings, topic_id)
    dropped = iter(with_dropped_manifests(changes, store, settings.output.prefix))
    return [(row, None if change is None else next(dropped)) for row, change in moves]


def _plan(
    ledger: OffsetLedger,
    reader: KafkaReader,
    archive: Archive,
    place: TopicPartition,
    offsets: Mapping[TopicPartition, Committed],
    *,
    replaces: bool,
) -> tuple[Row, Move | None]:
    """Return what is shown of a partition, and what is done; None where nothing is.

    Raises ``ConfigurationError``, ``Refused``.
    """
    before = entry_or_none(lambda: ledger.read(place))
    committed = None if before is None else before.committed
    if place not in offsets:
        begins = "begins where kafka.reset says" if committed is None else "stays"
        return Row(place, committed, committed, f"the group has no offset: {begins}"), None
    offset = offsets[place].offset
    row = Row(place, committed, offset)
    # The intent is settled by its own end: with another offset in the entry, its objects would be
    # neither committed nor deleted.
    if before is not None and before.intent is not None:
        raise Refused(
            f"{place}: objects of [{before.intent.start}, {before.intent.end}) are being put: let"
            " the service finish them first"
        )
    if committed == offset:
        return replace(row, remark="as it is"), None
    if committed is not None and not replaces:
        raise ConfigurationError(
            f"{place}: this group has offset {committed} already, the other {offset}: add --replace"
            " to overwrite it"
        )
    log = reader.log_range(place)
    # Consumers would be out of range there, and kafka.reset would say where they begin.
    if offset > log.last:
        raise ConfigurationError(
            f"{place}: offset {offset} is beyond the log's end {log.last}: the topic was created"
            " again, or it is another cluster's group"
        )
    if offset < log.start:
        row = replace(row, remark=f"the log begins at {log.start}: messages before are lost")
    _refuse_objects(archive, place, offset)
    topic_id = before.topic_id if before else None
    return row, Move(place, before, offset, topic_id)


def _refuse_objects(archive: Archive, place: TopicPartition, offset: int) -> None:
    """Raise ``ConfigurationError`` for objects that were put and never committed."""
    above = [
        archived
        for archived in archive.everything(place.topic, partitions=[place.partition])
        if archived.batch_start >= offset
    ]
    if above:
        begin = how_many(len(above), "object begins", "objects begin")
        raise ConfigurationError(
            f"{place}: {begin} at or above {offset}, such as {above[0].key}: put and never"
            " committed. Delete them, their messages would be stored again"
        )


@click.command(
    "export",
    epilog="\b\nExample: secor offsets export clicks.toml --to-group connect-clicks-to-s3",
)
@config_argument
@click.option(
    "--to-group",
    "group",
    required=True,
    metavar="GROUP",
    help="The consumer group that is to go on, without members; connect-NAME is a connector's.",
)
@dry_run_option
@json_option
@yes_option
def export_offsets(config: Path, group: str, dry_run: bool, as_json: bool, yes: bool) -> None:
    """Let another consumer group go on where CONFIG's group has ended.

    The committed offsets of CONFIG's group become those of GROUP, for all topics of CONFIG.  Both
    groups must be stopped: while one has members, this is refused with exit code 5; and so is an
    open intent, which a killed process leaves: start the service once more and stop it.

    With ledger.kind "kafka" and group.name GROUP nothing has to be exported.
    """
    _refuse_silence(as_json=as_json, yes=yes, dry_run=dry_run)
    from secor.wiring.clients import open_groups, open_ledger_for_operator, open_reader

    settings = load(config, os.environ)
    _refuse_same(settings, group)
    with ExitStack() as opened:
        ledger = opened.enter_context(open_ledger_for_operator(settings))
        reader = opened.enter_context(open_reader(settings))
        groups = opened.enter_context(open_groups(settings))
        present = _offsets_of_stopped(groups, group) if group in groups.states() else {}
        if not dry_run:
            refuse_running(settings)
        rows = [
            _exported(ledger.read(place), place, present)
            for _, partitions in _topics(settings, reader)
            for place in partitions
        ]
        _show(rows, as_json=as_json)
        if dry_run:
            click.echo(DRY_RUN, err=as_json)
            return
        if not yes:
            click.confirm("Write these offsets?", abort=True)
        wanted = {
            row.topic_partition: Committed(row.after) for row in rows if row.after is not None
        }
        # The brokers answer for each partition by itself.
        for error in groups.commit(group, wanted).values():
            raise error
        click.echo(f"{how_many(len(wanted), 'offset')} written for {group}", err=as_json)


def _exported(
    entry: Entry, place: TopicPartition, present: Mapping[TopicPartition, Committed]
) -> Row:
    if entry.intent is not None:
        raise Refused(
            f"{place}: objects of [{entry.intent.start}, {entry.intent.end}) are being put: start"
            " the service, and stop it when they are committed"
        )
    before = present[place].offset if place in present else None
    remark = "" if entry.committed is not None else "nothing was committed: not written"
    return Row(place, before, entry.committed, remark)


def _offsets_of(opened: ExitStack, settings: Config, group: str) -> dict[TopicPartition, Committed]:
    """Return what a stopped group has committed.  Raises ``ConfigurationError``, ``Refused``."""
    from secor.wiring.clients import open_groups

    groups = opened.enter_context(open_groups(settings))
    if group not in groups.states():
        raise ConfigurationError(
            f"the cluster has no group {group}: look at the spelling; a connector NAME has"
            " connect-NAME, unless consumer.override.group.id says otherwise"
        )
    return _offsets_of_stopped(groups, group)


def _offsets_of_stopped(groups: GroupAdmin, group: str) -> dict[TopicPartition, Committed]:
    state = groups.states().get(group, "empty")
    if state not in RUNNING_UNLESS:
        raise Refused(
            f"the group {group} is running ({state}): stop it first (a connector: PUT"
            " /connectors/NAME/stop), and wait until its members are gone"
        )
    return groups.offsets(group)


def _refuse_same(settings: Config, group: str) -> None:
    if settings.ledger.kind == "kafka" and settings.group.name == group:
        raise ConfigurationError(
            f"the ledger of {group} is this group's own offsets: there is nothing to take over or"
            " to give back"
        )


def _refuse_silence(*, as_json: bool, yes: bool, dry_run: bool) -> None:
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask: add --yes or --dry-run")


def _topics(settings: Config, reader: KafkaReader) -> Iterator[tuple[str, list[TopicPartition]]]:
    kafka = settings.kafka
    for topic in kafka.topics or reader.topics(kafka.topics_pattern, kafka.topics_exclude):
        yield topic, of_topic(reader.partitions(topic), topic)


def _show(rows: Sequence[Row], *, as_json: bool) -> None:
    if as_json:
        print_json({"offsets": [row.document() for row in rows]})
        return
    lines: list[tuple[str, ...]] = [("topic", "partition", "before", "after", "")]
    for row in rows:
        place = row.topic_partition
        offsets = ("-" if offset is None else str(offset) for offset in (row.before, row.after))
        lines.append((place.topic, str(place.partition), *offsets, row.remark))
    for line in table(lines, left=frozenset({0, 4})):
        click.echo(line)
