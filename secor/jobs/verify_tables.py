"""Comparison of a group's tables with its topics: every message in a table, or in quarantine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from secor.archive.quarantine.listing import offsets_by_table
from secor.config.model import Config
from secor.core.errors import ConfigurationError, CorruptFile, TableStopped, Unavailable
from secor.core.model import Offsets, TopicPartition
from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.refused_files import describe
from secor.tables.commit.selection import select
from secor.tables.commit.table_commit import GONE
from secor.tables.erased_rows import ErasuresOfTable
from secor.tables.overview import has_files
from secor.tables.rows.table_rows import missing_origin, without_origin
from secor.tables.staging.staged_manifests import Staged
from secor.verify.engine_filters import TableReader, check_filters
from secor.verify.finding import Finding
from secor.verify.keys import TableState
from secor.verify.metadata import ComparedMetadata
from secor.verify.tables import (
    COLUMNS,
    NothingCompared,
    RoutedMessages,
    TableReport,
    beyond,
    compare,
    offsets_of,
    repeated,
)
from secor.wiring.archives import archive_of, secret_of

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.wiring.table_group import TableGroup

COUNTED = "compared by the number of rows alone: it has no " + ", ".join(COLUMNS)

APPENDED_TOO = (
    "not compared: messages change its rows by key, and others are appended to it as rows"
)

Stored = dict[str, dict[TopicPartition, Offsets]]
Loaded = dict[str, tuple[Table, GroupRecord]]


@dataclass
class TablesToVerify:
    """The tables of a group, as read for a comparison.

    ``stored`` has the offsets of the rows of those that have them; ``changed`` are tables
    that are changed by key; ``silent`` the names of all others, and ``unreadable`` says why
    some of these cannot be read.  ``erased`` has the records of what was deleted on purpose.
    """

    stored: Stored = field(default_factory=dict)
    changed: dict[str, tuple[Table, GroupRecord]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    erased: dict[str, ErasuresOfTable] = field(default_factory=dict)


class States(Protocol):
    """Compares tables that are changed by key: an engine that finds each key's last change."""

    def compare(self, table: Table, record: GroupRecord, erased: ErasuresOfTable) -> TableState:
        """Compare a table with all messages below its vector.  Raises ``Unavailable``."""


CompareStates = Callable[[Callable[[TopicPartition], Offsets]], AbstractContextManager[States]]
"""Opens an engine for states; it is given what returns the offsets in quarantine."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Engines that read tables: ``states`` those changed by key, ``reader`` all others.

    Without a ``reader`` the library reads them, and no values are looked up by filters.
    """

    states: CompareStates
    reader: TableReader | None = None
    look_up: int | None = None


def compare_tables(
    group: TableGroup,
    reader: KafkaReader,
    partitions: set[TopicPartition],
    engines: Engines,
    *,
    rows_only: bool,
) -> TableReport:
    """Compare tables and quarantine with the log, and metadata with files unless ``rows_only``.

    Raises ``ConfigurationError``, ``Unavailable``; a table that cannot be read is a finding.
    """
    config, engine = group.config, engines.reader
    # The service goes on meanwhile.  So the ledger is read first, the manifests below it next
    # and the tables last: what a table does not have by then is among the manifests.
    committed = {key: group.ledger.read(key).committed or 0 for key in sorted(partitions)}
    staged = group.staged()
    loaded, stopped = _load(group, staged, {partition.topic for partition in partitions})
    tables = _read_tables(group, loaded, engine)
    stopped |= tables.unreadable
    tables.silent |= stopped.keys()
    verified = TableReport(len(partitions), stopped=stopped, remarks=tables.remarks)
    bounds = _bounds(committed, loaded, staged)
    verified.findings += _of_tables(tables.stored, loaded, bounds)
    verified.withheld = {
        key: offsets for key, offsets in group.withheld().items() if key in partitions
    }
    for key in sorted(partitions):
        _compare_partition(verified, group, reader, tables, key, bounds[key])
    if not verified.compared:
        verified.nothing = _why_nothing(reader, partitions, verified.withheld)
    present = {name: table for name, (table, _) in loaded.items()}
    if engine is not None:
        branch = config.commit.branch
        verified.filters = check_filters(engine, present, branch, stopped, engines.look_up)
    if not rows_only:
        verified.metadata += compare_metadata(group, present, tables.unreadable)
    if tables.changed:
        with engines.states(lambda key: _quarantined(config, group, key)) as states:
            verified.states += [
                states.compare(*tables.changed[name], tables.erased[name])
                for name in sorted(tables.changed)
            ]
    return verified


def _why_nothing(
    reader: KafkaReader,
    partitions: set[TopicPartition],
    withheld: Mapping[TopicPartition, int],
) -> NothingCompared:
    if not partitions:
        return NothingCompared("there is no topic partition", is_right=False)
    ranges = [reader.log_range(key) for key in sorted(partitions)]
    waiting = sum(log.end - log.start for log in ranges)
    if waiting:
        offsets = how_many(waiting, "offset waits", "offsets wait")
        why = f"nothing that the logs have is committed, and {offsets}"
        return NothingCompared(why, is_right=False)
    if withheld:
        return NothingCompared("nothing can be read yet", is_right=False)
    return NothingCompared("the logs are empty", is_right=True)


def _load(
    group: TableGroup, staged: Sequence[Staged], topics: set[str]
) -> tuple[Loaded, dict[str, str]]:
    """Load the tables of the topics; also return why others cannot be compared.

    One that no messages have made yet has nothing to compare.
    """
    loaded: Loaded = {}
    stopped: dict[str, str] = {}
    for name in group.tables(staged):
        if not any(group.feeds(name, topic) for topic in topics):
            continue
        try:
            table, record = group.committer.look(name)
            select(name, table.uuid, record, staged)
            missing = missing_origin(table.schema, group.columns_to_add(name))
            refused = describe(name, record.refused)
            if refused:
                stopped[name] = f"table {name}: {'; '.join(refused)}"
            elif missing:
                stopped[name] = without_origin(f"table {name}", missing[0])
            else:
                loaded[name] = table, record
        except TableStopped as error:
            if error.reason != GONE or has_files(staged, name):
                stopped[name] = str(error)
    return loaded, stopped


def _compare_partition(
    verified: TableReport,
    group: TableGroup,
    reader: KafkaReader,
    tables: TablesToVerify,
    key: TopicPartition,
    bound: int,
) -> None:
    """Compare one topic partition with rows that have their offsets, and with quarantine."""
    routed = _route(group.config, reader, key, bound)
    verified.compared += len(routed.log)
    rows = {name: own[key] for name, own in tables.stored.items() if key in own}
    rows = {name: own[own < bound] for name, own in rows.items()}
    bad = {
        table: offsets[offsets < bound]
        for table, offsets in _quarantined_by_table(group.config, group, key).items()
    }
    of_all = bad.pop(None, np.array([], np.int64))
    set_aside = {table: offsets for table, offsets in bad.items() if table is not None}
    erased = {name: own.rows.of(key) for name, own in tables.erased.items() if name in rows}
    result = compare(key, routed, rows, of_all, tables.silent, tables.changed, set_aside, erased)
    verified.findings += result.findings
    for name, number in result.erased.items():
        verified.erased[name] = verified.erased.get(name, 0) + number
    count = len(of_all) + sum(map(len, set_aside.values()))
    if count:
        verified.quarantined[key] = count
    if result.left_out:
        verified.remarks.append(f"{key}: {result.left_out} filtered or not routed")
    verified.unknown += result.unknown
    if result.unknown:
        verified.remarks.append(f"{key}: {result.unknown} in no table with offsets")


def _read_tables(group: TableGroup, loaded: Loaded, engine: TableReader | None) -> TablesToVerify:
    """Read the offsets of rows, of tables that have them."""
    from secor.wiring.table_changes import appends_to, route_that_changes

    tables = TablesToVerify()
    secret = secret_of(group.config)
    topics = {partition.topic for partition in group.topics.partitions()}
    for name, (table, record) in loaded.items():
        erased = group.row_erasures(table).read(secret).require()
        tables.erased[name] = erased.seen_by(table, group.config.commit.branch)
        tables.remarks += [f"{name}: {line}" for line in tables.erased[name].unfinished()]
        if any(route_that_changes(group.config, topic, name) for topic in topics):
            if not appends_to(group.config, topics, name):
                tables.changed[name] = table, record
                continue
            why = APPENDED_TOO
        elif not set(COLUMNS) <= set(table.schema.names):
            why = COUNTED
        else:
            try:
                tables.stored[name] = offsets_of(_origins(group, engine, table))
                continue
            except (ConfigurationError, CorruptFile) as error:
                tables.silent.add(name)
                tables.unreadable[name] = f"{error} ({_rows(table, group)} rows)"
                continue
        tables.silent.add(name)
        tables.remarks.append(f"{name}: {_rows(table, group)} rows, {why}")
    return tables


def _origins(
    group: TableGroup, engine: TableReader | None, table: Table
) -> Iterator[pa.RecordBatch]:
    """Give where each row of a table came from, as the engine reads it.

    Raises ``ConfigurationError`` for a table that cannot be read.
    """
    branch = group.config.commit.branch
    if engine is None:
        yield from group.catalog.scan(table, branch, COLUMNS)
        return
    try:
        yield from engine.scan(table, branch, COLUMNS)
    except Unavailable as error:
        raise ConfigurationError(str(error)) from error


def _waiting(loaded: Loaded, staged: Sequence[Staged]) -> set[str]:
    """Return the keys of manifests that some table waits for."""
    waiting = {item.listed.key for item in staged if item.manifest is None}
    for name, (table, record) in loaded.items():
        waiting |= set(select(name, table.uuid, record, staged).manifests)
    return waiting


def _of_tables(
    stored: Stored, loaded: Loaded, bounds: Mapping[TopicPartition, int]
) -> Iterator[Finding]:
    """Give what is wrong with a table by itself."""
    for name, offsets in stored.items():
        yield from repeated(name, offsets)
        # Replayed messages may lie above a vector that moves with ordinary batches alone.
        vector = _reached(loaded[name][1])
        reached = {key: max(offset, bounds.get(key, offset)) for key, offset in vector.items()}
        yield from beyond(name, offsets, reached)


def _rows(table: Table, group: TableGroup) -> str:
    head = table.head(group.config.commit.branch)
    return head.summary.get("total-records", "?") if head is not None else "0"


def _reached(record: GroupRecord) -> Mapping[TopicPartition, int]:
    return {key: offset for _, key, offset in record.vector.offsets()}


def _bounds(
    committed: Mapping[TopicPartition, int], loaded: Loaded, staged: Sequence[Staged]
) -> dict[TopicPartition, int]:
    """Return the offsets up to which everything is committed, to the ledger and to tables."""
    waiting = _waiting(loaded, staged)
    bounds = dict(committed)
    for item in staged:
        key = item.topic_partition
        if item.listed.key in waiting and key in bounds:
            bounds[key] = min(bounds[key], item.listed.range.start)
    return bounds


def _route(config: Config, reader: KafkaReader, key: TopicPartition, bound: int) -> RoutedMessages:
    """Read the log up to ``bound``, and see where the configuration sends its messages."""
    from secor.wiring.table_routes import routing_parser

    parser, routed = routing_parser(config, key.topic)
    log: list[Offsets] = [np.array([], np.int64)]
    bad: list[Offsets] = [np.array([], np.int64)]
    start = reader.log_range(key).start
    for chunk in reader.read(key, start, bound) if start < bound else ():
        log.append(chunk.records.column("offset").to_numpy())
        bad += [part.records.column("offset").to_numpy() for part in parser.split(chunk)]
    return RoutedMessages(np.concatenate(log), routed.take(), np.concatenate(bad))


def _quarantined(config: Config, group: TableGroup, key: TopicPartition) -> Offsets:
    by_table = _quarantined_by_table(config, group, key)
    return np.concatenate([np.array([], np.int64), *by_table.values()])


def _quarantined_by_table(
    config: Config, group: TableGroup, key: TopicPartition
) -> dict[str | None, Offsets]:
    """Return what is in quarantine by the one table that lacks it, None for all tables."""
    listed = offsets_by_table(archive_of(config, key.topic, group.objects), key)
    return {table: np.array(offsets, np.int64) for table, offsets in listed.items()}


def compare_metadata(
    group: TableGroup, tables: Mapping[str, Table], unreadable: Collection[str]
) -> list[ComparedMetadata]:
    """Compare tables; what is ``unreadable`` is a finding already.

    Hudi tables have no metadata that Secor writes: readers prune by the footers of their files.
    """
    if group.config.table_format == "hudi":
        return []
    compared = []
    for name, table in sorted(tables.items()):
        result = compare_table(group, name, table)
        if name in unreadable:
            result.damage.clear()
        compared.append(result)
    return compared


def compare_table(group: TableGroup, name: str, table: Table) -> ComparedMetadata:
    """Compare all files of a table, as many side by side as commits are."""
    result = ComparedMetadata(name)
    try:
        for file in group.catalog.compare_files(table, group.config.commit.branch, group.parallel):
            result.add(file)
    except (ConfigurationError, CorruptFile) as error:
        result.damage.append(str(error))
    return result
