"""Staged changes of rows: their columns, and the directory of their files."""

from __future__ import annotations

import pyarrow as pa

from secor.core.model import Chunk
from secor.tables.table_rows import plain_type

POSITION = (
    pa.field("operation", pa.int8(), nullable=False),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64()),
)
"""Columns of staged changes before ``row``; the timestamp is Kafka's, in milliseconds."""

ROW = "row"

DIRECTORY = "_changes"
"""Below the group's prefix, with a directory for each table; no topic's directory."""


def changes_root(prefix: str) -> str:
    """Return the directory of staged changes below a group's prefix."""
    return "/".join([*(part for part in prefix.split("/") if part), DIRECTORY])


def staged_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns of staged changes of a table; those of ``row`` are all optional."""
    row = pa.struct([column.with_nullable(True) for column in columns])
    return pa.schema([*POSITION, pa.field(ROW, row)])


def staged_rows(operation: int, rows: pa.StructArray, columns: pa.Schema, chunk: Chunk) -> pa.Array:
    """Return rows of a table as staged changes; columns that ``rows`` lack are null."""
    records, count = chunk.records, len(rows)
    arrays = [_column(rows, column) for column in columns]
    fields = [pa.field(it.name, array.type) for it, array in zip(columns, arrays, strict=True)]
    position = [
        pa.repeat(pa.scalar(operation, pa.int8()), count),
        pa.repeat(chunk.topic_partition.topic, count),
        pa.repeat(pa.scalar(chunk.topic_partition.partition, pa.int32()), count),
        records.column("offset"),
        records.column("timestamp"),
    ]
    row = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.StructArray.from_arrays([*position, row], fields=[*POSITION, pa.field(ROW, row.type)])


def _column(rows: pa.StructArray, column: pa.Field) -> pa.Array:
    at = rows.type.get_field_index(column.name)
    return pa.nulls(len(rows), plain_type(column.type)) if at < 0 else rows.field(at)
