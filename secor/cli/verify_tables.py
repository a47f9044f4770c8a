"""``secor verify`` for a group with tables: every offset is in a table, or in quarantine, once."""

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
    beyond,
    missing,
    offsets_of,
    repeated,
)

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.wiring.table_commits import TableGroup

COUNTED = "compared by the number of rows alone: it has no " + ", ".join(COLUMNS)

Stored = dict[str, dict[TopicPartition, Offsets]]


def verify_tables(config: Config, topics: tuple[str, ...], *, as_json: bool) -> int:
    """Compare tables and quarantine with the log; print what is wrong.  Returns the exit code."""
    from secor.wiring.clients import open_reader
    from secor.wiring.table_commits import open_table_group

    with open_table_group(config) as group, open_reader(config) as reader:
        staged = group.staged()
        stored, remarks, findings, waiting = _look(group, staged)
        partitions = {
            it for it in group.topics.partitions() if not topics or it.topic in set(topics)
        }
        compared = 0
        for key in sorted(partitions):
            offsets = [of_table[key] for of_table in stored.values() if key in of_table]
            offsets.append(_quarantined(config, group, key))
            bound = _bound(group, key, waiting)
            log = _log(reader, key, bound)
            compared += len(log)
            found = missing(key, log, bound, offsets)
            if found is not None and _leaves_out(config):
                remarks.append(f"{found.topic_partition}: {found.count} filtered or not routed")
            elif found is not None and any(it.endswith(COUNTED) for it in remarks):
                remarks.append(f"{found.topic_partition}: {found.count} in no table that tells")
            elif found is not None:
                findings.append(found)
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
        verdict = how_many(len(findings), "finding") if findings else "each is there once"
        click.echo(f"{how_many(compared, 'message')} of {where} compared: {verdict}")
    return Exit.DIFFERENT if findings else Exit.OK


def _look(
    group: TableGroup, staged: list[Staged]
) -> tuple[Stored, list[str], list[Finding], set[str]]:
    """Read the tables; also return the keys of manifests that some table waits for."""
    stored: Stored = {}
    remarks: list[str] = []
    findings: list[Finding] = []
    waiting: set[str] = {item.found.key for item in staged if item.manifest is None}
    names = tables_of_group(group.catalog, group.name, group.named, group.namespaces, staged)
    for name in names:
        table, record = group.committer.look(name)
        waiting |= set(select(name, table.uuid, record, staged).manifests)
        if not set(COLUMNS) <= set(table.schema.names):
            remarks.append(f"{name}: {_rows(table, group)} rows, {COUNTED}")
            continue
        branch = group.config.commit.branch
        stored[name] = offsets_of(group.catalog.scan(table, branch, COLUMNS))
        findings += repeated(name, stored[name])
        findings += beyond(name, stored[name], _reached(record))
    return stored, remarks, findings, waiting


def _rows(table: Table, group: TableGroup) -> str:
    head = table.head(group.config.commit.branch)
    return head.summary.get("total-records", "?") if head is not None else "0"


def _reached(record: GroupRecord) -> Mapping[TopicPartition, int]:
    return {key: offset for _, key, offset in record.vector.offsets()}


def _bound(group: TableGroup, key: TopicPartition, waiting: set[str]) -> int:
    """Return the offset up to which everything is committed, to the ledger and to tables."""
    committed = group.ledger.read(key).committed or 0
    starts = [
        found.range.start
        for found in group.staging.find()
        if found.topic_partition == key and found.key in waiting
    ]
    return min([committed, *starts])


def _log(reader: KafkaReader, key: TopicPartition, bound: int) -> Offsets:
    start = reader.log_range(key).start
    chunks = reader.read(key, start, bound) if start < bound else iter(())
    parts = [chunk.records.column("offset").to_numpy() for chunk in chunks]
    return np.concatenate(parts) if parts else np.array([], np.int64)


def _quarantined(config: Config, group: TableGroup, key: TopicPartition) -> Offsets:
    return np.array(list(_offsets_in_quarantine(config, group, key)), np.int64)


def _offsets_in_quarantine(config: Config, group: TableGroup, key: TopicPartition) -> Iterator[int]:
    archive = archive_of(config, key.topic, group.objects)
    for found in quarantined(archive, key.topic):
        if found.name.partition == key.partition:
            for records, _ in messages(archive, found):
                yield from records.column("offset").to_pylist()


def _leaves_out(config: Config) -> bool:
    """Tell whether the configuration leaves messages out on purpose."""
    rules = [config.parser, *(rule.parser for rule in config.topics)]
    filters = any(step.kind in ("filter", "plugin") for it in rules for step in it.transforms)
    return filters or config.rows.unrouted == "skip"
