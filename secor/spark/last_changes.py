"""Changes of rows as a DataFrame, and the last change of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from secor.tables.rows.row_changes import DELETE
from secor.tables.rows.staged_rows import KEPT, POSITION, ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

ReadParts = Callable[[Sequence[int], pa.StructType], Iterator[pa.RecordBatch]]
"""Reads numbered parts where a task runs; the column ``row`` is of the type that is given."""

VIEW = "secor_changes"

POSITION_TYPES = {
    "operation": "ByteType",
    "topic": "StringType",
    "partition": "IntegerType",
    "offset": "LongType",
    "timestamp": "LongType",
}
"""Spark's types of the columns of ``staged_rows.POSITION``."""

_BY_TIME = "struct(coalesce(change.timestamp, -1), change.topic, change.partition, change.offset)"
"""Orders changes of several topic partitions by time, as nothing else gives their order."""


def changes_frame(
    session: SparkSession, read: ReadParts, parts: int, columns: StructType
) -> DataFrame:
    """Return the changes of ``parts`` parts, which are read where the tasks run.

    ``columns`` are the table's.
    """
    row = row_type(columns)

    def read_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from read(batch.column("id").to_pylist(), row)

    # Several parts in a task: each task starts a Python worker, opens a store and loads a parser.
    tasks = max(1, min(parts, session.sparkContext.defaultParallelism))
    frame = session.range(0, parts, 1, tasks)
    return frame.mapInArrow(read_tasks, change_columns(columns))


def change_columns(columns: StructType) -> StructType:
    """Return the columns of changes of a table that has ``columns``; those of ``row`` are all
    optional.
    """
    from pyspark.sql import types

    row = types.StructType([types.StructField(column.name, column.dataType) for column in columns])
    return types.StructType([*position_columns(), types.StructField(ROW, row)])


def position_columns() -> list[StructField]:
    """Return the columns of changes besides those of the table."""
    from pyspark.sql import types

    # Spark 3.5, which writes Hudi tables, has no StructType.fromDDL.
    fields = [
        types.StructField(name, getattr(types, type_name)())
        for name, type_name in POSITION_TYPES.items()
    ]
    kept = types.StructField(KEPT.name, types.ArrayType(types.IntegerType()))
    return [*fields, kept]


def row_type(columns: StructType) -> pa.StructType:
    """Return the type of ``row`` as Spark takes it from Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema

    row: Any = change_columns(columns)[ROW].dataType
    return pa.struct(list(to_arrow_schema(row)))


def last_changes(
    changes: DataFrame,
    key: Sequence[str],
    *,
    order: str | None = None,
    every: bool = False,
    kept: Sequence[int] = (),
) -> DataFrame:
    """Return the last ``change`` of each key, ``key_0``, ….

    Offsets order what is in one topic partition; between them time decides, then topic,
    partition and offset.  ``partitions`` is in how many of them the key was changed.  With
    the column ``order`` its greatest value comes before all that; a deletion that has none
    counts as the greatest that came before it.  With
    ``every`` there are also ``changes``, the last one in each of them, and the number of
    ``messages``.

    Columns whose numbers are in ``kept`` may be left out by a change, see ``KEPT``: they get the
    last known value of the key.  Then a change has also ``kept``, the numbers of those for which
    there is none, and ``lost``, the numbers of those that came after a deletion: nobody knows them.
    """
    columns = ", ".join(f"{ROW}.{quoted(name)} AS key_{index}" for index, name in enumerate(key))
    keys = key_columns(key)
    value = "CAST(NULL AS STRING)"
    if order is not None:
        of_row, of_key = (
            f"{ROW}.{quoted(order)}",
            ", ".join(f"{ROW}.{quoted(key_name)}" for key_name in key),
        )
        # A deletion by a message without a value has no column at all, and must beat what it
        # follows, but not a later row of a greater value.
        preceding = f"max({of_row}) OVER (PARTITION BY {of_key}, topic, partition ORDER BY offset)"
        value = f"coalesce({of_row}, {preceding})"
    position = ", ".join(field.name for field in POSITION)
    fields = f"{position}, {ROW}" + (
        f", {KEPT.name}, CAST(array() AS ARRAY<INT>) AS lost" if kept else ""
    )
    all_changes = ", collect_list(own) AS changes, sum(messages) AS messages" if every else ""
    session: Any = changes.sparkSession
    changes.createOrReplaceTempView(VIEW)
    names = cast("StructType", changes.schema[ROW].dataType).names
    source = f"{keys}, change.topic, change.partition"
    in_offsets = f"PARTITION BY {source} ORDER BY value, change.offset"
    # First within each topic partition, where offsets give the true order, and only then between
    # them, where time has to do.
    within = _filled("keyed", f"{keys}, value", kept, names, in_offsets)
    in_time = f"PARTITION BY {keys} ORDER BY value, {_BY_TIME}"
    between = _filled("of_partition", f"{keys}, value, messages", kept, names, in_time)
    return cast(
        "DataFrame",
        session.sql(
            f"""
        WITH keyed AS (
            SELECT {columns}, struct({fields}) AS change, {value} AS value FROM {VIEW}
        ),
        of_partition AS (
            SELECT {keys}, max_by(change, struct(value, change.offset)) AS change,
                max(value) AS value, count(*) AS messages
            FROM ({within}) GROUP BY {source}
        )
        SELECT {keys}, max_by(change, struct(value, {_BY_TIME})) AS change,
            count(*) AS partitions{all_changes}
        FROM ({between}) GROUP BY {keys}
        """  # noqa: S608  # names are quoted, and nothing else comes from outside
        ),
    )


def _filled(
    source: str, others: str, kept: Sequence[int], names: Sequence[str], window: str
) -> str:
    """Return SQL for the rows of ``source``, with the last known values in their ``change``.

    ``others`` are its other columns; the change as it was is ``own``.  What comes after a deletion
    takes nothing from before it.
    """
    if not kept:
        return f"SELECT {others}, change, change AS own FROM {source}"  # noqa: S608  # as below
    position = ", ".join(f"change.{field.name}" for field in POSITION)
    # Debezium leaves out values that the database did not log (TOAST). What a change leaves out is
    # what the key had before it; behind a deletion there is nothing to take it from.
    known, values, still_kept, lost = [], {}, [], []
    for number in kept:
        own = f"change.{ROW}.{quoted(names[number])}"
        left_out = f"change.operation <> {DELETE} AND array_contains(change.{KEPT.name}, {number})"
        is_lost = f"change.operation = {DELETE} OR array_contains(change.lost, {number})"
        value = f"struct({own} AS value, {is_lost} AS lost)"
        last = f"last(IF({left_out}, NULL, {value}), true) OVER ({window})"
        known.append(f"{last} AS known_{number}")
        values[number] = (
            f"IF(known_{number} IS NULL OR known_{number}.lost, {own}, known_{number}.value)"
        )
        still_kept.append(f"IF(known_{number} IS NULL, {number}, NULL)")
        lost.append(f"IF(known_{number}.lost AND change.operation <> {DELETE}, {number}, NULL)")
    row = ", ".join(
        f"{values.get(number, f'change.{ROW}.{quoted(name)}')} AS {quoted(name)}"
        for number, name in enumerate(names)
    )
    lists = ", ".join(
        f"filter(array({', '.join(numbers)}), x -> x IS NOT NULL) AS {name}"
        for name, numbers in ((KEPT.name, still_kept), ("lost", lost))
    )
    return (
        f"SELECT {others}, change AS own,"  # noqa: S608  # names are quoted
        f" struct({position}, struct({row}) AS {ROW}, {lists}) AS change"
        f" FROM (SELECT *, {', '.join(known)} FROM {source})"
    )


def key_columns(key: Sequence[str]) -> str:
    """Return ``key_0, key_1``: SQL for the columns of ``last_changes``."""
    return ", ".join(f"key_{index}" for index in range(len(key)))


def key_json(key: Sequence[str]) -> str:
    """Return SQL for a key as a JSON object, out of ``key_columns``: the same wherever it runs."""
    pairs = (f"'{text_of(name)}', key_{index}" for index, name in enumerate(key))
    return f"to_json(named_struct({', '.join(pairs)}), map('timeZone', 'UTC'))"


def text_of(name: str) -> str:
    """Return a name inside of SQL's quotes."""
    return name.replace("\\", "\\\\").replace("'", "\\'")


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"
