"""Iceberg's types as Arrow's, with field ids, and back.

| Iceberg | Arrow |
|---|---|
| int, long, float, double, boolean, date, decimal, string, binary | of the same name |
| time, timestamp, timestamptz | ``time64[us]``, ``timestamp[us]``, ``timestamp[us, UTC]`` |
| uuid, fixed | ``uuid``, ``fixed_size_binary`` |
| struct, list, map | of the same name, each field with its id in the metadata |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pyarrow as pa
from pyiceberg import types
from pyiceberg.schema import Schema

from secor.core.errors import ConfigurationError
from secor.tables.catalog import FIELD_ID

_SCALARS: tuple[tuple[type[types.IcebergType], pa.DataType], ...] = (
    (types.BooleanType, pa.bool_()),
    (types.IntegerType, pa.int32()),
    (types.LongType, pa.int64()),
    (types.FloatType, pa.float32()),
    (types.DoubleType, pa.float64()),
    (types.DateType, pa.date32()),
    (types.TimeType, pa.time64("us")),
    (types.TimestampType, pa.timestamp("us")),
    (types.TimestamptzType, pa.timestamp("us", "UTC")),
    (types.StringType, pa.string()),
    (types.UUIDType, pa.uuid()),
    (types.BinaryType, pa.binary()),
)


def arrow_schema(schema: Schema, where: str) -> pa.Schema:
    """Return a table's schema.  Raises ``ConfigurationError`` naming ``where`` for types of v3."""
    return pa.schema([_arrow_field(field, where) for field in schema.fields])


def _arrow_field(field: types.NestedField, where: str) -> pa.Field:
    return pa.field(
        field.name,
        _arrow_type(field.field_type, f"{where}, column {field.name}"),
        nullable=not field.required,
        metadata={FIELD_ID: str(field.field_id)},
    )


def _arrow_type(kind: types.IcebergType, where: str) -> pa.DataType:
    if isinstance(kind, types.StructType):
        return pa.struct([_arrow_field(field, where) for field in kind.fields])
    if isinstance(kind, types.ListType):
        return pa.list_(_arrow_field(kind.element_field, where))
    if isinstance(kind, types.MapType):
        key = _arrow_field(kind.key_field, where)
        return pa.map_(key, _arrow_field(kind.value_field, where))
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.FixedType):
        return pa.binary(len(kind))
    for iceberg, arrow in _SCALARS:
        if isinstance(kind, iceberg):
            return arrow
    raise ConfigurationError(f"{where}: the type {kind} is not of format version 2")


def iceberg_schema(schema: pa.Schema, where: str, key: Sequence[str] = ()) -> Schema:
    """Return a schema for a new table: ids by position; ``key`` names identifier columns.

    Raises ``ConfigurationError``.
    """
    ids = count(1)
    fields = [_iceberg_field(field, ids, where) for field in schema]
    identifiers = [field.field_id for field in fields if field.name in key]
    return Schema(*fields, identifier_field_ids=identifiers)


def iceberg_type(kind: pa.DataType, where: str) -> types.IcebergType:
    """Return the type of a column; ids inside of it are provisional."""
    return _iceberg_type(kind, count(1), where)


def _iceberg_field(field: pa.Field, ids: Iterator[int], where: str) -> types.NestedField:
    field_id = next(ids)
    kind = _iceberg_type(field.type, ids, f"{where}, column {field.name}")
    return types.NestedField(field_id, field.name, kind, required=not field.nullable)


def _iceberg_type(kind: pa.DataType, ids: Iterator[int], where: str) -> types.IcebergType:
    if pa.types.is_struct(kind):
        return types.StructType(*[_iceberg_field(field, ids, where) for field in kind.fields])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element_id = next(ids)
        element = _iceberg_type(kind.value_type, ids, where)
        return types.ListType(element_id, element, not kind.value_field.nullable)
    if pa.types.is_map(kind):
        key_id, value_id = next(ids), next(ids)
        key = _iceberg_type(kind.key_type, ids, where)
        value = _iceberg_type(kind.item_type, ids, where)
        return types.MapType(key_id, key, value_id, value, not kind.item_field.nullable)
    return _iceberg_scalar(kind, where)


def _iceberg_scalar(kind: pa.DataType, where: str) -> types.IcebergType:
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return types.FixedType(kind.byte_width)
    for iceberg, arrow in _SCALARS:
        if kind.equals(_canonical(kind, arrow)):
            return iceberg()
    raise ConfigurationError(f"{where}: Iceberg has no type for {kind}; declare another")


def _canonical(kind: pa.DataType, arrow: pa.DataType) -> pa.DataType:
    """Return ``kind`` itself if the table's ``arrow`` type is an equal of it, else ``arrow``."""
    equivalent = (
        (pa.types.is_large_string(kind) and arrow == pa.string())
        or (pa.types.is_large_binary(kind) and arrow == pa.binary())
        or (_is_small(kind) and arrow == pa.int32())
        or (pa.types.is_time(kind) and pa.types.is_time(arrow))
        or (
            pa.types.is_timestamp(kind)
            and pa.types.is_timestamp(arrow)
            and (kind.tz is None) == (arrow.tz is None)
        )
    )
    return kind if equivalent else arrow


def _is_small(kind: pa.DataType) -> bool:
    return kind in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
