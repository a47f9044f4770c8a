"""Coordination and settlement of a group's tables, connected."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

from secor.adapters.kafka import KafkaReader
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.core.ports import ObjectStore, OffsetLedger
from secor.tables.catalog import NEWEST_FORMAT, NEWEST_MERGED_FORMAT, Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest
from secor.tables.commit.cycle_commit import CycleCommit, GroupTopics
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.selection import APPENDS, EVERY_OPERATION
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.control import ControlChannel
from secor.tables.coordinator import Coordinator, Identity
from secor.tables.cycle import Timing
from secor.tables.erased_rows import RowErasures
from secor.tables.hudi import HudiEngine
from secor.tables.lag import lag_of
from secor.tables.observer import TableObserver
from secor.tables.overview import TableOverview, look_at, require_table, tables_of_group
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.staged_manifests import Staged, Staging
from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store
from secor.wiring.first_contact import ask_once, catalog_server
from secor.wiring.hudi import open_hudi_tables
from secor.wiring.table_catalogs import PublishingEngine, merging_catalog, open_tables
from secor.wiring.table_entries import fixed_tables, namespaces_of
from secor.wiring.table_routes import routes_of
from secor.wiring.table_storage import store_of_tables

if TYPE_CHECKING:
    from secor.adapters.iceberg.commits import IcebergCatalog

clock = SystemClock()

Item = TypeVar("Item")
Value = TypeVar("Value")


def require_tables(config: Config, where: object) -> None:
    """Raise ``ConfigurationError`` for a configuration of another kind of group."""
    if config.group.kind != "table":
        kind = config.group.kind
        raise ConfigurationError(f'{where}: has no tables: its group.kind is "{kind}"')


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """A ``GroupTopics`` that asks the brokers."""

    config: Config
    reader: KafkaReader

    def partitions(self) -> frozenset[TopicPartition]:
        """Return all partitions of the group's topics; see ``GroupTopics``."""
        kafka = self.config.kafka
        return self.reader.group_partitions(
            kafka.topics, kafka.topics_pattern, kafka.topics_exclude
        )

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where their logs end; see ``GroupTopics``."""
        return self.reader.ends(partitions)

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where reading begins without an entry; see ``GroupTopics``."""
        # As a consumer without an entry will begin: from the log's start its lag would be the whole
        # log.
        if self.config.kafka.reset == "latest":
            return self.reader.ends(partitions)
        return self.reader.starts(partitions)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where they end with open transactions; see ``GroupTopics``."""
        return self.reader.high_watermarks(partitions)

    def ids(self) -> Mapping[str, str | None]:
        """Return the ids of the group's topics; see ``GroupTopics``."""
        kafka = self.config.kafka
        return self.reader.group_topic_ids(kafka.topics, kafka.topics_pattern, kafka.topics_exclude)


@dataclass(frozen=True, slots=True)
class TableGroup:
    """The parts that coordinate and settle the tables of a group; used by one thread."""

    config: Config
    objects: ObjectStore
    ledger: OffsetLedger
    brokers: KafkaReader
    topics: GroupTopics
    catalog: IcebergCatalog
    staging: Staging
    history: CommitHistory
    committer: TableCommitter
    threads: ThreadPoolExecutor

    @property
    def name(self) -> str:
        """The group's name."""
        return self.config.group.name

    @property
    def named(self) -> list[str]:
        """The tables that the configuration names as they are."""
        return fixed_tables(self.config)

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of tables with names made from messages."""
        return namespaces_of(self.config)

    def feeds(self, table: str, topic: str) -> bool:
        """Return whether messages of a topic may become rows of a table."""
        return any(route.may_name(topic, table) for route in routes_of(self.config, topic))

    def lag(self, table: TableOverview, staged: Sequence[Staged]) -> dict[TopicPartition, int]:
        """Return how many offsets of each log a table does not have.  Raises ``Unavailable``."""
        partitions = {
            partition
            for partition in self.topics.partitions()
            if self.feeds(table.table, partition.topic)
        }
        ends = self.topics.ends(partitions)
        reached = self._reached(ends)
        return lag_of(ends, reached, [item for item in staged if table.waits_for(item)])

    def _reached(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets; where there is no entry, where reading will begin."""
        keys = sorted(partitions)
        entries = dict(zip(keys, self.parallel(self.ledger.read, keys), strict=True))
        new = [key for key, entry in entries.items() if entry.committed is None]
        committed = {
            key: entry.committed for key, entry in entries.items() if entry.committed is not None
        }
        return {**(self.topics.first_offsets(new) if new else {}), **committed}

    def withheld(self) -> dict[TopicPartition, int]:
        """Return how many offsets of the logs wait behind open transactions, without zeros."""
        partitions = self.topics.partitions()
        # Before the ends: a transaction that ends meanwhile must not look like an open one.
        high_watermarks = self.topics.high_watermarks(partitions)
        ends = self.topics.ends(partitions)
        return {
            key: high_watermarks[key] - end
            for key, end in sorted(ends.items())
            if high_watermarks.get(key, end) > end
        }

    def staged(self) -> list[Staged]:
        """Read the ledger, then what is staged below it."""
        # Only those with manifests: the group may have thousands of partitions, and the ledger is
        # asked for each.
        topic_partitions = sorted({manifest.topic_partition for manifest in self.staging.find()})
        entries = dict(
            zip(topic_partitions, self.parallel(self.ledger.read, topic_partitions), strict=True)
        )
        committed = {
            key: entry.committed for key, entry in entries.items() if entry.committed is not None
        }
        present = self.topics.ids()
        topic_ids = {
            key: entry.topic_id or present.get(key.topic) for key, entry in entries.items()
        }
        return self.staging.read(committed, topic_ids)

    def tables(self, staged: Sequence[Staged]) -> list[str]:
        """Return the tables that the group has, or is about to have, rows in."""
        named = {*self.named, *self._tables_of_topics()}
        return tables_of_group(self.catalog, self.name, named, self.namespaces, staged)

    def _tables_of_topics(self) -> dict[str, bool]:
        """Return the tables that the topics name, and whether messages create them."""
        routes = (
            (route, topic)
            for topic in {partition.topic for partition in self.topics.partitions()}
            for route in routes_of(self.config, topic)
            if not route.named_by_messages
        )
        tables: dict[str, bool] = {}
        for route, topic in routes:
            name = route.name_for(topic)
            tables[name] = tables.get(name, False) or route.settings.auto_create
        return tables

    def look_at(self, names: Sequence[str], staged: Sequence[Staged]) -> list[TableOverview]:
        """Look at tables; what is wrong with one is in its overview."""
        created = self._tables_of_topics()
        for table in self.config.tables:
            created[table.table] = created.get(table.table, False) or table.auto_create

        def look(name: str) -> TableOverview:
            auto_create = created.get(name, False)
            return look_at(
                self.committer,
                name,
                staged,
                auto_create=auto_create,
                metadata_columns=self.columns_to_add(name),
            )

        return list(self.parallel(look, names))

    def columns_to_add(self, table: str) -> Sequence[str]:
        """Return the columns that a person has to add to a table that lacks them."""
        topics = {key.topic for key in self.topics.partitions()}
        routes = [
            route
            for topic in topics
            for route in routes_of(self.config, topic)
            if route.may_name(topic, table) and not route.settings.evolve
        ]
        return self.config.rows.metadata_columns if routes else ()

    def require(self, name: str, staged: Sequence[Staged]) -> None:
        """Raise ``ConfigurationError`` for a table that nobody knows."""
        require_table(name, self.name, self.tables(staged), self.catalog)

    def unstaged(self) -> dict[TopicPartition, int]:
        """Return how many offsets of each topic partition the ledger does not have yet."""
        ends = self.topics.ends(self.topics.partitions())
        behind = lag_of(ends, self._reached(ends), ())
        return {key: offsets for key, offsets in behind.items() if offsets > 0}

    @property
    def plan_notes(self) -> PlanNotes:
        """The notes on what fingerprints were made of."""
        return PlanNotes(self.objects, self.config.output.prefix)

    def row_erasures(self, table: Table) -> RowErasures:
        """Return the records of rows that were erased from a table."""
        return RowErasures(self.objects, self.config.output.prefix, table.uuid)

    def open_fingerprints(self) -> set[str]:
        """Return the fingerprints of open intents."""
        entries = self.parallel(self.ledger.read, sorted(self.topics.partitions()))
        return {entry.intent.fingerprint for entry in entries if entry.intent is not None}

    @property
    def settling(self) -> StateAcceptance:
        """The actions of a person's commands."""
        return StateAcceptance(self.committer, self.history, self.config.commit.branch)

    def request(self) -> CommitRequest:
        """Begin a commit of a person's command."""
        return CommitRequest(new_id(), int(clock.now()))

    def parallel(self, function: Callable[[Item], Value], items: Sequence[Item]) -> Iterable[Value]:
        """Call ``function`` for items side by side; give the results in order."""
        return self.threads.map(function, items)

    def coordinator(
        self,
        channel: ControlChannel,
        observer: TableObserver,
        leads: Callable[[], bool],
        sender: str,
        timing: Timing | None = None,
    ) -> Coordinator:
        """Return a coordinator of the group."""
        return Coordinator(
            Identity(self.config.group.name, sender),
            leads=leads,
            topics=self.topics,
            commit=CycleCommit(
                topics=self.topics,
                ledger=self.ledger,
                staging=self.staging,
                committer=self.committer,
                clock=clock,
                observer=observer,
                keep=self.config.commit.keep_manifests,
                parallel=self.parallel,
                tables=self.named,
                feeds=self.feeds,
            ),
            channel=channel,
            clock=clock,
            observer=observer,
            timing=timing or timing_of(self.config),
            new_id=new_id,
        )


def timing_of(config: Config) -> Timing:
    """Return when cycles begin and end."""
    commit = config.commit
    asks, discards = commit.control != "none", commit.on_timeout == "discard"
    return Timing(commit.interval, commit.timeout, asks=asks, discards=discards)


def new_id() -> str:
    """Return an id that nobody has used."""
    return uuid.uuid4().hex


@contextmanager
def open_table_group(
    config: Config, engine: PublishingEngine | HudiEngine | None = None
) -> Iterator[TableGroup]:
    """Connect store, ledger, brokers and catalog, outside of the consumer group.

    Without an ``engine`` only files that are appended can be committed.

    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """
    with ExitStack() as opened:
        store = opened.enter_context(open_store(config))
        ledger = opened.enter_context(open_ledger_for_operator(config))
        reader = opened.enter_context(open_reader(config))
        catalog = _open_catalog(config, engine)
        prefix, group = config.output.prefix, config.group.name
        threads = opened.enter_context(
            ThreadPoolExecutor(config.commit.threads, thread_name_prefix="tables")
        )
        history = CommitHistory(store, prefix)
        committer = TableCommitter(
            catalog,
            history,
            clock,
            random.Random(),
            group=group,
            branch=config.commit.branch,
            # Files with changes wait for a process with an engine; appends go on without one.
            operations=APPENDS if engine is None else EVERY_OPERATION,
            newest_format=NEWEST_MERGED_FORMAT if config.changes_rows else NEWEST_FORMAT,
        )
        yield TableGroup(
            config=config,
            # Manifests are in the group's own store, and data files where the tables are.
            objects=store_of_tables(config, store),
            ledger=ledger,
            brokers=reader,
            topics=BrokerTopics(config, reader),
            catalog=catalog,
            staging=Staging(store, prefix, group, threads.map),
            history=history,
            committer=committer,
            threads=threads,
        )


def _open_catalog(config: Config, engine: PublishingEngine | HudiEngine | None) -> IcebergCatalog:
    if config.table_format == "hudi":
        return open_hudi_tables(config, cast("HudiEngine | None", engine))
    import_module("secor.adapters.iceberg.catalog")  # its time is not the server's
    catalog, _ = ask_once(catalog_server(config.catalog), partial(open_tables, config))
    return catalog if engine is None else merging_catalog(catalog, cast("PublishingEngine", engine))
