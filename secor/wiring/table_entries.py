"""Ledger entries of a table group that are missing: refused by the daemon, made by a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from secor.adapters.kafka import KafkaReader
from secor.archive.objects import Archive
from secor.archive.repair.move_offset import entry_or_none
from secor.archive.repair.recover_ledger import RecoveredEntry
from secor.config.model import Config
from secor.consume.positioning import RefuseLost
from secor.consume.ttl_cache import TtlCache
from secor.core.model import TopicPartition
from secor.core.ports import Clock, ObjectStore, OffsetLedger
from secor.tables.catalog import Catalog
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.overview import tables_of_group
from secor.tables.repair.entry_recovery import plan_table_recovery
from secor.tables.repair.lost_entries import FirstEntryGuard, GroupProof, ProofReader
from secor.tables.staging.staged_manifests import Staging
from secor.wiring.table_catalogs import open_tables

_PLACE = "{}"
"""The placeholder of a field in a template."""


def fixed_tables(config: Config) -> list[str]:
    """Return the tables that a configuration names as they are."""
    return [route.table for route in config.tables if "{" not in route.table]


def namespaces_of(config: Config) -> set[str]:
    """Return the namespaces of tables with names made from messages."""
    return {space for space in _namespaces(config) if space and _PLACE not in space}


def has_unknown_namespaces(config: Config) -> bool:
    """Return whether messages also name the namespaces of tables."""
    return any(not space or _PLACE in space for space in _namespaces(config))


def _namespaces(config: Config) -> Iterator[str]:
    """Give the namespaces of the templates, each of their fields as ``_PLACE``."""
    for route in config.tables:
        if "{" in route.table:
            yield re.sub(r"\{[^}]*\}", _PLACE, route.table).rpartition(".")[0]


PROOF_LIFETIME = 60.0
"""Seconds; partitions that begin together share one look at the tables."""


def guard_of_first_entries(
    config: Config,
    catalog: Catalog,
    store: ObjectStore,
    cluster_id: Callable[[], str],
    clock: Clock,
) -> RefuseLost:
    """Return what is asked before a topic partition gets its first entry."""
    reader = _reader(config, catalog, store, cluster_id)
    proofs: TtlCache[GroupProof] = TtlCache(lambda _: reader.read_group(), clock, PROOF_LIFETIME)
    return FirstEntryGuard(reader, lambda since: proofs.get(config.group.name, since))


def table_recoveries(
    config: Config, store: ObjectStore, ledger: OffsetLedger, log: KafkaReader
) -> Callable[..., RecoveredEntry | None]:
    """Return what plans missing entries as ``plan_recovery`` does, without its first argument.

    Tables and manifests are read once.
    """
    catalog, _ = open_tables(config)
    reader = _reader(config, catalog, store, log.cluster_id)
    group = reader.read_group()

    def plan(
        archive: Archive,
        topic_partition: TopicPartition,
        *,
        generation: int,
        owner: str,
        now: float,
    ) -> RecoveredEntry | None:
        before = entry_or_none(lambda: ledger.read(topic_partition))
        # Only what is missing is planned: an entry that is there is the truth, whatever tables say.
        if before is not None and before.committed is not None:
            return None
        proof = reader.read(group, topic_partition, log.topic_id(topic_partition.topic))
        log_end = log.log_range(topic_partition).last
        return plan_table_recovery(
            proof, archive, generation=generation, log_end=log_end, owner=owner, now=now
        )

    return plan


def _reader(
    config: Config, catalog: Catalog, store: ObjectStore, cluster_id: Callable[[], str]
) -> ProofReader:
    name = config.group.name
    history = CommitHistory(store, config.output.prefix)

    def tables() -> Iterable[str]:
        named = set(fixed_tables(config))
        if has_unknown_namespaces(config):
            named |= history.tables()
        return tables_of_group(catalog, name, named, namespaces_of(config), ())

    staging = Staging(store, config.output.prefix, name)
    return ProofReader(catalog, staging, group=name, tables=tables, cluster=cluster_id)
