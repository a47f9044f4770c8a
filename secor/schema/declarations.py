"""Schema files of users: Avro's ``.avsc``, or the short JSON of ``descriptions``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from secor.arrow.decimals import MOST_DIGITS
from secor.arrow.nested_arrays import JSON, is_list
from secor.core.errors import ConfigurationError
from secor.schema.descriptions import DEFAULT, SCALARS


class FaultError(ValueError):
    """A fault in a declaration; ``path`` leads to the field."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(path)}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


@contextmanager
def inside(name: object) -> Iterator[None]:
    """Put the field's name in front of the path of faults.  Refuses what is no name."""
    if not isinstance(name, str):
        raise FaultError("a field has no name" if name is None else f"{name!r:.80} is no name")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FaultError(f"{name!r} is no name: half a character is none") from error
    try:
        yield
    except FaultError as fault:
        raise FaultError(fault.reason, (name, *fault.path)) from fault


def field_of(name: str, kind: pa.DataType, nullable: bool, default: object = None) -> pa.Field:
    """Return a field; ``default``, if any, is the JSON value that replaces null."""
    metadata = None if default is None else {DEFAULT: json.dumps(default)}
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def row_of(fields: Sequence[pa.Field]) -> pa.StructType:
    """Return a struct.  Raises ``FaultError`` if it has no fields, or one of them twice."""
    names = [field.name for field in fields]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise FaultError(f"field {min(twice)!r} is there twice")
    if not names:
        raise FaultError("it has no fields")
    return pa.struct(fields)


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
        # While its fields are read: a record within itself would never end, and is JSON text there.
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


_WITH_ARGUMENTS = re.compile(r"(\w+)\(([^)]*)\)")
_TIMES = MappingProxyType(
    {"s": pa.time32("s"), "ms": pa.time32("ms"), "us": pa.time64("us"), "ns": pa.time64("ns")}
)

DEEPEST = 32
"""Levels of a declaration; readers of Parquet end at some three times as many groups."""


def parse(text: str, where: str, *, uuids: bool = False) -> pa.StructType:
    """Return the fields of a schema; ``where`` names it in errors.

    Fields that may not be null are marked so; defaults are in their metadata under
    ``DEFAULT``.  With ``uuids`` such are a type, but for values of maps; else they are text.
    Raises ``ConfigurationError``.
    """
    try:
        fields = _parse_declared(json.loads(text))
        if _levels(fields) > DEEPEST:
            raise FaultError(f"it is nested deeper than {DEEPEST} levels")
    except FaultError as fault:
        raise ConfigurationError(f"{where}: {fault}") from fault
    except ValueError as error:
        raise ConfigurationError(f"{where}: is no JSON: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{where}: is nested deeper than {DEEPEST} levels") from error
    return _with_text(fields, uuids=uuids)


def _with_text(kind: pa.DataType, *, uuids: bool) -> pa.DataType:
    """Return a type with text in place of UUIDs, unless ``uuids`` stay."""
    if isinstance(kind, pa.UuidType):
        return kind if uuids else pa.string()
    if pa.types.is_struct(kind):
        return pa.struct(
            [field.with_type(_with_text(field.type, uuids=uuids)) for field in kind.fields]
        )
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_text(kind.value_type, uuids=uuids)))
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_type, item.with_type(_with_text(item.type, uuids=False)))
    return kind


def _parse_declared(declared: Any) -> pa.StructType:
    if isinstance(declared, dict) and declared.get("type") == "record":
        return AvroDeclaration().record(declared)
    if isinstance(declared, dict) and "fields" in declared:
        return _struct(declared["fields"])
    raise FaultError(
        "is neither an Avro schema of a record nor a list of fields as documented:"
        ' {"fields": [{"name": "user", "type": "string"}]}'
    )


def _levels(kind: pa.DataType) -> int:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return 1 + max(map(_levels, inner), default=0)


def _struct(declared: Any) -> pa.StructType:
    fields = []
    if not isinstance(declared, list):
        raise FaultError(f"its fields are no list but {declared!r:.80}")
    for field in declared:
        if not isinstance(field, dict):
            raise FaultError(f"a field is no object with name and type but {field!r:.80}")
        with inside(field.get("name")):
            unknown = set(field) - {"name", "type", "nullable", "default"}
            if unknown:
                raise FaultError(f"has no setting {min(unknown)!r}")
            nullable = field.get("nullable", True)
            if not isinstance(nullable, bool):
                raise FaultError(f"nullable is true or false, not {nullable!r:.80}")
            kind = _kind(field.get("type"))
            fields.append(field_of(field["name"], kind, nullable, field.get("default")))
    return row_of(fields)


def _kind(declared: Any) -> pa.DataType:
    if isinstance(declared, dict) and len(declared) == 1:
        ((word, inner),) = declared.items()
        if word == "struct":
            return _struct(inner)
        if word == "list":
            return pa.list_(_kind(inner))
        if word == "map":
            return pa.map_(pa.string(), _kind(inner))
    kind = _scalar(declared) if isinstance(declared, str) else None
    if kind is None:
        raise FaultError("has no type" if declared is None else f"no type {declared!r:.80}")
    return kind


def _scalar(declared: str) -> pa.DataType | None:
    if declared == "uuid":
        return pa.uuid()
    if declared in SCALARS:
        return SCALARS[declared]
    match = _WITH_ARGUMENTS.fullmatch(declared)
    word, arguments = (match[1], match[2].split(",")) if match else ("", [])
    first, second, *more = [*(argument.strip() for argument in arguments), "", ""]
    if word == "decimal" and first.isdecimal() and second.isdecimal() and not any(more):
        if not (1 <= int(first) <= MOST_DIGITS and int(second) <= int(first)):
            span = f"of 1 to {MOST_DIGITS} digits, no more than all in the fraction"
            raise FaultError(f"{declared}: {span}")
        return pa.decimal128(int(first), int(second))
    if word == "timestamp" and first in _TIMES and not any(more):
        return _timestamp(first, second)
    return _TIMES[first] if word == "time" and first in _TIMES and not second else None


def _timestamp(unit: str, zone: str) -> pa.DataType:
    kind = pa.timestamp(unit, zone or None)
    try:
        pa.scalar(0, kind).as_py()
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise FaultError(f"no time zone {zone!r}: use a name of the tz database, or UTC") from error
    return kind
