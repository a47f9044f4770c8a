"""The columns that Spark sees, and their values from batches of messages."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.objects import ArchivedObject
from secor.core.errors import ConfigurationError
from secor.core.model import SCHEMA

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_TIMESTAMP = pa.timestamp("us", tz="UTC")

COLUMNS = MappingProxyType(
    {
        "topic": ("string", pa.string()),
        "partition": ("int", pa.int32()),
        "offset": ("bigint", pa.int64()),
        "timestamp": ("timestamp", _TIMESTAMP),
        "timestamp_type": ("tinyint", pa.int8()),
        "key": ("binary", pa.binary()),
        "value": ("binary", pa.binary()),
        "headers": ("array<struct<key:string,value:binary>>", _HEADERS),
        "generation": ("int", pa.int32()),
        "output_partition": ("string", pa.string()),
        "object": ("string", pa.string()),
        "error": ("string", pa.string()),
    }
)
"""Each column's type in Spark and in Arrow.  ``error`` is given only when it is asked for."""

DEFAULT = tuple(name for name in COLUMNS if name != "error")

_MOST_MILLISECONDS = (1 << 63) // 1000 - 1
"""The last instant that Spark's microseconds can hold, in the year 294,247."""


def ddl(columns: Sequence[str]) -> str:
    """Return the schema as Spark writes it."""
    return ", ".join(f"`{name}` {COLUMNS[name][0]}" for name in columns)


def check_columns(columns: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of (name, Spark type) pairs.  Raises ``ConfigurationError``."""
    for name, kind in columns:
        if name not in COLUMNS:
            raise ConfigurationError(
                f"the archive has no column {name!r}: choose from {', '.join(COLUMNS)}"
            )
        if kind != COLUMNS[name][0]:
            raise ConfigurationError(
                f"column {name!r} is {COLUMNS[name][0]}, not {kind}: correct the schema, and"
                " cast after reading"
            )
    return tuple(name for name, _ in columns)


def as_timestamps(milliseconds: pa.Array) -> pa.Array:
    """Return Spark's timestamps; null for milliseconds that these cannot hold."""
    representable = pc.and_(
        pc.greater_equal(milliseconds, -_MOST_MILLISECONDS),
        pc.less_equal(milliseconds, _MOST_MILLISECONDS),
    )
    known = pc.if_else(representable, milliseconds, pa.scalar(None, pa.int64()))
    return pc.multiply(known, 1000).cast(_TIMESTAMP)


def add_object_columns(
    records: pa.RecordBatch, archived: ArchivedObject, columns: Sequence[str]
) -> pa.RecordBatch:
    """Return messages of one object (``SCHEMA``) with the columns that Spark sees."""
    rows = records.num_rows
    constants = _constants(archived)
    arrays = [
        _of_message(records, name) if name in SCHEMA.names else _repeat(constants, name, rows)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(columns))


def fault_row(archived: ArchivedObject, error: str, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the one row about an object that was skipped."""
    constants = {**_constants(archived), "error": error}
    arrays = [_repeat(constants, name, 1) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=_schema(columns))


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, COLUMNS[name][1]) for name in columns])


def _constants(archived: ArchivedObject) -> dict[str, object]:
    return {
        "topic": archived.topic,
        "partition": archived.name.partition,
        "generation": archived.name.generation,
        "output_partition": archived.name.output_partition,
        "object": archived.key,
    }


def _of_message(records: pa.RecordBatch, name: str) -> pa.Array:
    column = records.column(name)
    if name == "timestamp":
        return as_timestamps(column)
    return column.cast(COLUMNS[name][1])


def _repeat(constants: dict[str, object], name: str, rows: int) -> pa.Array:
    kind = COLUMNS[name][1]
    value = constants.get(name)
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
