"""Commits to Iceberg tables by Java's library: version 3, which Python's library refuses.

Source: ``TableMetadata.Builder`` and ``TableOperations`` of org.apache.iceberg.  Its ``commit``
replaces only the metadata that it was given, and does not repeat itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secor.tables.catalog import CommitResult, Outcome, Table, TableCommit
from secor.tables.merging import STAGED_AS, Merge

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
        operations.commit(present, changed)
    except Py4JJavaError as error:
        why = str(error.java_exception.toString())
        refused = str(error.java_exception.getClass().getName()) in _REFUSED
        return CommitResult(Outcome.REFUSED if refused else Outcome.UNKNOWN, why=why)
    except (Py4JError, OSError) as error:
        return CommitResult(Outcome.UNKNOWN, why=str(error))
    return CommitResult(Outcome.DONE)


def stage_nothing(session: SparkSession, name: str, merge: Merge) -> None:
    """Stage a snapshot that changes no rows: the vector moves with a snapshot only."""
    append = _load(session, name).newAppend().toBranch(merge.branch).stageOnly()
    for key, value in {**merge.summary, STAGED_AS: merge.id}.items():
        append = append.set(key, value)
    append.commit()


def _load(session: SparkSession, name: str) -> Any:
    jvm: Any = session._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, name)
