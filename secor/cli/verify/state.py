"""The part of ``secor verify`` that Spark does: tables that are changed by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.cli.tables.spark import log_of, start_table_spark
from secor.config.model import Config
from secor.core.model import OffsetRange, Offsets, TopicPartition
from secor.tables.catalog import Table
from secor.tables.commit.group_record import GroupRecord
from secor.tables.erased_rows import ErasuresOfTable
from secor.verify.keys import TableState

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.spark.last_changes import ReadParts

Quarantined = Callable[[TopicPartition], Offsets]


class StateVerifier:
    """Compares tables of one group in one Spark application."""

    def __init__(
        self, config: Config, spark: Any, reader: KafkaReader, quarantined: Quarantined
    ) -> None:
        """``quarantined`` returns the offsets of a topic partition that are in quarantine."""
        self._config = config
        self._spark = spark
        self._reader = reader
        self._quarantined = quarantined

    def compare(self, table: Table, record: GroupRecord, erased: ErasuresOfTable) -> TableState:
        """Compare a table with all messages below its vector; ``erased`` are rows that are gone.

        Raises ``Unavailable`` where Spark fails, or cannot read table or topics.
        """
        from secor.spark.failures import failing_as
        from secor.spark.last_changes import changes_frame
        from secor.spark.table_state import compare_state
        from secor.wiring.table_changes import key_of_changes, parts_of_log, route_that_changes

        name = table.identifier
        vector = {key: offset for _, key, offset in record.vector.offsets()}
        routes = {key: route_that_changes(self._config, key.topic, name) for key in vector}
        key = key_of_changes(self._config, [key.topic for key in vector], table)
        ranges, whole = {}, True
        for topic_partition, end in vector.items():
            log = self._reader.log_range(topic_partition)
            whole = whole and log.start == 0
            if routes[topic_partition] is not None:
                ranges[topic_partition] = OffsetRange(min(log.start, end), end)
        parts = parts_of_log(ranges)
        with failing_as(f"table {name}: Spark could not compare it", str(log_of(self._config))):
            session = self._spark.newSession()
            rows = self._rows(session, table)
            read = self._reading(table, parts)
            changes = changes_frame(session, read, len(parts), rows.schema)
            order = self._order(name)
            explain = erased.explain if erased.done else None
            return compare_state(
                name, changes, rows, key, whole_log=whole, order=order, erased=explain
            )

    def _order(self, name: str) -> str | None:
        """Return the column that says which row of a key is the last, where one does."""
        if self._config.table_format != "hudi":
            return None
        from secor.wiring.hudi import hudi_settings_of

        return hudi_settings_of(self._config, name).precombine

    def _rows(self, session: Any, table: Table) -> Any:
        """Return the table as it is at the snapshot that was loaded, in its present columns."""
        if self._config.table_format == "hudi":
            from secor.spark.hudi_engine import read_table

            return read_table(session, table)
        from secor.spark.merge_engine import table_name

        target = table_name(self._config.catalog.name, table.identifier)
        head = table.head(self._config.commit.branch)
        if head is None:
            return session.table(target).limit(0)
        return session.sql(f"SELECT * FROM {target} VERSION AS OF {head.snapshot_id}")  # noqa: S608  # a number

    def _reading(self, table: Table, parts: Sequence[Any]) -> ReadParts:
        from secor.spark.staged_changes import present_changes
        from secor.wiring.table_changes import LogChanges, sendable

        quarantined = {key: self._quarantined(key) for key in {key for key, _ in parts}}
        changes = LogChanges(self._config, sendable(table), parts, quarantined)
        schema = table.schema

        def read(numbers: Sequence[int], wanted: pa.StructType) -> Iterator[pa.RecordBatch]:
            return present_changes(changes(numbers), schema, wanted)

        return read


@contextmanager
def verifying_states(
    config: Config, reader: KafkaReader, quarantined: Quarantined
) -> Iterator[StateVerifier]:
    """Start Spark.  Raises ``ConfigurationError``, ``Unavailable``."""
    spark = start_table_spark(config, "verify")
    try:
        yield StateVerifier(config, spark, reader, quarantined)
    finally:
        spark.stop()
