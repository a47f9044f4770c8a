"""The short JSON in which schemas are declared and kept with the objects.

It is ``{"fields": [{"name": …, "type": …, "nullable": …, "default": …}, …]}``.  A type is
one of ``SCALARS``, ``decimal(10, 2)``, ``timestamp(ms)``, ``timestamp(us, UTC)``,
``time(us)``, ``uuid`` (in tables; else text), or ``{"struct": [fields]}``, ``{"list": type}``,
``{"map": type}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.arrow.nested_arrays import JSON, is_json, is_list
from secor.core.errors import ConfigurationError

DEFAULT = b"secor.default"
"""Metadata of a field: the JSON of what replaces null."""

SCALARS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "json": JSON,
    }
)

NAMES = MappingProxyType({kind: name for name, kind in SCALARS.items() if name != "json"})


def describe(fields: pa.StructType) -> str:
    """Return the JSON of our own form: ``parse`` gives ``fields`` again."""
    return json.dumps({"fields": _fields(fields)}, ensure_ascii=False, indent=1)


def _fields(fields: pa.StructType) -> list[dict[str, Any]]:
    descriptions = []
    for field in fields.fields:
        description: dict[str, Any] = {"name": field.name, "type": describe_type(field.type)}
        if not field.nullable:
            description["nullable"] = False
        if field.metadata and DEFAULT in field.metadata:
            description["default"] = json.loads(field.metadata[DEFAULT])
        descriptions.append(description)
    return descriptions


def describe_type(kind: pa.DataType) -> Any:
    """Return a type as the JSON of our own form has it."""
    if pa.types.is_struct(kind):
        return {"struct": _fields(kind)}
    if is_list(kind):
        return {"list": describe_type(kind.value_type)}
    if pa.types.is_map(kind):
        return {"map": describe_type(kind.item_type)}
    if is_json(kind):
        return "json"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp({kind.unit}, {kind.tz})" if kind.tz else f"timestamp({kind.unit})"
    if pa.types.is_time(kind):
        return f"time({kind.unit})"
    if kind not in NAMES:
        raise ConfigurationError(f"a schema cannot have the type {kind}")
    return NAMES[kind]
