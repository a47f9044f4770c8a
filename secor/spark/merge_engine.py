"""Merges row changes by Spark into a snapshot that nobody sees: ``tables.merging.MergeEngine``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from secor.spark.application import TableEngine
from secor.spark.failures import failing_as, tidying
from secor.spark.java_publish import java_publish, stage_nothing
from secor.spark.last_changes import quoted
from secor.spark.rows_of_driver import column_name
from secor.spark.staged_changes import OpenStore
from secor.spark.staged_frame import ChangesToMerge, StagedReader, staged_key
from secor.tables.catalog import MAIN, STAGED_WRITES, CommitResult, Table, TableCommit
from secor.tables.group_record import SUMMARY_NAMES
from secor.tables.merging import Merge, Merged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAP_ID = "spark.wap.id"
MERGED = "secor_merged_changes"
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


class SparkMergeEngine(TableEngine):
    """Merges with one Spark session for each table, in one Spark application."""

    def __init__(
        self,
        start: Callable[[], SparkSession],
        open_store: OpenStore,
        *,
        catalog: str,
        log_place: str,
        timeout: float = 300.0,
    ) -> None:
        """``catalog`` is the catalog's name in Spark; ``log_place`` says where Spark logs."""
        super().__init__(start, log_place, timeout)
        self.staged = StagedReader(open_store)
        self._catalog = catalog

    def stage(self, merge: Merge) -> Merged:
        """Stage a snapshot; see ``MergeEngine``."""
        session = self._application.session(merge.table.identifier)
        with failing_as(f"table {merge.table.identifier}: Spark could not merge", self._log_place):
            target = table_name(self._catalog, merge.table.identifier)
            if not merge.files:
                stage_nothing(session, target, merge)
                return Merged()
            _prepare(session, merge)
            if merge.branch != MAIN:
                target += f".`branch_{merge.branch}`"
            key = staged_key(merge.table, merge.files)
            columns = session.table(target).schema
            staged = ChangesToMerge(merge.table, merge.files, key, columns)
            with self.staged.last(session, staged) as last:
                last.changes.createOrReplaceTempView(MERGED)
                try:
                    session.sql(_merge_statement(target, key, merge.table.schema.names))
                finally:
                    with tidying():
                        session.catalog.dropTempView(MERGED)  # the view would keep rows in memory
        return Merged(last.unordered)

    def allow_staging(self, table: Table, branch: str) -> None:
        """Set the property, and make the branch; see ``Publisher``."""
        session = self._application.session(table.identifier)
        target = table_name(self._catalog, table.identifier)
        action = f"table {table.identifier}: Spark could not prepare it"
        with failing_as(action, self._log_place):
            if table.properties.get(STAGED_WRITES, "false").lower() != "true":
                session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('{STAGED_WRITES}' = 'true')")
            if branch != MAIN and branch not in table.refs:
                session.sql(f"ALTER TABLE {target} CREATE BRANCH IF NOT EXISTS {quoted(branch)}")

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch by Java's library; see ``Publisher``."""
        session = self._application.session(table.identifier)
        target = table_name(self._catalog, table.identifier)
        action = f"table {table.identifier}: Spark could not publish what it merged"
        with failing_as(action, self._log_place):
            return java_publish(session, target, table, commit, staged)


def table_name(catalog: str, identifier: str) -> str:
    """Return a table's name as Spark's SQL takes it."""
    return ".".join(quoted(part) for part in (catalog, *identifier.split(".")))


def _prepare(session: SparkSession, merge: Merge) -> None:
    session.conf.set(WAP_ID, merge.id)
    for name in SUMMARY_NAMES:
        if name in merge.summary:
            session.conf.set(SNAPSHOT_PROPERTY + name, merge.summary[name])
        else:
            session.conf.unset(SNAPSHOT_PROPERTY + name)


def _merge_statement(target: str, key: Sequence[str], columns: Sequence[str]) -> str:
    source = {name: f"s.{column_name(at)}" for at, name in enumerate(columns)}
    same_key = " AND ".join(f"t.{quoted(name)} = {source[name]}" for name in key)
    sets = ", ".join(f"{quoted(name)} = {value}" for name, value in source.items())
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(source.values())
    return (
        f"MERGE INTO {target} AS t USING {MERGED} AS s ON {same_key}"  # noqa: S608  # as above
        " WHEN MATCHED AND s.operation = 1 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.operation = 0 THEN INSERT ({names}) VALUES ({values})"
    )
