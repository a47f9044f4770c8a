"""Reading of Avro schemas (``.avsc``) as declared Arrow types."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.arrow.decimals import MOST_DIGITS
from secor.arrow.nested_arrays import JSON
from secor.schema.declared_fields import FaultError, field_of, inside, row_of

PRIMITIVE: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "null": JSON,
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


class AvroDeclaration:
    """One schema file: types, named types, logical types, defaults."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType] = {}

    def record(self, schema: Mapping[str, Any], namespace: str = "") -> pa.StructType:
        """Return a record's fields; one that contains itself is JSON text in itself.

        Raises ``FaultError``.
        """
        name, namespace = self._name(schema, namespace)
        self._named[name] = JSON
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise FaultError(f"record {name} has no list of fields")
        self._named[name] = row_of([self._field(field, namespace) for field in fields])
        return self._named[name]

    def _field(self, field: Any, namespace: str) -> pa.Field:
        if not isinstance(field, dict):
            raise FaultError(f"a field is no object with name and type but {field!r:.80}")
        with inside(field.get("name")):
            kind, nullable = self._optional(field.get("type"), namespace)
            default = None if nullable else _default(field.get("default"), kind)
            return field_of(field["name"], kind, nullable, default)

    def _name(self, schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise FaultError(f"a type {schema.get('type')} has no name")
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
        present = [kind for branch, kind in zip(schema, kinds, strict=True) if branch != "null"]
        kind = present[0] if len(present) == 1 else JSON
        return kind, len(present) < len(kinds)

    def _kind(self, schema: Any, namespace: str) -> pa.DataType:
        if isinstance(schema, list):
            return self._optional(schema, namespace)[0]
        if isinstance(schema, str):
            return self._resolve(schema, namespace)
        if not isinstance(schema, dict):
            raise FaultError("has no type" if schema is None else f"no type {schema!r:.80}")
        logical = schema.get("logicalType")
        kind = _decimal(schema) if logical == "decimal" else LOGICAL.get(str(logical))
        if logical == "uuid" and schema.get("type") == "string":
            kind = pa.uuid()
        if kind is not None:
            return self._remember(schema, namespace, kind)
        return self._complex(schema, namespace)

    def _resolve(self, name: str, namespace: str) -> pa.DataType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        kind = PRIMITIVE.get(name) or self._named.get(full) or self._named.get(name)
        if kind is None:
            raise FaultError(f"no type {name!r:.80} is declared before it is used")
        return kind

    def _complex(self, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        match schema.get("type"):
            case "record" | "error":
                return self.record(schema, namespace)
            case "enum":
                return self._remember(schema, namespace, pa.string())
            case "fixed":
                return self._remember(schema, namespace, pa.binary())
            case "array":
                return pa.list_(self._kind(schema.get("items"), namespace))
            case "map":
                return pa.map_(pa.string(), self._kind(schema.get("values"), namespace))
            case inner:
                return self._kind(inner, namespace)

    def _remember(
        self, schema: Mapping[str, Any], namespace: str, kind: pa.DataType
    ) -> pa.DataType:
        if "name" in schema:
            self._named[self._name(schema, namespace)[0]] = kind
        return kind


def _decimal(schema: Mapping[str, Any]) -> pa.DataType | None:
    """Return the type, None for what is not valid or has more digits: its bytes are stored."""
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(digits, int) or not isinstance(scale, int):
        return None
    return pa.decimal128(digits, scale) if 0 <= scale <= digits <= MOST_DIGITS and digits else None


def _default(default: Any, kind: pa.DataType) -> Any:
    """Return a default as our own form has it.  In Avro bytes are text, a character each."""
    if isinstance(default, str) and pa.types.is_decimal(kind):
        number = int.from_bytes(_raw(default), "big", signed=True)
        digits = tuple(map(int, str(abs(number))))
        # Not by arithmetic, which would round to the context's precision.
        return str(Decimal((int(number < 0), digits, -kind.scale)))
    if isinstance(default, str) and pa.types.is_binary(kind) and not default.isascii():
        raise FaultError("a default of bytes other than ASCII cannot be kept: leave it out")
    return default


def _raw(default: str) -> bytes:
    try:
        return default.encode("latin-1")
    except UnicodeEncodeError as error:
        raise FaultError(f"default {default!r:.80} is no text of bytes") from error
