"""``secor verify`` for a group with tables: every message in its tables, or in quarantine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click
import numpy as np

from secor.archive.quarantine.listing import messages, quarantined
from secor.cli.exit_codes import Exit
from secor.cli.open_archive import archive_of
from secor.config.model import Config
from secor.core.model import TopicPartition
from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.tables.group_record import GroupRecord
from secor.tables.overview import tables_of_group
from secor.tables.selection import select
from secor.tables.staging import Staged
from secor.tables.verification import (
    COLUMNS,
    Finding,
    Offsets,
    Routed,
    beyond,
    compare,
    offsets_of,
    repeated,
)

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.wiring.table_commits import TableGroup

COUNTED = "compared by the number of rows alone: it has no " + ", ".join(COLUMNS)

CHANGED = (
    "not compared: messages change its rows by key, so that no row tells of all of its messages"
)

Stored = dict[str, dict[TopicPartition, Offsets]]


def verify_tables(config: Config, topics: tuple[str, ...], *, as_json: bool) -> int:
    """Compare tables and quarantine with the log; print what is wrong.  Returns the exit code."""
    from secor.wiring.clients import open_reader
    from secor.wiring.table_commits import open_table_group

    with open_table_group(config) as group, open_reader(config) as reader:
        staged = group.staged()
        partitions = {
            it for it in group.topics.partitions() if not topics or it.topic in set(topics)
        }
        stored, silent, remarks = _read_tables(group, staged)
        waiting = _waiting(group, staged)
        bounds = {key: _bound(group, key, waiting) for key in partitions}
        findings = list(_of_tables(group, stored, staged, bounds))
        compared = unknown = 0
        for key in sorted(partitions):
            routed = _route(config, reader, key, bounds[key])
            compared += len(routed.log)
            rows = {name: it[key] for name, it in stored.items() if key in it}
            rows = {name: it[it < bounds[key]] for name, it in rows.items()}
            bad = _quarantined(config, group, key)
            result = compare(key, routed, rows, bad[bad < bounds[key]], silent)
            findings += result.findings
            if result.left_out:
                remarks.append(f"{key}: {result.left_out} filtered or not routed")
            unknown += result.unknown
            if result.unknown:
                remarks.append(f"{key}: {result.unknown} in no table that tells")
    if as_json:
        listed = [str(finding) for finding in findings]
        data = {"compared": compared, "findings": listed, "remarks": remarks}
        click.echo(json.dumps(data, indent=2))
    else:
        for finding in findings:
            click.echo(str(finding))
        for remark in remarks:
            click.echo(remark)
        where = f"{how_many(len(partitions), 'topic partition')}"
        verdict = "each is there once"
        if unknown:
            verdict = f"nothing is missing or there twice but, perhaps, of the {unknown} above"
        if findings:
            verdict = how_many(len(findings), "finding")
        click.echo(f"{how_many(compared, 'message')} of {where} compared: {verdict}")
    return Exit.DIFFERENT if findings else Exit.OK


def _read_tables(
    group: TableGroup, staged: list[Staged]
) -> tuple[Stored, frozenset[str], list[str]]:
    """Read the rows' offsets; also return the tables that do not tell them, and remarks."""
    stored: Stored = {}
    remarks = {}
    for name in _names(group, staged):
        table, _ = group.committer.look(name)
        if group.config.changes_rows and table.key:
            remarks[name] = f"{name}: {_rows(table, group)} rows, {CHANGED}"
            continue
        if not set(COLUMNS) <= set(table.schema.names):
            remarks[name] = f"{name}: {_rows(table, group)} rows, {COUNTED}"
            continue
        stored[name] = offsets_of(group.catalog.scan(table, group.config.commit.branch, COLUMNS))
    return stored, frozenset(remarks), list(remarks.values())


def _names(group: TableGroup, staged: list[Staged]) -> list[str]:
    return tables_of_group(group.catalog, group.name, group.named, group.namespaces, staged)


def _waiting(group: TableGroup, staged: list[Staged]) -> set[str]:
    """Return the keys of manifests that some table waits for."""
    waiting = {item.listed.key for item in staged if item.manifest is None}
    for name in _names(group, staged):
        table, record = group.committer.look(name)
        waiting |= set(select(name, table.uuid, record, staged).manifests)
    return waiting


def _of_tables(
    group: TableGroup,
    stored: Stored,
    staged: list[Staged],
    bounds: Mapping[TopicPartition, int],
) -> Iterator[Finding]:
    """Give what is wrong with a table by itself."""
    for name, offsets in stored.items():
        yield from repeated(name, offsets)
        # Replayed messages may lie above a vector that moves with ordinary batches alone.
        vector = _reached(group.committer.look(name)[1])
        reached = {key: max(it, bounds.get(key, it)) for key, it in vector.items()}
        yield from beyond(name, offsets, reached)


def _rows(table: Table, group: TableGroup) -> str:
    head = table.head(group.config.commit.branch)
    return head.summary.get("total-records", "?") if head is not None else "0"


def _reached(record: GroupRecord) -> Mapping[TopicPartition, int]:
    return {key: offset for _, key, offset in record.vector.offsets()}


def _bound(group: TableGroup, key: TopicPartition, waiting: set[str]) -> int:
    """Return the offset up to which everything is committed, to the ledger and to tables."""
    committed = group.ledger.read(key).committed or 0
    starts = [
        listed.range.start
        for listed in group.staging.find()
        if listed.topic_partition == key and listed.key in waiting
    ]
    return min([committed, *starts])


def _route(config: Config, reader: KafkaReader, key: TopicPartition, bound: int) -> Routed:
    """Read the log up to ``bound``, and see where the configuration sends its messages."""
    from secor.wiring.tables import routing_parser

    parser, routed = routing_parser(config, key.topic)
    log: list[Offsets] = [np.array([], np.int64)]
    bad: list[Offsets] = [np.array([], np.int64)]
    start = reader.log_range(key).start
    for chunk in reader.read(key, start, bound) if start < bound else ():
        log.append(chunk.records.column("offset").to_numpy())
        bad += [part.records.column("offset").to_numpy() for part in parser.split(chunk)]
    return Routed(np.concatenate(log), routed.take(), np.concatenate(bad))


def _quarantined(config: Config, group: TableGroup, key: TopicPartition) -> Offsets:
    return np.array(list(_offsets_in_quarantine(config, group, key)), np.int64)


def _offsets_in_quarantine(config: Config, group: TableGroup, key: TopicPartition) -> Iterator[int]:
    archive = archive_of(config, key.topic, group.objects)
    for archived in quarantined(archive, key.topic):
        if archived.name.partition == key.partition:
            for records, _ in messages(archive, archived):
                yield from records.column("offset").to_pylist()
