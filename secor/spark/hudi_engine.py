"""Writes Hudi tables with Spark: ``tables.hudi.HudiEngine``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from secor.core.errors import Refused, Unavailable
from secor.spark.application import TableEngine
from secor.spark.failures import failing_as
from secor.spark.last_changes import quoted
from secor.spark.rows_of_driver import column_name
from secor.spark.staged_changes import OpenStore
from secor.spark.staged_frame import ChangesToMerge, StagedReader, staged_key
from secor.tables.catalog import FIELD_ID, Table
from secor.tables.commit.merging import MergeResult
from secor.tables.hudi import (
    DELETED,
    MOVED,
    REQUESTED,
    Guard,
    HudiSettings,
    HudiWrite,
    partition_column,
    settings_of_table,
    write_options,
)
from secor.tables.rows.row_changes import UPSERT
from secor.tables.rows.staged_rows import KEPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class SparkHudiEngine(TableEngine):
    """Writes with one Spark session for each table, in one Spark application."""

    def __init__(
        self,
        start: Callable[[], SparkSession],
        open_store: OpenStore,
        settings_of: Callable[[str], HudiSettings],
        require_unmoved: Guard,
        *,
        log_place: str,
        timeout: float = 300.0,
    ) -> None:
        """``open_store`` and ``require_unmoved`` are called where tasks run.

        ``settings_of`` says how a table is written; ``log_place`` says where Spark logs;
        ``timeout`` is in seconds: see ``ExecutorWatch``.
        """
        super().__init__(start, log_place, timeout)
        self.staged = StagedReader(open_store)
        self._require_unmoved = require_unmoved
        self._settings_of = settings_of

    def write(self, write: HudiWrite) -> MergeResult:
        """Write one commit; see ``HudiEngine``."""
        name = write.table.identifier
        session = self._application.session(name)
        settings = settings_of_table(write.table, self._settings_of(name))
        key = staged_key(write.table, write.files) if write.files else write.table.key
        partitions = [partition_column(field)[0] for field in write.table.spec]
        options = {**write_options(settings, name, key, partitions), **write.options}
        try:
            with failing_as(f"table {name}: Spark could not write it", self._log_place):
                if not write.files:
                    rows = self._no_rows(session, write)
                    _save(rows, options, write)
                    return MergeResult()
                return self._write_changes(session, write, key, settings.precombine, options)
        except Unavailable as error:
            # The guard ran in a task: of its error nothing but the text comes back through the JVM.
            if MOVED in str(error.__cause__):
                raise Refused(f"{name}: {MOVED}") from error
            raise

    def _write_changes(
        self,
        session: SparkSession,
        write: HudiWrite,
        key: Sequence[str],
        order: str | None,
        options: Mapping[str, str],
    ) -> MergeResult:
        columns = spark_columns(write.table.schema)
        staged = ChangesToMerge(write.table, write.files, key, columns, order)
        with self.staged.last(session, staged) as last:
            changes, unknown = last.changes, last.unknown
            if last.kept:
                changes = _with_kept_values(session, write.table, changes, key, last.kept)
                [counts] = changes.selectExpr("coalesce(sum(lost), 0) AS lost").collect()
                unknown += counts["lost"]
            rows = changes.select(*_columns(write.table, columns))
            _save(rows.union(self._no_rows(session, write)), options, write)
        return MergeResult(last.unordered, unknown)

    def _no_rows(self, session: SparkSession, write: HudiWrite) -> DataFrame:
        """Return no rows in the columns of the table; a reader sees that it has not moved.

        Hudi reads all rows after it has put its own instant on the timeline, and before it
        writes any: it counts and shuffles them.
        """
        from pyspark.sql.types import StructType

        columns = spark_columns(write.table.schema)
        row = StructType().add("operation", "byte")
        for index, column in enumerate(columns):
            row = row.add(column_name(index), column.dataType)
        empty = session.createDataFrame([], row).select(*_columns(write.table, columns))
        require = _unmoved(self._require_unmoved, write)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            require()
            for _ in batches:
                pass  # unread input would end this Python worker: the next commit would start one
            yield from ()

        return session.range(0, 1, 1, 1).mapInArrow(read, empty.schema)


def _with_kept_values(
    session: SparkSession,
    table: Table,
    changes: DataFrame,
    key: Sequence[str],
    kept: Sequence[int],
) -> DataFrame:
    """Return changes with the values that they leave to the table's rows.

    ``lost`` is how many of a change the table does not have.  The table is read at the snapshot
    beyond which the write is refused.
    """
    from pyspark.sql import functions

    names = table.schema.names
    numbers = [*(names.index(name) for name in key), *kept]
    stored = read_table(session, table).select(
        *(functions.col(quoted(names[number])).alias(f"stored_{number}") for number in numbers),
        functions.lit(True).alias("is_stored"),
    )
    keeps = f"operation = {UPSERT} AND size({KEPT.name}) > 0"
    same_key = (f"stored_{number} = {column_name(number)}" for number in numbers[: len(key)])
    joined = changes.join(stored, functions.expr(" AND ".join([keeps, *same_key])), "left")
    values = {column_name(number): column_name(number) for number in range(len(names))}
    for number in kept:
        is_kept = f"is_stored AND array_contains({KEPT.name}, {number})"
        values[column_name(number)] = f"IF({is_kept}, stored_{number}, {column_name(number)})"
    lost = f"IF({keeps} AND is_stored IS NULL, size({KEPT.name}), 0) AS lost"
    return joined.selectExpr(
        "operation", lost, *(f"{value} AS {name}" for name, value in values.items())
    )


def _save(rows: DataFrame, options: Mapping[str, str], write: HudiWrite) -> None:
    writer = rows.write.format("hudi").options(**options).mode("append")
    writer.save(spark_location(write.table.location))


def _unmoved(require_unmoved: Guard, write: HudiWrite) -> Callable[[], None]:
    """Return the check for tasks to call; it captures only what it needs."""
    location, group, expected = write.table.location, write.group, write.expected
    taken_back = write.taken_back
    return lambda: require_unmoved(location, group, expected, taken_back)


def read_table(session: SparkSession, table: Table) -> DataFrame:
    """Return the rows of a table as it is at the snapshot that was loaded, in its own columns."""
    from pyspark.sql import functions

    columns = spark_columns(table.schema)
    head = table.head()
    if head is None:
        return session.createDataFrame([], columns)
    reader = session.read.format("hudi").option("hoodie.metadata.enable", "false")
    reader = reader.option("as.of.instant", head.summary[REQUESTED])
    rows = reader.load(spark_location(table.location))
    absent = [field for field in columns if field.name not in rows.columns]
    for column in absent:  # no commit has brought a row that has it
        rows = rows.withColumn(column.name, functions.lit(None).cast(column.dataType))
    return rows.select(*(functions.col(quoted(field.name)) for field in columns))


def spark_location(location: str) -> str:
    """Return a location as Hadoop names it."""
    scheme, mark, path = location.partition("://")
    return f"s3a://{path}" if mark and scheme in ("s3", "s3n") else location


def spark_columns(schema: pa.Schema) -> StructType:
    """Return the columns of a table as Spark has them; a UUID is a text there."""
    from pyspark.sql.pandas.types import from_arrow_schema

    plain = [pa.field(field.name, _spark_type(field.type)) for field in schema]
    return from_arrow_schema(pa.schema(plain), prefer_timestamp_ntz=True)


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _spark_type(child.type)) for child in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_spark_type(kind.key_type), _spark_type(kind.item_type))
    return kind


def _source(table: Table, field_id: int) -> str:
    """Return the column from which a partition's values come."""
    for field in table.schema:
        if int(field.metadata[FIELD_ID]) == field_id:
            return field.name
    raise Unavailable(f"table {table.identifier}: it has no column {field_id}, of its partitions")


def _columns(table: Table, columns: StructType) -> list[Any]:
    """Return the columns to select from changes: the table's, partitions', the deletion mark."""
    from pyspark.sql import functions

    numbers = {column.name: column_name(index) for index, column in enumerate(columns)}
    chosen = [functions.col(number).alias(name) for name, number in numbers.items()]
    for field in table.spec:
        name, sql = partition_column(field)
        if name not in columns.names:
            text = sql.format(numbers[_source(table, field.source_id)])
            chosen.append(functions.expr(text).alias(name))
    return [*chosen, functions.expr("operation = 1").alias(DELETED)]


def hudi_session(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session for Hudi tables, with ``settings`` over them."""
    return {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        # Lists of two levels, the default of Parquet's Avro, hold no nulls: one ended a commit.
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        # Hudi's files do not name Spark: dates before 1582 are as they say, and are not refused.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        **settings,
    }
