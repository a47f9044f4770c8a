"""Tables as Spark's own reader sees them, and rows that it finds by filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.spark.failures import failing_as
from secor.spark.last_changes import quoted
from secor.tables.catalog import Snapshot, Table
from secor.verify.engine_filters import (
    RowFilter,
    comparable_columns,
    extremes_sql,
    where_sql,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = "secor_place"
"""The column with the place of a row's file."""

ReadTable = Callable[[Table, str], "DataFrame | None"]
"""Returns the rows of a branch with ``PLACE``; None for a branch without a snapshot."""


def read_head(session: SparkSession, name: str, head: Snapshot | None) -> DataFrame | None:
    """Return the rows of a snapshot of an Iceberg table with ``PLACE``; None of no snapshot."""
    if head is None:
        return None
    return session.sql(
        f"SELECT *, _file AS {PLACE} FROM {name} VERSION AS OF {head.snapshot_id}"  # noqa: S608  # a number
    )


class SparkTables:
    """A ``TableReader`` of one Spark session."""

    name = "Spark"

    def __init__(self, read: ReadTable, log_place: str) -> None:
        """``log_place`` is where Spark logs."""
        self._read = read
        self._log_place = log_place

    def scan(self, table: Table, branch: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give columns of all rows; see ``TableReader``."""
        rows = self._rows(table, branch)
        if rows is not None:
            yield from self._collect(table, rows.select(*map(quoted, columns)))

    def extremes(self, table: Table, branch: str) -> Iterator[pa.RecordBatch]:
        """Give the extremes of each file; see ``TableReader``."""
        rows = self._rows(table, branch)
        if rows is None:
            return
        columns = [
            column for column in comparable_columns(table.schema) if column.name in rows.columns
        ]
        aggregates = extremes_sql(columns, quoted)
        with self._failing(table):
            rows = rows.groupBy(PLACE).agg(
                *map(_expression, [f"max({PLACE}) AS file", *aggregates])
            )
        yield from self._collect(table, rows.drop(PLACE))

    def counts(self, table: Table, branch: str, filters: Sequence[RowFilter]) -> Sequence[int]:
        """Count rows; see ``TableReader``."""
        rows = self._rows(table, branch)
        if rows is None:
            return [0] * len(filters)
        # One statement each: the tasks of a union report the metrics of all its scans.
        conditions = [where_sql(filter_, PLACE, quoted, literal) for filter_ in filters]
        with self._failing(table):
            return [rows.where(condition).count() for condition in conditions]

    def _rows(self, table: Table, branch: str) -> DataFrame | None:
        with self._failing(table):
            return self._read(table, branch)

    def _collect(self, table: Table, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        with self._failing(table):
            # Not ``toArrow``, which collects all rows on the driver.
            for row in frame.mapInArrow(_serialized, "batches binary").toLocalIterator():
                yield from pa.ipc.open_stream(bytes(row["batches"]))

    def _failing(self, table: Table) -> Any:
        what = f"table {table.identifier}: Spark cannot read it"
        return failing_as(what, self._log_place)


def _serialized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give each batch as bytes, so that the driver takes them one by one."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        written = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([written], ["batches"])


def _expression(sql: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(sql)


def literal(value: pa.Scalar) -> str:
    """Return a value in Spark's SQL, exactly; Spark computes it before it chooses files."""
    kind = value.type
    if isinstance(kind, pa.UuidType):
        return f"'{value.as_py()}'"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"decode(X'{value.as_py().encode().hex()}', 'UTF-8')"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_fixed_size_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_date32(kind):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(kind):
        moment = f"timestamp_micros(CAST('{value.value}' AS BIGINT))"
        return moment if kind.tz is not None else f"CAST({moment} AS TIMESTAMP_NTZ)"
    if pa.types.is_decimal(kind):
        return f"CAST('{value.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_floating(kind):
        return f"CAST('{value.as_py()!r}' AS {'FLOAT' if kind.bit_width == 32 else 'DOUBLE'})"
    if pa.types.is_integer(kind):
        # The least number of a type is no literal: the sign is an operator.
        return f"CAST('{value.as_py()}' AS {'BIGINT' if kind.bit_width == 64 else 'INT'})"
    return str(value.as_py())
