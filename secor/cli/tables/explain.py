"""``secor tables explain``: where the columns of a table come from, and what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from secor.archive.quarantine.listing import counted
from secor.cli.archive.quarantine_report import reason_kinds
from secor.cli.open_archive import archive_of, table
from secor.cli.tables.options import TABLE, load_tables
from secor.cli.topic_type import json_option, print_json
from secor.config.model import Config
from secor.core.errors import ConfigurationError, NotFound
from secor.core.text import how_many
from secor.tables.commit.column_origins import ColumnOrigin, SchemaStep, origins_of

if TYPE_CHECKING:
    from secor.tables.catalog import Table
    from secor.wiring.table_group import TableGroup

MOST_MESSAGES = 10_000
"""Messages in quarantine that are read."""

MOST_OBJECTS = 1000
"""Objects in quarantine that are opened: each may have a single message."""

REASONS = 10
"""Kinds of reasons printed for each column; --json has all."""


@dataclass
class Refusals:
    """Reasons by column of the messages in quarantine that were looked at.

    Those of no column are under "".  ``other_tables`` were refused by other tables alone.
    """

    by_column: dict[str, Counter[str]] = field(default_factory=dict)
    objects: int = 0
    read: int = 0
    messages: int = 0
    other_tables: int = 0

    def add(self, reasons: Mapping[str, int], name: str, columns: Sequence[str]) -> None:
        """Add the reasons of one object, as far as they are about a table."""
        for reason, number in reasons.items():
            self.messages += number
            stage, _, why = reason.partition(": ")
            own = why.removeprefix(f"{name}: ")
            refusing = why.partition(": ")[0]
            if own == why and stage in ("schema", "time") and "." in refusing:
                self.other_tables += number
                continue
            column = _column_of(own, columns) if own != why else ""
            self.by_column.setdefault(column, Counter())[f"{stage}: {own}"] += number


def _column_of(why: str, columns: Sequence[str]) -> str:
    path = why.partition(": ")[0]
    for column in columns:
        if path == column or path.startswith((f"{column}.", f"{column}[")):
            return column
    return ""


@click.command(epilog="Example: secor tables explain table.toml logs.clicks")
@click.argument("config", type=click.Path(path_type=Path))
@click.argument("name", metavar="TABLE", type=TABLE)
@click.option(
    "--messages",
    type=click.IntRange(0),
    default=MOST_MESSAGES,
    show_default=True,
    metavar="N",
    help="Read at most about this many messages in quarantine, the newest objects first.",
)
@json_option
def explain(config: Path, name: str, messages: int, as_json: bool) -> None:
    """Show where each column of a table comes from, and which messages it refused, and why.

    A table records by itself when Secor made or changed a column, with the kinds of values and
    the messages.  What was refused is read from the quarantine of the topics that feed the table:
    the newest objects, as the last line says.
    """
    from secor.wiring.table_group import open_table_group

    settings = load_tables(config)
    with open_table_group(settings) as group:
        group.require(name, group.staged())
        topics = sorted(
            {
                partition.topic
                for partition in group.topics.partitions()
                if group.feeds(name, partition.topic)
            }
        )
        try:
            shown = group.catalog.load_table(name)
        except NotFound as error:
            raise ConfigurationError(f"there is no table {name} yet: nothing made it") from error
        origins = list(origins_of(shown, settings.group.name))
        refusals = _refusals(settings, group, topics, shown, messages)
    decoders = sorted({settings.for_topic(topic).parser.decoder for topic in topics})
    if as_json:
        print_json(_data(settings, shown, origins, decoders, refusals))
        return
    for line in _lines(settings, shown, origins, decoders, refusals):
        click.echo(line)


def _refusals(
    config: Config, group: TableGroup, topics: Sequence[str], shown: Table, most: int
) -> Refusals:
    """Read the newest objects in quarantine of some topics."""
    refusals = Refusals()
    listed = [
        (archived, archive)
        for topic in topics
        for archive in [archive_of(config, topic, group.objects)]
        for archived in archive.quarantine.objects(topic)
    ]
    refusals.objects = len(listed)
    for archived, archive in sorted(listed, key=lambda pair: -pair[0].modified):
        if refusals.messages >= most or refusals.read >= MOST_OBJECTS:
            break
        with suppress(NotFound):  # a replay has taken it meanwhile
            reasons = counted(archive, archived).reasons
            refusals.add(reasons, shown.identifier, shown.schema.names)
            refusals.read += 1
    return refusals


def _lines(
    config: Config,
    shown: Table,
    origins: Sequence[ColumnOrigin],
    decoders: Sequence[str],
    refusals: Refusals,
) -> Iterator[str]:
    yield f"table {shown.identifier}, schema {shown.schema_id}"
    by = ", ".join(decoders) or "none: no topic of the group feeds it now"
    typed = "; its messages have a schema, which gives the types" if _has_schema(decoders) else ""
    yield f"decoder {by}{typed}"
    rows: list[tuple[str, ...]] = [("column", "type", "from")]
    for origin in origins:
        texts = [_step_text(origin, path, step) for path, step in origin.steps]
        if origin.name in config.rows.metadata_columns:
            texts = ["rows.metadata_columns"]
        first, *more = texts or ["not recorded: made by somebody else, or before this was recorded"]
        rows += [(origin.name, origin.type, first), *(("", "", text) for text in more)]
    yield from table(rows, left=frozenset({0, 1, 2}))
    for column, reasons in sorted(refusals.by_column.items()):
        number = how_many(reasons.total(), "message")
        yield f"refused, {f'column {column}' if column else 'of no column'}: {number}"
        kinds = reason_kinds(reasons)
        yield from (f"  {number:,}  {reason}" for number, reason in kinds[:REASONS])
        if len(kinds) > REASONS:
            yield f"  … and {how_many(len(kinds) - REASONS, 'other reason')}; --json shows all"
    yield _looked_at(refusals)


def _has_schema(decoders: Sequence[str]) -> bool:
    return bool(decoders) and {*decoders} <= {"avro", "protobuf", "thrift"}


def _looked_at(refusals: Refusals) -> str:
    if not refusals.objects:
        return "nothing is in quarantine of the topics that feed it"
    of = "all" if refusals.read == refusals.objects else f"the newest {refusals.read:,}"
    objects = how_many(refusals.objects, "object")
    others = f", {refusals.other_tables:,} of other tables alone" if refusals.other_tables else ""
    return (
        f"looked at {of} of {objects} in quarantine, with"
        f" {how_many(refusals.messages, 'message')}{others}"
    )


def _step_text(origin: ColumnOrigin, path: str, step: SchemaStep) -> str:
    """Return what a step did to a column, why and when."""
    kind, seen = step.columns[path]
    inside = "" if path == origin.name else f" {path}"
    if step.declared is not None:
        why = f"declared in {step.declared}"
    elif kind == "widened":
        why = seen
    else:
        why = f"seen: {seen}" if seen else ""
    if step.first is not None:
        key, offset = step.first
        why = f"{why}{', ' if why else ''}from {key} offset {offset} on"
    time = datetime.fromtimestamp(step.time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{kind}{inside} {time} (UTC){f'; {why}' if why else ''}"


def _data(
    config: Config,
    shown: Table,
    origins: Sequence[ColumnOrigin],
    decoders: Sequence[str],
    refusals: Refusals,
) -> dict[str, object]:
    return {
        "table": shown.identifier,
        "schema": shown.schema_id,
        "decoders": list(decoders),
        "columns": [
            {
                "name": origin.name,
                "type": origin.type,
                "metadata_column": origin.name in config.rows.metadata_columns,
                "steps": [_step_data(path, step) for path, step in origin.steps],
                "refused": dict(refusals.by_column.get(origin.name, Counter()).most_common()),
            }
            for origin in origins
        ],
        "refused_of_no_column": dict(refusals.by_column.get("", Counter()).most_common()),
        "quarantine": {
            "objects": refusals.objects,
            "objects_read": refusals.read,
            "messages_read": refusals.messages,
            "messages_of_other_tables": refusals.other_tables,
        },
    }


def _step_data(path: str, step: SchemaStep) -> dict[str, object]:
    kind, seen = step.columns[path]
    data: dict[str, object] = {"path": path, "step": kind, "at": step.time / 1000}
    if seen:
        data["to" if kind == "widened" else "seen"] = seen
    if step.declared is not None:
        data["declared"] = step.declared
    if step.first is not None:
        key, offset = step.first
        data["first"] = {"topic": key.topic, "partition": key.partition, "offset": offset}
    return data
