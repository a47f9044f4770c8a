"""Merges row changes by Spark into a snapshot that nobody sees: ``tables.merging.MergeEngine``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from secor.spark.application import TableEngine
from secor.spark.failures import failing_as, tidying
from secor.spark.last_changes import quoted
from secor.spark.rows_of_driver import column_name
from secor.spark.staged_changes import OpenStore
from secor.spark.staged_frame import ChangesToMerge, StagedReader, staged_key
from secor.tables.catalog import MAIN, STAGED_WRITES, CommitResult, Outcome, Table, TableCommit
from secor.tables.commit.group_record import SUMMARY_NAMES
from secor.tables.commit.merging import STAGED_AS, BranchMerge, MergeResult
from secor.tables.rows.row_changes import UPSERT
from secor.tables.rows.staged_rows import KEPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_REFUSED = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
)


def java_publish(
    session: SparkSession, name: str, table: Table, commit: TableCommit, staged: int
) -> CommitResult:
    """Move a branch to the snapshot ``staged`` and set the properties, if it is at its base.

    ``name`` is the table's in Spark's SQL.  Raises what PySpark and Py4J raise where nothing
    was sent.
    """
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = session._jvm
    operations = _load(session, name).operations()
    present = operations.current()
    ref = present.ref(commit.branch)
    head = None if ref is None else int(ref.snapshotId())
    if (str(present.uuid()), head) != (table.uuid, commit.base):
        return CommitResult(Outcome.REFUSED, why="the branch moved before it was published")
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(present)
    builder = builder.setBranchSnapshot(jvm.java.lang.Long(staged), commit.branch)
    builder = builder.setProperties(dict(commit.properties))
    changed = builder.build()
    try:
        # The library's own compare-and-set: it refuses where the metadata is no longer ``present``.
        # No retry around it: the caller has to read the vector anew.
        operations.commit(present, changed)
    except Py4JJavaError as error:
        why = str(error.java_exception.toString())
        refused = str(error.java_exception.getClass().getName()) in _REFUSED
        return CommitResult(Outcome.REFUSED if refused else Outcome.UNKNOWN, why=why)
    # The connection to the JVM broke after the request was sent.
    except (Py4JError, OSError) as error:
        return CommitResult(Outcome.UNKNOWN, why=str(error))
    return CommitResult(Outcome.DONE)


def stage_nothing(session: SparkSession, name: str, merge: BranchMerge) -> None:
    """Stage a snapshot that changes no rows: the vector moves with a snapshot only."""
    append = _load(session, name).newAppend().toBranch(merge.branch).stageOnly()
    for key, value in {**merge.summary, STAGED_AS: merge.id}.items():
        append = append.set(key, value)
    append.commit()


def _load(session: SparkSession, name: str) -> Any:
    jvm: Any = session._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, name)


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

    def stage(self, merge: BranchMerge) -> MergeResult:
        """Stage a snapshot; see ``MergeEngine``."""
        session = self._application.session(merge.table.identifier)
        with failing_as(f"table {merge.table.identifier}: Spark could not merge", self._log_place):
            target = table_name(self._catalog, merge.table.identifier)
            # A vector moves with a snapshot only, also where there is nothing to merge.
            if not merge.files:
                stage_nothing(session, target, merge)
                return MergeResult()
            _prepare(session, merge)
            if merge.branch != MAIN:
                target += f".`branch_{merge.branch}`"
            key = staged_key(merge.table, merge.files)
            columns = session.table(target).schema
            staged = ChangesToMerge(merge.table, merge.files, key, columns)
            with self.staged.last(session, staged) as last:
                last.changes.createOrReplaceTempView(MERGED)
                names = merge.table.schema.names
                unknown = last.unknown
                try:
                    if last.kept:
                        # Counted before the merge: afterwards the table has rows for all of them.
                        unknown += _count_unknown(session, target, key, names)
                    session.sql(_merge_statement(target, key, names, last.kept))
                finally:
                    with tidying():
                        session.catalog.dropTempView(MERGED)  # the view would keep rows in memory
        return MergeResult(last.unordered, unknown)

    def allow_staging(self, table: Table, branch: str) -> None:
        """Set the property, and make the branch; see ``BranchPublisher``."""
        session = self._application.session(table.identifier)
        target = table_name(self._catalog, table.identifier)
        action = f"table {table.identifier}: Spark could not prepare it"
        with failing_as(action, self._log_place):
            if table.properties.get(STAGED_WRITES, "false").lower() != "true":
                session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('{STAGED_WRITES}' = 'true')")
            if branch != MAIN and branch not in table.refs:
                session.sql(f"ALTER TABLE {target} CREATE BRANCH IF NOT EXISTS {quoted(branch)}")

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch by Java's library; see ``BranchPublisher``."""
        session = self._application.session(table.identifier)
        target = table_name(self._catalog, table.identifier)
        action = f"table {table.identifier}: Spark could not publish what it merged"
        with failing_as(action, self._log_place):
            return java_publish(session, target, table, commit, staged)


def table_name(catalog: str, identifier: str) -> str:
    """Return a table's name as Spark's SQL takes it."""
    return ".".join(quoted(part) for part in (catalog, *identifier.split(".")))


def _prepare(session: SparkSession, merge: BranchMerge) -> None:
    session.conf.set(WAP_ID, merge.id)
    for name in SUMMARY_NAMES:
        if name in merge.summary:
            session.conf.set(SNAPSHOT_PROPERTY + name, merge.summary[name])
        else:
            # The session is used again for each merge of a table: what an earlier one has set would
            # get into this summary.
            session.conf.unset(SNAPSHOT_PROPERTY + name)


def _count_unknown(
    session: SparkSession, target: str, key: Sequence[str], columns: Sequence[str]
) -> int:
    """Return how many values are left to rows that the table does not have."""
    left_out = f"s.operation = {UPSERT} AND size(s.{KEPT.name}) > 0"
    of_all = f"coalesce(sum(size(s.{KEPT.name})), 0) AS number FROM {MERGED} AS s"
    [every] = session.sql(f"SELECT {of_all} WHERE {left_out}").collect()
    if not every["number"]:
        return 0
    same_key = _same_key(key, columns)
    [present] = session.sql(
        f"SELECT {of_all} JOIN {target} AS t ON {same_key} WHERE {left_out}"
    ).collect()
    return max(0, int(every["number"]) - int(present["number"]))


def _same_key(key: Sequence[str], columns: Sequence[str]) -> str:
    numbers = {name: column_name(index) for index, name in enumerate(columns)}
    return " AND ".join(f"t.{quoted(name)} = s.{numbers[name]}" for name in key)


def _merge_statement(
    target: str, key: Sequence[str], columns: Sequence[str], kept: Sequence[int]
) -> str:
    """Return the statement; the row's own values stay in columns ``kept`` that a change keeps."""
    source = {name: f"s.{column_name(number)}" for number, name in enumerate(columns)}
    same_key = _same_key(key, columns)
    updated = dict(source)
    for number in kept:
        is_kept = f"array_contains(s.{KEPT.name}, {number})"
        own = f"t.{quoted(columns[number])}"
        updated[columns[number]] = (
            f"CASE WHEN {is_kept} THEN {own} ELSE {source[columns[number]]} END"
        )
    sets = ", ".join(f"{quoted(name)} = {value}" for name, value in updated.items())
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(source.values())
    return (
        f"MERGE INTO {target} AS t USING {MERGED} AS s ON {same_key}"  # noqa: S608  # as above
        " WHEN MATCHED AND s.operation = 1 THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.operation = 0 THEN INSERT ({names}) VALUES ({values})"
    )
