"""Avro schemas made of Arrow schemas, and field names as Avro allows them."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from secor.arrow.nested_arrays import children, entries, is_list, list_of, map_of, struct_of
from secor.core.errors import ConfigurationError

ORIGINAL = "secor.name"
"""Property of a field whose own name Avro does not allow."""

_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return a record; fields that may be null are optional."""
    return _record(pa.struct(list(schema)), "Row")


def names_of(kind: pa.StructType) -> list[str]:
    """Return the names of a struct's fields in Avro, no two alike."""
    taken: set[str] = set()
    names = []
    for field in kind.fields:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", field.name)
        name = base = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names.append(name)
    return names


def rename_fields(array: pa.Array) -> pa.Array:
    """Return ``array`` with the names of ``names_of`` at every level."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [rename_fields(column) for _, column in children(array)]
        fields = [
            pa.field(name, column.type, field.nullable)
            for name, column, field in zip(names_of(kind), columns, kind.fields, strict=True)
        ]
        return struct_of(columns, fields, array)
    if not pa.types.is_nested(kind):
        return array
    if is_list(kind):
        values = rename_fields(array.flatten())
        return list_of(values, pa.field("item", values.type), array)
    lists, flat = entries(array)
    return map_of(flat.field(0), rename_fields(flat.field(1)), lists)


def _record(kind: pa.StructType, name: str) -> dict[str, Any]:
    fields = []
    for field, avro in zip(kind.fields, names_of(kind), strict=True):
        typed = _optional if field.nullable else _type
        record: dict[str, Any] = {"name": avro, "type": typed(field.type, f"{name}_{avro}")}
        if avro != field.name:
            record[ORIGINAL] = field.name
        fields.append({**record, "default": None} if field.nullable else record)
    return {"type": "record", "name": name, "fields": fields}


def _optional(kind: pa.DataType, name: str) -> Any:
    return "null" if pa.types.is_null(kind) else ["null", _type(kind, name)]


def _type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        return _record(kind, name)
    if is_list(kind):
        return {"type": "array", "items": _optional(kind.value_type, f"{name}_item")}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _optional(kind.item_type, f"{name}_value")}
    if pa.types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if pa.types.is_temporal(kind):
        return _temporal(kind)
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width > pa.int32().bit_width else "int"
    if pa.types.is_floating(kind):
        return "float" if pa.types.is_float32(kind) else "double"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_fixed_size_binary(kind):
        return "bytes"
    raise ConfigurationError(f"Avro has no type for {kind}: declare another for the field {name}")


def _temporal(kind: pa.DataType) -> dict[str, str]:
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_time(kind):
        width = "int" if kind.bit_width == pa.int32().bit_width else "long"
        return {"type": width, "logicalType": f"time-{_UNITS[kind.unit]}"}
    local = "" if kind.tz else "local-"
    return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}
