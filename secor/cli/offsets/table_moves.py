"""The parts of a table group that follow a moved offset: manifests, and vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from secor.archive.repair.move_offset import Move
from secor.config.model import Config
from secor.core.errors import ConfigurationError, NotFound
from secor.core.model import OffsetRange, TopicPartition
from secor.core.ports import ObjectStore
from secor.tables.catalog import Catalog
from secor.tables.commit.group_record import GroupRecord
from secor.tables.staging.manifest import manifest_key


def with_dropped_manifests(planned: Sequence[Move], store: ObjectStore, prefix: str) -> list[Move]:
    """Return moves that also delete the manifest of the intent that each of them drops.

    It was never committed, and would overlap what is staged instead of it.
    """
    return [
        replace(move, delete=(*move.delete, *_dropped(move, store, prefix))) for move in planned
    ]


def _dropped(planned: Move, store: ObjectStore, prefix: str) -> Iterator[str]:
    intent = planned.before.intent if planned.before is not None else None
    if intent is None:
        return
    offsets = OffsetRange(intent.start, intent.end)
    key = manifest_key(prefix, planned.topic_partition, offsets)
    try:
        store.head(key)
    except NotFound:
        return
    yield key


def refuse_below_vectors(planned: Sequence[Move], config: Config, topic_id: str | None) -> None:
    """Raise ``ConfigurationError`` for an offset below the one up to which a table has rows.

    The rows would not come again, but batches that lie across that offset would stop the table.
    """
    from secor.wiring.table_catalogs import open_tables
    from secor.wiring.table_entries import fixed_tables, namespaces_of

    if not planned:
        return
    catalog, _ = open_tables(config)
    tables = set(fixed_tables(config))
    for namespace in namespaces_of(config):
        tables |= set(catalog.list_tables(namespace))
    for table in sorted(tables):
        reached = dict(_reached(catalog, table, config.group.name, topic_id))
        for move in planned:
            offset = reached.get(move.topic_partition, 0)
            if move.offset < offset:
                raise ConfigurationError(
                    f"{move.topic_partition}: the table {table} has it up to {offset}: give that"
                    f" offset or a greater one, not {move.offset}; or let another group, with a"
                    " prefix and tables of its own, read from there"
                )


def _reached(
    catalog: Catalog, table: str, group: str, topic_id: str | None
) -> Iterator[tuple[TopicPartition, int]]:
    try:
        vector = GroupRecord.of(catalog.load_table(table), group).vector
    except NotFound:
        return
    for cluster, topic_partition, offset in vector.offsets():
        known = vector.topic(cluster, topic_partition.topic)
        # What a table has of an earlier topic of this name says nothing about the offsets of this
        # one.
        if known is not None and (known.id is None or topic_id in (None, known.id)):
            yield topic_partition, offset
