"""Rows that the driver hands to Spark: few as local rows, many as a file on the same machine.

Their columns have numbers as names, because a table's names may be anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from secor.spark.last_changes import POSITION_TYPES, position_columns, quoted
from secor.spark.last_of_keys import KnownValues
from secor.tables.rows.staged_rows import KEPT, POSITION, ROW, kept_lists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_PLANNED_BYTES = 1 << 20
"""Rows that are in a query's plan, which Spark compares and copies many times: 100,000 of them
doubled the CPU of a merge.
"""

MOST_FILLED_BYTES = 64 << 20
"""Values that rows of a file take from others of it: more are Spark's work."""

TASK_BYTES = 8 << 20
"""Of one of Spark's tasks, where they are too many for all to be in the query's plan."""

GROUP_ROWS = 65_536
"""Rows of a row group, so that several tasks can read one file."""


def column_name(number: int) -> str:
    """Return the name of a table's column in rows that Spark gets."""
    return f"column_{number}"


def flat_columns(columns: StructType) -> StructType:
    """Return the columns of ``flatten``; ``columns`` are a table's."""
    from pyspark.sql import types

    numbered = [
        types.StructField(column_name(index), column.dataType)
        for index, column in enumerate(columns)
    ]
    return types.StructType([*position_columns(), *numbered])


def flat_schema(row: pa.StructType) -> pa.Schema:
    """Return the columns of ``flatten`` in Arrow's types; ``row`` is that of a table's columns."""
    numbered = [
        pa.field(column_name(index), row.field(index).type) for index in range(row.num_fields)
    ]
    return pa.schema([*POSITION, KEPT, *numbered])


def flatten(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Return changes with the columns of ``row`` next to those of their position."""
    row = changes.column(ROW)
    columns = [*(changes.column(field.name) for field in (*POSITION, KEPT)), *row.flatten()]
    return pa.RecordBatch.from_arrays(columns, schema=flat_schema(row.type))


def nest(flat: DataFrame, columns: StructType) -> DataFrame:
    """Return flat changes with their columns in ``row``, as ``last_changes`` takes them."""
    names = ", ".join(
        f"{column_name(index)} AS {quoted(column.name)}" for index, column in enumerate(columns)
    )
    return flat.selectExpr(*POSITION_TYPES, KEPT.name, f"struct({names}) AS {ROW}")


def row_columns(columns: StructType, row: str) -> list[str]:
    """Return SQL for the columns of the struct ``row`` by number."""
    return [
        f"{row}.{quoted(column.name)} AS {column_name(index)}"
        for index, column in enumerate(columns)
    ]


def arrow_frame(session: SparkSession, rows: pa.Table, columns: StructType) -> DataFrame:
    """Return flat changes; their types in Arrow are those that Spark has for ``columns``.

    As PySpark 4's ``createDataFrame`` of an Arrow table, which PySpark 3.5 does not have.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    task_rows = max(1, len(rows) * TASK_BYTES // max(rows.nbytes, TASK_BYTES))
    context: Any = session.sparkContext
    jvm: Any = session._jvm
    batches = context._serialize_to_jvm(
        rows.to_batches(task_rows),
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", str(MOST_PLANNED_BYTES))
    java: Any = session._jsparkSession
    return DataFrame(
        jvm.PythonSQLUtils.toDataFrame(batches, flat_columns(columns).json(), java), session
    )


def reads_files_of_driver(session: SparkSession) -> bool:
    """Return whether Spark's tasks see this machine's files, which are not encrypted."""
    context: Any = session.sparkContext
    # A file of ours would be in clear text where Spark encrypts what it puts on disks.
    return str(context.master).startswith("local") and not context._encryption_enabled


class RowFile:
    """A Parquet file of flat changes."""

    def __init__(self, path: Path) -> None:
        """Nothing is written before rows are added."""
        self.path = path
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows.  Raises ``OSError``."""
        self._batches.append(rows)
        self._rows += rows.num_rows
        if self._rows >= GROUP_ROWS:
            self._write()

    def close(self) -> None:
        """Write the rest.  Raises ``OSError``."""
        if self._batches:
            self._write()
        if self._writer is not None:
            self._writer.close()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._batches)
        if self._writer is None:
            # Compressed, because disks are small; nothing else, because it is read once.
            self._writer = pq.ParquetWriter(
                self.path,
                table.schema,
                compression="snappy",
                use_dictionary=["topic"],
                write_statistics=False,
            )
        self._writer.write_table(table)
        self._batches, self._rows = [], 0


class DriverRows:
    """Flat changes as the driver reads them: few are held, more are in a file, or nowhere.

    ``local`` are the few, ``path`` is of the file.
    """

    def __init__(self, row: pa.StructType, path: Path | None, most_bytes: int) -> None:
        """Above ``most_bytes`` all rows go to the file ``path``; nowhere without one.

        ``row`` is the type of the table's columns.
        """
        self._schema = flat_schema(row)
        self.path: Path | None = None
        self._file = None if path is None else RowFile(path)
        self._most_bytes = most_bytes
        self._batches: list[pa.RecordBatch] | None = []
        self._bytes = 0

    def add(self, changes: pa.RecordBatch) -> None:
        """Take changes.  Raises ``OSError``."""
        rows = flatten(changes)
        if self._batches is None:
            self._write(rows)
            return
        self._batches.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._most_bytes:
            for batch in self._batches:
                self._write(batch)
            self._batches = None

    def close(self) -> None:
        """Complete the file.  Raises ``OSError``."""
        if self._batches is None and self._file is not None:
            self._file.close()
            self.path = self._file.path

    @property
    def local(self) -> pa.Table | None:
        """All rows, where they are few."""
        if self._batches is None:
            return None
        return pa.Table.from_batches(self._batches, self._schema).combine_chunks()

    def _write(self, rows: pa.RecordBatch) -> None:
        if self._file is not None:
            self._file.add(rows)


def keep_rows(
    source: Path,
    target: Path,
    kept: npt.NDArray[np.bool_],
    known: KnownValues | None = None,
    most_bytes: int = MOST_FILLED_BYTES,
) -> bool:
    """Write the rows of one file that are ``kept`` to another, with the values that are ``known``.

    Return False, and write nothing, if the values that rows take from others have more than
    ``most_bytes``.  Raises ``OSError``.
    """
    values = _ValuesOfOthers(source, known, most_bytes) if known is not None else None
    if values is not None and values.are_too_many:
        # Before the file is begun: what it would take from other rows does not fit into memory.
        return False
    file = RowFile(target)
    start = 0
    with pq.ParquetFile(source) as parquet:
        for batch in parquet.iter_batches(GROUP_ROWS):
            filled = batch if values is None else values.fill(batch, start)
            file.add(filled.filter(pa.array(kept[start : start + batch.num_rows])))
            start += batch.num_rows
    file.close()
    return True


def fill_rows(rows: pa.Table, known: KnownValues) -> pa.Table:
    """Return flat changes with the values that they take from others."""
    for number, (targets, sources) in known.fills.items():
        places = np.arange(len(rows))
        places[targets] = sources
        index = rows.schema.get_field_index(column_name(number))
        rows = rows.set_column(
            index, rows.schema.field(index), rows.column(index).take(pa.array(places))
        )
    return _with_kept(rows, known, 0)


class _ValuesOfOthers:
    """Values that some rows of a file take from others of it."""

    def __init__(self, path: Path, known: KnownValues, most_bytes: int) -> None:
        self._known = known
        self._sources = {
            column_number: np.unique(sources) for column_number, (_, sources) in known.fills.items()
        }
        self._values: dict[int, pa.Array] = {}
        nbytes = 0
        pieces: dict[int, list[pa.Array]] = {number: [] for number in self._sources}
        start = 0
        with pq.ParquetFile(path) as parquet:
            names = [column_name(number) for number in self._sources]
            for batch in parquet.iter_batches(GROUP_ROWS, columns=names) if names else ():
                for number, rows in self._sources.items():
                    wanted = rows[(rows >= start) & (rows < start + batch.num_rows)] - start
                    piece = batch.column(column_name(number)).take(pa.array(wanted))
                    pieces[number].append(piece)
                    nbytes += piece.nbytes
                start += batch.num_rows
                if nbytes > most_bytes:
                    break
        self.are_too_many = nbytes > most_bytes
        if not self.are_too_many:
            self._values = {number: pa.concat_arrays(each) for number, each in pieces.items()}

    def fill(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Return rows of the file; the first has the number ``start``."""
        for number, (targets, sources) in self._known.fills.items():
            chosen = np.flatnonzero((targets >= start) & (targets < start + batch.num_rows))
            if not len(chosen):
                continue
            taken = np.searchsorted(self._sources[number], sources[chosen])
            values = self._values[number].take(pa.array(taken))
            places = np.arange(batch.num_rows)
            places[targets[chosen] - start] = batch.num_rows + np.arange(len(chosen))
            index = batch.schema.get_field_index(column_name(number))
            column = pa.concat_arrays([batch.column(index), values]).take(pa.array(places))
            batch = batch.set_column(index, batch.schema.field(index), column)
        return _with_kept(batch, self._known, start)


def _with_kept(rows: Any, known: KnownValues, start: int) -> Any:
    """Return a table or a batch with the columns that keep the value of the table's row."""
    masks = {}
    for number, kept in known.kept.items():
        masks[number] = np.zeros(rows.num_rows, dtype=bool)
        masks[number][kept[(kept >= start) & (kept < start + rows.num_rows)] - start] = True
    index = rows.schema.get_field_index(KEPT.name)
    return rows.set_column(index, rows.schema.field(index), kept_lists(rows.num_rows, masks))


def file_frame(session: SparkSession, path: Path, columns: StructType) -> DataFrame:
    """Return the rows of a file of ``RowFile``; ``columns`` are a table's."""
    # Dates before 1582 are as the file says: Spark 3.5 would refuse them otherwise.
    reader = session.read.schema(flat_columns(columns)).option("datetimeRebaseMode", "CORRECTED")
    return reader.parquet(path.absolute().as_uri())
