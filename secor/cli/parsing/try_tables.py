"""The part of ``secor parser try`` for table groups: rows of messages, and the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from secor.config.model import Config
from secor.core.errors import TooManyBad
from secor.core.model import Chunk, TopicPartition, next_offset
from secor.core.text import how_many

if TYPE_CHECKING:
    from secor.tables.trial import TriedMessage, TriedRow, TriedTable

ROWS, LEFT_OUT, QUARANTINED = "become rows", "left out", "in quarantine"
"""Fates of messages."""


MOST_ORDERS = 4
"""Partitions that are tried as the first one, besides the one that is."""

OtherTypes = dict[str, dict[str, list[str]]]
"""By column and type, the partitions that give it if they are read first."""


@dataclass(frozen=True, slots=True)
class MessagesToTry:
    """The messages of one topic.  Those of a file are ``numbered`` from 1, as lines are."""

    topic: str
    chunks: Iterable[Chunk]
    absence: str
    numbered: bool = True

    def label(self, topic_partition: TopicPartition, offset: int) -> dict[str, object]:
        """Return what names a message in JSON."""
        if self.numbered:
            return {"message": next_offset(offset)}
        key = topic_partition
        return {"topic": key.topic, "partition": key.partition, "offset": offset}


def line_label(named: dict[str, object]) -> str:
    """Return the same for a line of text."""
    if "message" in named:
        return str(named["message"])
    return f"{named['topic']}/{named['partition']}@{named['offset']}"


def try_tables(
    config: Config, source: MessagesToTry, *, without_catalog: bool, as_json: bool
) -> Counter[str]:
    """Show the rows of each message, then the tables; return how many there are of each fate."""
    from secor.tables.trial import dumped
    from secor.wiring.table_trial import bad_limits, open_trial

    tried: Counter[str] = Counter()
    limits, stop = bad_limits(config, source.topic), ""
    first_chunks: dict[TopicPartition, Chunk] = {}
    with open_trial(config, with_catalog=not without_catalog) as trial:
        for chunk in source.chunks:
            first_chunks.setdefault(chunk.topic_partition, chunk)
            bad: dict[int, str] = {}
            for row, message in enumerate(trial.take(chunk)):
                if message.quarantine is not None:
                    bad[row] = message.quarantine
                tried[_fate(message)] += 1
                label = source.label(message.topic_partition, message.offset)
                for line in _lines(message, label, as_json=as_json):
                    click.echo(line)
            try:
                limits.add(chunk, bad)
            except TooManyBad as error:
                stop = stop or str(error)
        tables = trial.tables()
    if not tried:
        return tried
    # Which partition is fetched first is chance, and the first messages decide the type of a new
    # column: what another order would give is shown, too.
    others = list(first_chunks.values())[1 : MOST_ORDERS + 1]
    by_order = _other_types(config, tables, others, without_catalog=without_catalog)
    for table in tables:
        others_of = by_order.get(table.after.identifier, {})
        if as_json:
            click.echo(dumped(_table_data(table, others_of, looked=not without_catalog)))
        else:
            for line in _table_lines(table, others_of, looked=not without_catalog):
                click.echo(line)
    if as_json:
        counts = {"rows": tried[ROWS], "left_out": tried[LEFT_OUT], "bad": tried[QUARANTINED]}
        summary = {"messages": tried.total(), **counts, "stops": stop or None}
        click.echo(dumped({"summary": summary}))
        return tried
    counts_text = ", ".join(f"{tried[fate]:,} {fate}" for fate in (ROWS, LEFT_OUT, QUARANTINED))
    click.echo(f"{how_many(tried.total(), 'message')}: {counts_text}")
    if stop:
        click.echo(f"a daemon stops there: {stop}")
    return tried


def _other_types(
    config: Config,
    tables: Sequence[TriedTable],
    chunks: Sequence[Chunk],
    *,
    without_catalog: bool,
) -> dict[str, OtherTypes]:
    """Return by table what new columns would be if a daemon read another partition first."""
    from secor.tables.commit.column_origins import described_type
    from secor.wiring.table_trial import open_trial

    shown = {
        table.after.identifier: {
            field.name: described_type(field) for field, before in table.columns() if before is None
        }
        for table in tables
    }
    others: dict[str, OtherTypes] = {}
    for chunk in chunks if any(shown.values()) else ():
        with open_trial(config, with_catalog=not without_catalog) as trial:
            for _ in trial.take(chunk):
                pass
            for table in trial.tables():
                name = table.after.identifier
                for field, _ in table.columns():
                    kind = described_type(field)
                    if kind != shown.get(name, {}).get(field.name, kind):
                        types = others.setdefault(name, {}).setdefault(field.name, {})
                        types.setdefault(kind, []).append(str(chunk.topic_partition))
    return others


def _fate(message: TriedMessage) -> str:
    return QUARANTINED if message.quarantine is not None else ROWS if message.rows else LEFT_OUT


def _lines(message: TriedMessage, label: dict[str, object], *, as_json: bool) -> Iterator[str]:
    from secor.tables.trial import dumped

    number = line_label(label)
    if as_json:
        fate: dict[str, object] = {"rows": [_row_data(row) for row in message.rows]}
        if message.quarantine is not None:
            fate = {"quarantine": message.quarantine}
        elif not message.rows:
            fate = {"left_out": True}
        yield dumped({**label, **fate})
    elif message.quarantine is not None:
        yield f"{number}: quarantine: {message.quarantine}"
    elif not message.rows:
        yield f"{number}: left out"
    for row in () if as_json else message.rows:
        how = [item for item in (row.operation.removeprefix("append"), row.partition) if item]
        if row.keeps:
            how.append(f"keeps {', '.join(row.keeps)}")
        shown = f" ({'; '.join(how)})" if how else ""
        yield f"{number}: {row.table}{shown}: {dumped(row.values)}"


def _row_data(row: TriedRow) -> dict[str, object]:
    data: dict[str, object] = {"table": row.table, "operation": row.operation}
    if row.partition:
        data["partition"] = row.partition
    if row.keeps:
        data["keeps"] = list(row.keeps)
    return {**data, "values": row.values}


def _table_lines(table: TriedTable, others: OtherTypes, *, looked: bool) -> Iterator[str]:
    from secor.tables.commit.column_origins import described_type
    from secor.tables.trial import partition_terms

    terms = partition_terms(table.after)
    state = "exists" if table.before is not None else "would be made" if looked else "made anew"
    by = f", partitioned by {', '.join(terms)}" if terms else ""
    key = f", key {', '.join(table.after.key)}" if table.after.key else ""
    yield f"table {table.after.identifier}: {state}{by}{key}"
    for field, before in table.columns():
        kind = described_type(field)
        if table.before is None or before == kind:
            change = ""
        else:
            change = " (would be added)" if before is None else f" (is {before} now)"
        yield f"  {field.name} {kind}{change}"
        for other, partitions in others.get(field.name, {}).items():
            yield f"    {other} if {' or '.join(partitions)} is read first"
    for text in table.mixed:
        yield f"  mixed: {text}"
    if table.undeclared:
        yield f"  fields without a column, left out: {', '.join(table.undeclared)}"
    for text in table.outvoted:
        yield f"  would go into quarantine: {text}"


def _table_data(table: TriedTable, others: OtherTypes, *, looked: bool) -> dict[str, object]:
    from secor.tables.commit.column_origins import type_name
    from secor.tables.trial import partition_terms

    columns = [
        {
            "name": field.name,
            "type": type_name(field.type),
            "required": not field.nullable,
            "before": before,
            "other_types": others.get(field.name, {}),
        }
        for field, before in table.columns()
    ]
    return {
        "table": table.after.identifier,
        "exists": table.before is not None if looked else None,
        "partition_by": partition_terms(table.after),
        "key": list(table.after.key),
        "columns": columns,
        "mixed": list(table.mixed),
        "outvoted": list(table.outvoted),
        "undeclared": list(table.undeclared),
    }
