"""Row changes merged by Spark into a snapshot that nobody sees: ``tables.merging.MergeEngine``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.core.errors import Unavailable
from secor.spark.staged_changes import OpenStore, read_changes
from secor.tables.catalog import FIELD_ID, MAIN
from secor.tables.group_record import SUMMARY_NAMES
from secor.tables.merging import Merge, Merged
from secor.tables.row_changes import POSITION, ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "secor_changes"
DEEPEST = 20
LONGEST = 500
"""Causes that are followed, and characters of one that are shown."""
WAP_ID = "spark.wap.id"
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
_POSITION_DDL = "operation tinyint, topic string, partition int, offset bigint, timestamp bigint"


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
        with self._told(f"table {merge.table.identifier}: Spark could not merge"):
            _prepare(session, merge)
            target = ".".join(
                f"`{part}`" for part in (self._catalog, *merge.table.identifier.split("."))
            )
            if merge.branch != MAIN:
                target += f".`branch_{merge.branch}`"
            key = _key_columns(merge)
            last = _last_changes(self._changes(session, merge, target), key).persist()
            try:
                unordered = last.filter("partitions > 1").count()
                last.createOrReplaceTempView(VIEW)
                session.sql(_merge_statement(target, key, merge.table.schema.names))
            finally:
                last.unpersist()
        return Merged(unordered)

    def _changes(self, session: SparkSession, merge: Merge, target: str) -> DataFrame:
        """Return all staged changes as a DataFrame that reads them where the tasks run."""
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructField, StructType

        spark_columns = session.table(target).schema
        optional = StructType([StructField(it.name, it.dataType) for it in spark_columns])
        wanted = pa.struct(list(to_arrow_schema(optional)))
        keys = [file.path for files in merge.files for file in files.files]
        schema, open_store = merge.table.schema, self._open_store

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                chosen = [keys[number] for number in batch.column("id").to_pylist()]
                yield from read_changes(open_store, chosen, schema, wanted)

        tasks = min(len(keys), session.sparkContext.defaultParallelism)
        full = StructType.fromDDL(_POSITION_DDL).add(ROW, optional)
        return session.range(0, len(keys), 1, tasks).mapInArrow(read, full)

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
                with self._told("Spark could not be started"):
                    self._spark = self._start()
            return self._spark

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Raise ``Unavailable`` with one line for what Spark and its gateway raise."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            why = _first_line(error)
            raise Unavailable(f"{what}: {why}; Spark's log is in {self._log_place}") from error


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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _last_changes(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the last change of each key, and in how many partitions it was changed.

    Offsets order what is in one topic partition.  Between them nothing is known but time.
    """
    columns = ", ".join(f"{ROW}.{_quoted(name)} AS key_{at}" for at, name in enumerate(key))
    keys = ", ".join(f"key_{at}" for at in range(len(key)))
    every = ", ".join([field.name for field in POSITION] + [ROW])
    session: Any = changes.sparkSession
    changes.createOrReplaceTempView(VIEW)
    return session.sql(
        f"""
        WITH keyed AS (SELECT {columns}, struct({every}) AS change FROM {VIEW}),
        of_partition AS (
            SELECT {keys}, max_by(change, change.offset) AS change
            FROM keyed GROUP BY {keys}, change.topic, change.partition
        ),
        of_key AS (
            SELECT max_by(change, struct(coalesce(change.timestamp, -1), change.topic,
                change.partition, change.offset)) AS change, count(*) AS partitions
            FROM of_partition GROUP BY {keys}
        )
        SELECT change.operation, change.{ROW}, partitions FROM of_key
        """  # noqa: S608  # names are quoted, and nothing else comes from outside
    )


def _merge_statement(target: str, key: Sequence[str], columns: Sequence[str]) -> str:
    same = " AND ".join(f"t.{_quoted(name)} = s.{ROW}.{_quoted(name)}" for name in key)
    sets = ", ".join(f"{_quoted(name)} = s.{ROW}.{_quoted(name)}" for name in columns)
    names = ", ".join(_quoted(name) for name in columns)
    values = ", ".join(f"s.{ROW}.{_quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {target} AS t USING {VIEW} AS s ON {same}"  # noqa: S608  # as above
        " WHEN MATCHED AND s.operation = 1 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.operation = 0 THEN INSERT ({names}) VALUES ({values})"
    )


def _has_ended(spark: SparkSession) -> bool:
    """Tell whether the application is gone: its process died, or its cluster ended it."""
    from py4j.protocol import Py4JError

    try:
        context: Any = spark.sparkContext
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _first_line(error: Exception) -> str:
    """Return the first line of the innermost cause: those around it only say that there is one."""
    java: Any = getattr(error, "java_exception", None)
    text = str(error).strip()
    for _ in range(DEEPEST):
        if java is None:
            break
        text = str(java.toString())
        java = java.getCause()
    return (text or type(error).__name__).splitlines()[0][:LONGEST]
