"""Staged changes of rows: their columns, and the directory of their files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import Chunk
from secor.tables.rows.table_rows import plain_type

POSITION = (
    pa.field("operation", pa.int8(), nullable=False),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64()),
)
"""Columns of staged changes before ``row``; the timestamp is Kafka's, in milliseconds."""

KEPT = pa.field("kept", pa.list_(pa.int32()))
"""Column of staged changes after those: the ids of the columns that keep the value of the row.

Only changes of a table for which a value may say so have it.  In ``row`` these columns are null, or
have the placeholder where the table requires a value.
"""

ROW = "row"

DIRECTORY = "_changes"
"""Below the group's prefix, with a directory for each table; no topic's directory."""


def changes_root(prefix: str) -> str:
    """Return the directory of staged changes below a group's prefix."""
    return "/".join([*(part for part in prefix.split("/") if part), DIRECTORY])


def staged_schema(columns: pa.Schema, *, keeping: bool = False) -> pa.Schema:
    """Return the columns of staged changes of a table; those of ``row`` are all optional.

    ``keeping`` says whether changes may keep values.
    """
    row = pa.struct([column.with_nullable(True) for column in columns])
    return pa.schema([*POSITION, *([KEPT] if keeping else []), pa.field(ROW, row)])


def staged_rows(
    operation: int,
    rows: pa.StructArray,
    columns: pa.Schema,
    chunk: Chunk,
    kept: pa.Array | None = None,
) -> pa.Array:
    """Return rows of a table as staged changes; columns that ``rows`` lack are null.

    ``kept`` is for changes that may keep values.
    """
    records, count = chunk.records, len(rows)
    arrays = [_column(rows, column) for column in columns]
    fields = [
        pa.field(row_column.name, array.type)
        for row_column, array in zip(columns, arrays, strict=True)
    ]
    position = [
        pa.repeat(pa.scalar(operation, pa.int8()), count),
        pa.repeat(chunk.topic_partition.topic, count),
        pa.repeat(pa.scalar(chunk.topic_partition.partition, pa.int32()), count),
        records.column("offset"),
        records.column("timestamp"),
    ]
    row = pa.StructArray.from_arrays(arrays, fields=fields)
    keeping = [] if kept is None else [KEPT]
    return pa.StructArray.from_arrays(
        [*position, *([] if kept is None else [kept]), row],
        fields=[*POSITION, *keeping, pa.field(ROW, row.type)],
    )


def kept_lists(rows: int, masks: Mapping[int, npt.NDArray[np.bool_]]) -> pa.Array:
    """Return ``KEPT`` of so many rows; ``masks`` are those of columns by number."""
    numbers = np.array(sorted(masks), np.int32)
    matrix = np.zeros((rows, len(numbers)), dtype=bool)
    for index, number in enumerate(numbers.tolist()):
        matrix[:, index] = masks[number]
    ends = np.cumsum(matrix.sum(axis=1), dtype=np.int32)
    values = numbers[np.nonzero(matrix)[1]]
    starts = pa.array(np.concatenate([np.zeros(1, np.int32), ends]))
    return pa.ListArray.from_arrays(starts, pa.array(values, pa.int32()), type=KEPT.type)


def _column(rows: pa.StructArray, column: pa.Field) -> pa.Array:
    index = rows.type.get_field_index(column.name)
    return pa.nulls(len(rows), plain_type(column.type)) if index < 0 else rows.field(index)
