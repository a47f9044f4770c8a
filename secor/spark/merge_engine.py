"""Row changes merged by Spark into a snapshot that nobody sees: ``tables.merging.MergeEngine``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.core.errors import Unavailable
from secor.spark.failures import failing_as
from secor.spark.last_changes import VIEW, changes_frame, last_changes, quoted
from secor.spark.staged_changes import OpenStore, read_changes
from secor.tables.catalog import FIELD_ID, MAIN
from secor.tables.group_record import SUMMARY_NAMES
from secor.tables.merging import Merge, Merged
from secor.tables.row_changes import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAP_ID = "spark.wap.id"
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


class SparkMergeEngine:
    """Merges with one Spark session for each table, in one Spark application."""

    def __init__(
        self,
        start: Callable[[], SparkSession],
        open_store: OpenStore,
        *,
        catalog: str,
        log_place: str,
    ) -> None:
        """``catalog`` is the catalog's name in Spark; ``log_place`` says where Spark logs."""
        self._start = start
        self._open_store = open_store
        self._catalog = catalog
        self._log_place = log_place
        self._lock = threading.Lock()
        self._spark: SparkSession | None = None
        self._sessions: dict[str, SparkSession] = {}

    def start(self) -> None:
        """Start Spark now.  Raises ``Unavailable``."""
        self._application()

    def stop(self) -> None:
        """End the application, if one was started."""
        with self._lock:
            if self._spark is not None:
                self._spark.stop()
            self._spark = None
            self._sessions = {}

    def stage(self, merge: Merge) -> Merged:
        """Stage a snapshot; see ``MergeEngine``."""
        session = self._session(merge.table.identifier)
        with failing_as(f"table {merge.table.identifier}: Spark could not merge", self._log_place):
            _prepare(session, merge)
            target = table_name(self._catalog, merge.table.identifier)
            if merge.branch != MAIN:
                target += f".`branch_{merge.branch}`"
            key = _key_columns(merge)
            last = last_changes(self._changes(session, merge, target), key)
            last = last.selectExpr("change.operation", f"change.{ROW}", "partitions").persist()
            try:
                unordered = last.filter("partitions > 1").count()
                last.createOrReplaceTempView(VIEW)
                session.sql(_merge_statement(target, key, merge.table.schema.names))
            finally:
                last.unpersist()
        return Merged(unordered)

    def _changes(self, session: SparkSession, merge: Merge, target: str) -> DataFrame:
        """Return all staged changes."""
        keys = [file.path for files in merge.files for file in files.files]
        schema, open_store = merge.table.schema, self._open_store

        def read(numbers: Sequence[int], wanted: pa.StructType) -> Iterator[pa.RecordBatch]:
            return read_changes(open_store, [keys[it] for it in numbers], schema, wanted)

        return changes_frame(session, read, len(keys), session.table(target).schema)

    def _session(self, table: str) -> SparkSession:
        application = self._application()
        with self._lock:
            if table not in self._sessions:
                self._sessions[table] = application.newSession()
            return self._sessions[table]

    def _application(self) -> SparkSession:
        with self._lock:
            if self._spark is not None and _has_ended(self._spark):
                self._spark, self._sessions = None, {}
            if self._spark is None:
                with failing_as("Spark could not be started", self._log_place):
                    self._spark = self._start()
            return self._spark


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


def _key_columns(merge: Merge) -> list[str]:
    """Return the present names of the identifier columns.  Raises ``Unavailable``."""
    ids = merge.files[0].key
    by_id = {int(field.metadata[FIELD_ID]): field.name for field in merge.table.schema}
    lost = [number for number in ids if number not in by_id]
    if lost or not ids:
        raise Unavailable(
            f"table {merge.table.identifier}: it has no columns any more with the field ids"
            f" {lost}, by which staged rows are told apart"
        )
    return [by_id[number] for number in ids]


def _merge_statement(target: str, key: Sequence[str], columns: Sequence[str]) -> str:
    same = " AND ".join(f"t.{quoted(name)} = s.{ROW}.{quoted(name)}" for name in key)
    sets = ", ".join(f"{quoted(name)} = s.{ROW}.{quoted(name)}" for name in columns)
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.{ROW}.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {target} AS t USING {VIEW} AS s ON {same}"  # noqa: S608  # as above
        " WHEN MATCHED AND s.operation = 1 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.operation = 0 THEN INSERT ({names}) VALUES ({values})"
    )


def _has_ended(spark: SparkSession) -> bool:
    """Tell whether the application is gone: its process died, or its cluster ended it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        context: Any = spark.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
