"""Schemas written down: Avro's ``.avsc``, and a short JSON of our own.

Ours is ``{"fields": [{"name": …, "type": …, "nullable": …, "default": …}, …]}``.  A type is
one of ``SCALARS``, ``decimal(10, 2)``, ``timestamp(ms)``, ``timestamp(us, UTC)``,
``time(us)``, or ``{"struct": [fields]}``, ``{"list": type}``, ``{"map": type}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.errors import ConfigurationError
from secor.formats.typed.trees import JSON, is_json, is_list

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

_WITH_ARGUMENTS = re.compile(r"(\w+)\(([^)]*)\)")
_TIMES = MappingProxyType(
    {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
)


def parse(text: str, where: str) -> pa.StructType:
    """Return the fields of a schema; ``where`` names it in errors.

    Fields that may not be null are marked so; defaults are in their metadata under
    ``DEFAULT``.  Raises ``ConfigurationError``.
    """
    try:
        described = json.loads(text)
        if isinstance(described, dict) and described.get("type") == "record":
            return _Avro().record(described)
        return _struct(described["fields"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{where}: is neither an Avro schema of a record nor a list of fields as documented:"
            f" {error}"
        ) from error


def describe(fields: pa.StructType) -> str:
    """Return the JSON of our own form: ``parse`` gives ``fields`` again."""
    return json.dumps({"fields": _fields(fields)}, ensure_ascii=False, indent=1)


def _field(name: str, kind: pa.DataType, nullable: bool, default: object = None) -> pa.Field:
    metadata = None if default is None else {DEFAULT: json.dumps(default)}
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def _struct(fields: Any) -> pa.StructType:
    made = []
    for field in fields:
        unknown = set(field) - {"name", "type", "nullable", "default"}
        if unknown:
            raise ValueError(f"field {field.get('name')!r} has no setting {min(unknown)!r}")
        nullable = field.get("nullable", True)
        made.append(_field(field["name"], _kind(field["type"]), nullable, field.get("default")))
    return _checked(made)


def _checked(fields: list[pa.Field]) -> pa.StructType:
    names = [field.name for field in fields]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"field {min(twice)!r} is there twice")
    if not names:
        raise ValueError("it has no fields")
    return pa.struct(fields)


def _kind(described: Any) -> pa.DataType:
    if isinstance(described, dict):
        ((word, inner),) = described.items()
        if word == "struct":
            return _struct(inner)
        if word == "list":
            return pa.list_(_kind(inner))
        if word == "map":
            return pa.map_(pa.string(), _kind(inner))
        raise ValueError(f"no type {word!r}")
    if described in SCALARS:
        return SCALARS[described]
    match = _WITH_ARGUMENTS.fullmatch(described)
    arguments = [part.strip() for part in match[2].split(",")] if match else []
    if match and match[1] == "decimal":
        return pa.decimal128(*map(int, arguments))
    if match and match[1] == "timestamp":
        return pa.timestamp(*arguments)
    if match and match[1] == "time" and arguments[0] in _TIMES:
        return _TIMES[arguments[0]]
    raise ValueError(f"no type {described!r}")


def _fields(fields: pa.StructType) -> list[dict[str, Any]]:
    made = []
    for field in fields.fields:
        one: dict[str, Any] = {"name": field.name, "type": described(field.type)}
        if not field.nullable:
            one["nullable"] = False
        if field.metadata and DEFAULT in field.metadata:
            one["default"] = json.loads(field.metadata[DEFAULT])
        made.append(one)
    return made


def described(kind: pa.DataType) -> Any:
    """Return a type as the JSON of our own form has it."""
    if pa.types.is_struct(kind):
        return {"struct": _fields(kind)}
    if is_list(kind):
        return {"list": described(kind.value_type)}
    if pa.types.is_map(kind):
        return {"map": described(kind.item_type)}
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


class _Avro:
    """Avro 1.11, "Schema Declaration": types, named types, logical types, defaults."""

    PRIMITIVE: Mapping[str, pa.DataType] = MappingProxyType(
        {
            "null": pa.null(),
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "long": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "bytes": pa.binary(),
            "string": pa.string(),
        }
    )

    LOGICAL: Mapping[str, pa.DataType] = MappingProxyType(
        {
            "date": pa.date32(),
            "time-millis": pa.time32("ms"),
            "time-micros": pa.time64("us"),
            "timestamp-millis": pa.timestamp("ms", "UTC"),
            "timestamp-micros": pa.timestamp("us", "UTC"),
            "timestamp-nanos": pa.timestamp("ns", "UTC"),
            "local-timestamp-millis": pa.timestamp("ms"),
            "local-timestamp-micros": pa.timestamp("us"),
            "local-timestamp-nanos": pa.timestamp("ns"),
        }
    )

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType] = {}

    def record(self, schema: Mapping[str, Any], namespace: str = "") -> pa.StructType:
        """Return a record's fields; one that contains itself is JSON text in itself."""
        name, namespace = self._name(schema, namespace)
        self._named[name] = JSON
        fields = []
        for field in schema["fields"]:
            kind, nullable = self._optional(field["type"], namespace)
            default = None if nullable else field.get("default")
            fields.append(_field(field["name"], kind, nullable, default))
        self._named[name] = _checked(fields)
        return self._named[name]

    def _name(self, schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
        name = schema["name"]
        if "." not in name:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        return name, name.rpartition(".")[0]

    def _optional(self, schema: Any, namespace: str) -> tuple[pa.DataType, bool]:
        """Return the type and whether it may be null; several types are JSON text."""
        if not isinstance(schema, list):
            return self._kind(schema, namespace), schema == "null"
        # Every branch is looked at: it may name types that are used further on.
        kinds = [self._kind(branch, namespace) for branch in schema]
        present = [kind for kind in kinds if kind != pa.null()]
        kind = present[0] if len(present) == 1 else JSON
        return kind, len(present) < len(kinds)

    def _kind(self, schema: Any, namespace: str) -> pa.DataType:
        if isinstance(schema, list):
            return self._optional(schema, namespace)[0]
        if isinstance(schema, str):
            if schema in self.PRIMITIVE:
                return self.PRIMITIVE[schema]
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            return self._named[full] if full in self._named else self._named[schema]
        logical = schema.get("logicalType")
        if logical == "decimal" and schema["precision"] <= pa.decimal128(38).precision:
            kind: pa.DataType = pa.decimal128(schema["precision"], schema.get("scale", 0))
            return self._remember(schema, namespace, kind)
        if logical in self.LOGICAL:
            return self.LOGICAL[logical]
        return self._complex(schema, namespace)

    def _complex(self, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        match schema["type"]:
            case "record" | "error":
                return self.record(schema, namespace)
            case "enum":
                return self._remember(schema, namespace, pa.string())
            case "fixed":
                return self._remember(schema, namespace, pa.binary())
            case "array":
                return pa.list_(self._kind(schema["items"], namespace))
            case "map":
                return pa.map_(pa.string(), self._kind(schema["values"], namespace))
            case inner:
                return self._kind(inner, namespace)

    def _remember(
        self, schema: Mapping[str, Any], namespace: str, kind: pa.DataType
    ) -> pa.DataType:
        if "name" in schema:
            self._named[self._name(schema, namespace)[0]] = kind
        return kind
