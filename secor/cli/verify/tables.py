"""``secor verify`` for a group with tables: opens what a comparison reads, and prints it.

Spark compares the tables that are changed by key (``StateVerifier``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from secor.cli.exit_codes import Exit
from secor.cli.open_archive import of_topic
from secor.cli.tables.spark import log_of, start_table_spark
from secor.cli.verify.engines import reading_by
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, Offsets, TopicPartition
from secor.jobs.verify_tables import Engines, compare_tables
from secor.tables.catalog import Table
from secor.tables.commit.group_record import GroupRecord
from secor.tables.erased_rows import ErasuresOfTable
from secor.verify.finding import report_text
from secor.verify.keys import TableState

if TYPE_CHECKING:
    from secor.adapters.kafka import KafkaReader
    from secor.spark.last_changes import ReadParts
    from secor.wiring.table_group import TableGroup


def verify_tables(
    config: Config,
    topics: tuple[str, ...],
    *,
    by: str | None = None,
    look_up: int | None = None,
    rows_only: bool,
    as_json: bool,
) -> int:
    """Compare tables with the log: ``by`` an engine that looks ``look_up`` values of each up.

    Prints what is wrong.  Returns the exit code.
    """
    from secor.wiring.clients import open_reader
    from secor.wiring.table_group import open_table_group

    with (
        open_table_group(config) as group,
        open_reader(config) as reader,
        reading_by(config, by) as engine,
    ):
        partitions = _partitions(group, reader, topics)
        engines = Engines(partial(verifying_states, config, reader), engine, look_up)
        verified = compare_tables(group, reader, partitions, engines, rows_only=rows_only)
    click.echo(report_text(verified, as_json=as_json))
    return Exit.OK if verified.is_right else Exit.DIFFERENT


def _partitions(
    group: TableGroup, reader: KafkaReader, topics: tuple[str, ...]
) -> set[TopicPartition]:
    """Return those of ``topics``, or of the whole group.  Raises ``ConfigurationError``."""
    partitions = group.topics.partitions()
    for topic in topics:
        of_topic(reader.partitions(topic), topic)
        if not any(partition.topic == topic for partition in partitions):
            raise ConfigurationError(
                f"{group.name} does not read the topic {topic!r}: look at [kafka]"
            )
    return {partition for partition in partitions if not topics or partition.topic in topics}


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
