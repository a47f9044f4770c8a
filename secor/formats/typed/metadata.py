"""Columns of a row's origin (topic, partition, offset, timestamp, key, headers), and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypedDict

import pyarrow as pa

from secor.arrow.nested_arrays import any_leaf, rebuild
from secor.arrow.to_python import json_text, plain, write_out
from secor.core.errors import ConfigurationError
from secor.core.model import HEADERS_TYPE, SCHEMA

ROW = "row"
"""The column of decoded fields in the batches that a typed format is given."""

COLUMNS: Mapping[str, tuple[str, pa.DataType]] = MappingProxyType(
    {
        "_topic": ("topic", pa.string()),
        "_partition": ("partition", pa.int32()),
        "_offset": ("offset", pa.int64()),
        "_timestamp": ("timestamp", pa.timestamp("ms", "UTC")),
        "_key": ("key", pa.binary()),
        "_headers": ("headers", HEADERS_TYPE),
    }
)
"""Metadata columns: the column of the given batches that each is made from, and its type.

``topic`` and ``partition`` are no columns of messages: the caller adds them.
"""


class _Header(TypedDict, total=False):
    key: str
    value: bytes | None


PYTHON: Mapping[str, Any] = MappingProxyType(
    {
        "_topic": str,
        "_partition": int,
        "_offset": int,
        "_timestamp": datetime,
        "_key": bytes,
        "_headers": list[_Header],
    }
)
"""What the columns are in JSON; header values are base64."""


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the order of ``COLUMNS``.  Raises ``ConfigurationError``."""
    wanted = set(names)
    unknown = wanted - set(COLUMNS)
    if unknown:
        raise ConfigurationError(
            f"no metadata column {min(unknown)!r}: use some of {', '.join(COLUMNS)}"
        )
    return tuple(name for name in COLUMNS if name in wanted)


def source_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of messages that a file with these metadata columns is made from.

    Offset and timestamp are among them in any case: the file's own metadata have their span.
    """
    wanted = {"offset", "timestamp", *(COLUMNS[name][0] for name in names)}
    return [name for name in SCHEMA.names if name in wanted]


def columns_of(records: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Return the metadata columns ``names`` of a batch."""
    columns = []
    for name in names:
        source, kind = COLUMNS[name]
        index = records.schema.get_field_index(source)
        assert index >= 0, f"the batch has no column {source} to make {name} from"
        columns.append(records.column(index).cast(kind))
    return columns


def fields_with_metadata(names: Sequence[str], own: Sequence[pa.Field]) -> list[pa.Field]:
    """Return the fields of a file: metadata columns, then a row's own.

    A field with the name of a metadata column, in capitals or not, is given underscores in
    front until it has a name of its own.
    """
    taken = {name.lower() for name in (*names, *(field.name for field in own))}
    fields = [pa.field(name, COLUMNS[name][1]) for name in names]
    for field in own:
        name = field.name
        if name.lower() in names:
            while name.lower() in taken:
                name = f"_{name}"
            taken.add(name.lower())
        fields.append(pa.field(name, field.type, nullable=field.nullable))
    return fields


def metadata_columns_of(schema: pa.Schema) -> tuple[str, ...]:
    """Return the metadata columns at the beginning of a file's schema, by name and type."""
    names: list[str] = []
    for field in schema:
        if field.name not in COLUMNS or field.name in names:
            break
        expected = COLUMNS[field.name][1]
        # Other units and zones are how some formats store the same instants.
        if field.type != expected and field.type.id != expected.id:
            break
        names.append(field.name)
    return tuple(names)


def as_messages(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return messages whose values are the rows as JSON; a part without a column is null."""
    own = [name for name in rows.schema.names if name not in names]
    struct = rows.select(own).to_struct_array()
    texts = [json_text(value) for value in plain(write_out(struct))]
    return messages(texts, {name: rows.column(name) for name in names})


def messages(texts: Sequence[str], known: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Return messages of these values and metadata columns."""
    columns = {COLUMNS[name][0]: column for name, column in known.items()}
    columns["value"] = pa.array(texts, pa.string())
    arrays = [_message_column(columns.get(field.name), field.type, len(texts)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _message_column(column: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, kind)
    if pa.types.is_timestamp(column.type):
        # ORC keeps nanoseconds: a message has only milliseconds.
        return column.cast(pa.timestamp("ms", column.type.tz)).cast(kind)
    return column.cast(kind)


def to_stored(array: pa.Array, leaf: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return a column with the leaves as a format can store them; untouched if all are."""
    return rebuild(array, leaf) if _is_changed(array.type, leaf) else array


@lru_cache(maxsize=1024)
def _is_changed(kind: pa.DataType, leaf: Callable[[pa.Array], pa.Array]) -> bool:
    """Return whether a column of this type has other leaves in the file."""
    return any_leaf(kind, lambda inner: leaf(pa.nulls(0, inner)).type != inner)
