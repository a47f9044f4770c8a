"""The staged changes of a table as a DataFrame: the last change of each key."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import NotFound, Unavailable
from secor.core.ports import ObjectStore
from secor.spark.failures import tidying
from secor.spark.last_changes import VIEW, changes_frame, last_changes, row_type
from secor.spark.last_of_keys import ChangeOrder, KnownValues, LastOfKeys
from secor.spark.rows_of_driver import (
    MOST_PLANNED_BYTES,
    DriverRows,
    arrow_frame,
    file_frame,
    fill_rows,
    keep_rows,
    nest,
    reads_files_of_driver,
    row_columns,
)
from secor.spark.staged_changes import OpenStore, read_changes, read_objects
from secor.tables.catalog import FIELD_ID, Table
from secor.tables.rows.staged_rows import KEPT, ROW
from secor.tables.staging.manifest import TableFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Truths = npt.NDArray[np.bool_]
Starts = list[int]

MOST_ROW_BYTES = 64 << 20
"""Changes of one table that the driver holds whole, in Arrow's layout, where it cannot hand them
to Spark as a file.
"""

MOST_KEY_BYTES = 128 << 20
"""Keys and positions of changes of one table that the driver holds: some five million."""


@dataclass(frozen=True, slots=True)
class LastChanges:
    """One change of each key: ``operation``, ``kept``, the table's columns by ``column_name``,
    maybe others.

    ``unordered`` keys were changed in several topic partitions.  ``kept`` are the numbers of
    columns that some changes leave to the table's row, and ``unknown`` values came after a
    deletion.
    """

    changes: DataFrame
    unordered: int
    kept: Sequence[int] = ()
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class ChangesToMerge:
    """Staged changes of a table.

    ``columns`` are the table's as Spark has them; ``order`` is as in ``last_changes``.
    """

    table: Table
    files: tuple[TableFiles, ...]
    key: Sequence[str]
    columns: StructType
    order: str | None = None

    @property
    def paths(self) -> list[str]:
        """The keys of the staged files in the group's store."""
        return [file.path for of_table in self.files for file in of_table.files]


class StagedReader:
    """Reads what is staged.  For any thread.

    This process reads all changes, and finds the last one of each key.  Few are handed to
    Spark as rows of its plan (``MOST_PLANNED_BYTES``), more as a file of this machine.  Where
    Spark's tasks run elsewhere, more are sent to them, and beyond ``most_row_bytes`` they read
    the staged files again.  Spark itself reduces what has too many keys for this process.
    """

    def __init__(self, open_store: OpenStore) -> None:
        """``open_store`` is called here, and where tasks run."""
        self._open_store = open_store
        self.most_row_bytes = MOST_ROW_BYTES
        self.most_key_bytes = MOST_KEY_BYTES
        self._lock = threading.Lock()
        self._store: ObjectStore | None = None

    @contextmanager
    def last(self, session: SparkSession, staged: ChangesToMerge) -> Iterator[LastChanges]:
        """Give the last change of each key.

        Raises ``Unavailable``, ``AccessDenied``, ``OSError``, and what PySpark raises.
        """
        with ExitStack() as stack:
            with self._lock:  # one table at a time, to bound memory
                last = self._last_changes(session, staged, stack)
            yield last

    def _last_changes(
        self, session: SparkSession, staged: ChangesToMerge, stack: ExitStack
    ) -> LastChanges:
        path, most_row_bytes = None, self.most_row_bytes
        if reads_files_of_driver(session):
            path = Path(stack.enter_context(_temporary_directory(session))) / "changes.parquet"
            # Beyond that the file is the better way, where tasks can read it.
            most_row_bytes = min(most_row_bytes, MOST_PLANNED_BYTES)
        row = row_type(staged.columns)
        rows = DriverRows(row, path, most_row_bytes)
        try:
            order, starts, kept_columns = self._read(staged, rows, row)
        except NotFound as error:
            why = f"table {staged.table.identifier}: {error}, which was staged"
            raise Unavailable(why) from error
        frame = None
        if order is not None:
            last = order.last()
            # Its memory is needed for the rows that are chosen next.
            del order
            frame = self._chosen_by_driver(session, staged, rows, last, starts, stack)
        if frame is None:
            every = self._every_change(session, staged, rows)
            return _reduced_by_spark(every, staged, kept_columns, stack)
        return LastChanges(frame, last.unordered, sorted(last.known.kept), last.known.unknown)

    def _chosen_by_driver(
        self,
        session: SparkSession,
        staged: ChangesToMerge,
        rows: DriverRows,
        last: LastOfKeys,
        starts: Starts,
        stack: ExitStack,
    ) -> DataFrame | None:
        """Return the last changes; None where their values are too many for this process."""
        kept = np.zeros(starts[-1], bool)
        kept[last.rows] = True
        known = last.known if last.known.fills or last.known.unknown else None
        if (local := rows.local) is not None:
            local = local if known is None else fill_rows(local, known)
            return arrow_frame(session, local.filter(pa.array(kept)), staged.columns)
        if rows.path is not None:
            path = _keep(rows.path, kept, known)
            return None if path is None else file_frame(session, path, staged.columns)
        if known is not None:  # tasks see only some of the files
            return None
        frame = self._read_by_tasks(session, staged, _masks(kept, starts))
        return _persist(
            frame.selectExpr("operation", KEPT.name, *row_columns(staged.columns, ROW)), stack
        )

    def _read(
        self, staged: ChangesToMerge, rows: DriverRows, row: pa.StructType
    ) -> tuple[ChangeOrder | None, Starts, Sequence[int]]:
        """Read all changes into ``rows``.

        Return their order, None where it is more than this process holds, the number of
        the first change of each file, with the number of all at the end, and the numbers of the
        columns that some change leaves out.
        """
        if self._store is None:
            self._store = self._open_store()
        schema = staged.table.schema
        order: ChangeOrder | None = ChangeOrder(staged.key, staged.order)
        starts = [0]
        left_out: set[int] = set()
        for path in staged.paths:
            starts.append(starts[-1])
            for batch in read_objects(self._store, [path], schema, row):
                starts[-1] += batch.num_rows
                rows.add(batch)
                left_out.update(pc.list_flatten(batch.column(KEPT.name)).unique().to_pylist())
                if order is not None:
                    order.add(batch)
                # Given up for good: reading goes on, for the rows are needed all the same.
                if order is not None and order.nbytes > self.most_key_bytes:
                    order = None
        rows.close()
        return order, starts, sorted(left_out)

    def _every_change(
        self, session: SparkSession, staged: ChangesToMerge, rows: DriverRows
    ) -> DataFrame:
        """Return all changes as ``last_changes`` takes them."""
        if (local := rows.local) is not None:
            return nest(arrow_frame(session, local, staged.columns), staged.columns)
        if rows.path is not None:
            return nest(file_frame(session, rows.path, staged.columns), staged.columns)
        return self._read_by_tasks(session, staged, [None] * len(staged.paths))

    def _read_by_tasks(
        self, session: SparkSession, staged: ChangesToMerge, masks: Sequence[bytes | None]
    ) -> DataFrame:
        open_store, schema, paths = self._open_store, staged.table.schema, staged.paths

        def read(numbers: Sequence[int], row: pa.StructType) -> Iterator[pa.RecordBatch]:
            objects = [(paths[number], masks[number]) for number in numbers]
            return read_changes(open_store, objects, schema, row)

        return changes_frame(session, read, len(paths), staged.columns)


def _temporary_directory(session: SparkSession) -> tempfile.TemporaryDirectory[str]:
    """Return a directory on Spark's local disk; Java deletes it, too, however this process ends."""
    context: Any = session.sparkContext
    return tempfile.TemporaryDirectory(
        prefix="changes-", dir=context._temp_dir, ignore_cleanup_errors=True
    )


def _keep(path: Path, kept: Truths, known: KnownValues | None) -> Path | None:
    """Return a file with the rows of another that are ``kept``; None for too many values."""
    if known is None and kept.all():
        return path
    target = path.with_name("last.parquet")
    if not keep_rows(path, target, kept, known):
        return None
    # The disk need not hold both for the time of the merge.
    path.unlink()
    return target


def _masks(kept: Truths, starts: Starts) -> list[bytes | None]:
    """Return which rows of each file are kept, as bits; None for all of them."""
    of_files = [kept[start:end] for start, end in pairwise(starts)]
    return [None if file.all() else np.packbits(file).tobytes() for file in of_files]


def _reduced_by_spark(
    changes: DataFrame, staged: ChangesToMerge, kept: Sequence[int], stack: ExitStack
) -> LastChanges:
    last = last_changes(changes, staged.key, order=staged.order, kept=kept)
    columns = row_columns(staged.columns, f"change.{ROW}")
    left_out = (
        [f"change.{KEPT.name}", "size(change.lost) AS unknown"] if kept else _NOTHING_LEFT_OUT
    )
    frame = _persist(last.selectExpr("change.operation", *left_out, *columns, "partitions"), stack)
    stack.callback(_drop_view, changes.sparkSession)
    [counts] = frame.selectExpr(
        "count_if(partitions > 1) AS unordered", "coalesce(sum(unknown), 0) AS unknown"
    ).collect()
    return LastChanges(frame, counts["unordered"], kept, counts["unknown"])


_NOTHING_LEFT_OUT = [f"CAST(NULL AS ARRAY<INT>) AS {KEPT.name}", "0 AS unknown"]


def _persist(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Let Spark keep rows that a merge reads several times, on disk where they are many."""

    def unpersist() -> None:
        with tidying():
            frame.unpersist()

    stack.callback(unpersist)
    return frame.persist()


def _drop_view(session: SparkSession) -> None:
    with tidying():
        session.catalog.dropTempView(VIEW)


def staged_key(table: Table, files: Sequence[TableFiles]) -> list[str]:
    """Return the present names of the identifier columns.  Raises ``Unavailable``."""
    ids = files[0].key
    by_id = {int(field.metadata[FIELD_ID]): field.name for field in table.schema}
    lost = [number for number in ids if number not in by_id]
    if lost or not ids:
        raise Unavailable(
            f"table {table.identifier}: it has no columns any more with the field ids"
            f" {lost}, which distinguish staged rows"
        )
    return [by_id[number] for number in ids]
