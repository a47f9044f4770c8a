"""Arrow types of Avro schemas in the decoder, logical types included.

Source: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.variant_json import dumps
from secor.parsing.decoders.columns import MOST_FIELDS, Undecodable, brief, decimal_of
from secor.parsing.decoders.connect_names import Column, Convert, named_column

PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}

INTEGERS = [pa.int32(), pa.int64()]
FLOATS = [pa.float32(), pa.float64()]
WIDEST_DECIMAL = 76
EPOCH = dt.date(1970, 1, 1)
NAMED = ("record", "enum", "fixed", "error")


AS_TEXT = Column(pa.string(), dumps, True)


@dataclass(slots=True)
class SchemaPlanner:
    """Walks one schema."""

    named: dict[str, Any] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    recursive: bool = False
    fields: int = 0

    def column(self, schema: Any, space: str = "") -> Column:
        """Return the column of a schema, which is as JSON gives it."""
        # Counted over the whole schema: one that names a record in ten fields, ten deep, is small
        # itself and has ten billion columns.
        self.fields += 1
        if self.fields > MOST_FIELDS:
            raise ConfigurationError(f"Avro schema: more than {MOST_FIELDS} fields")
        if isinstance(schema, str):
            return self._by_name(schema, space)
        if isinstance(schema, list):
            return self._union(schema, space)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.column(kind, space)
        if kind in NAMED:
            return self._resolve(schema, space)
        if kind == "array":
            item = self.column(schema["items"], space)
            if self._is_map_entry(schema["items"]):
                return Column(pa.string(), _pairs(item.convert), text=True)
            return self._array(item)
        if kind == "map":
            return self._map(self.column(schema["values"], space))
        return self._logical(schema, self._by_name(kind, space))

    def _by_name(self, name: str, space: str) -> Column:
        if name in PRIMITIVES:
            return Column(PRIMITIVES[name])
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.named:
            full = name
        if full in self.open:
            self.recursive = True
            return AS_TEXT
        if full not in self.named:
            raise ConfigurationError(f"Avro schema: unknown type {name!r}")
        schema, inner = self.named[full]
        return self._define(full, schema, inner)

    def _resolve(self, schema: Mapping[str, Any], space: str) -> Column:
        name = schema["name"]
        inner = name.rpartition(".")[0] or schema.get("namespace", space)
        full = name if "." in name or not inner else f"{inner}.{name}"
        # Before its fields: they may name the record that they are in.
        self.named[full] = (schema, inner)
        for alias in schema.get("aliases", ()):
            self.named.setdefault(alias, (schema, inner))
        return self._define(full, schema, inner)

    def _define(self, full: str, schema: Mapping[str, Any], space: str) -> Column:
        if schema["type"] == "enum":
            return _named(schema, Column(pa.string())) or Column(pa.string())
        if schema["type"] == "fixed":
            return self._logical(schema, Column(pa.binary(schema["size"])))
        # What is open is around the field: a name in it would go on for ever, and is text instead.
        self.open.append(full)
        columns = {item["name"]: self.column(item["type"], space) for item in schema["fields"]}
        self.open.pop()
        kind = pa.struct([column.field(name) for name, column in columns.items()])
        changes = [(name, item.convert) for name, item in columns.items() if item.convert]
        record = Column(kind, _in_record(changes) if changes else None)
        return _named(schema, record) or record

    def _is_map_entry(self, items: Any) -> bool:
        """Return whether an array is a map with keys that are no text, as Connect writes it."""
        if isinstance(items, str):
            items = self.named.get(items, (None, ""))[0]
        return isinstance(items, dict) and items.get("connect.internal.type") == "MapEntry"

    def _array(self, item: Column) -> Column:
        if _takes_nothing(item.type):  # a few bytes could claim 2^60 of them
            raise ConfigurationError("Avro schema: an array's items take no bytes")
        convert = _in_list(item.convert) if item.convert else None
        return Column(pa.list_(item.field("item")), convert)

    def _map(self, value: Column) -> Column:
        kind = pa.map_(pa.string(), value.field("value"))
        return Column(kind, _in_map(value.convert) if value.convert else None)

    def _union(self, branches: Sequence[Any], space: str) -> Column:
        columns = [self.column(branch, space) for branch in branches if branch != "null"]
        if not columns:
            return Column(pa.null())
        if len(columns) == 1:
            return columns[0]
        types = [column.type for column in columns]
        # Only within a family is the wider type exact; all other unions have no column that keeps
        # what was written.
        for family in (INTEGERS, FLOATS, [pa.string()]):
            if all(kind in family for kind in types) and not any(c.convert for c in columns):
                return Column(family[-1])
        return AS_TEXT

    def _logical(self, schema: Mapping[str, Any], column: Column) -> Column:
        named = _named(schema, column)
        if named is not None:
            return named
        logical, kind = schema.get("logicalType"), schema["type"]
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(schema, column)
        logical_type = LOGICAL.get((kind, str(logical)))
        return column if logical_type is None else Column(logical_type)

    def _decimal(self, schema: Mapping[str, Any], column: Column) -> Column:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return column  # an invalid logical type counts as none, says the specification
        convert = _decimal_text(scale)
        # Wider than any column: all of the digits, as text.
        if not 0 < precision <= WIDEST_DECIMAL:
            return Column(pa.string(), convert)
        wide = pa.decimal128 if precision <= 38 else pa.decimal256
        return Column(wide(precision, scale), _decimal(scale))


def _named(schema: Mapping[str, Any], plain: Column) -> Column | None:
    """Return what the name makes of a type that Connect's converter has written, if it has one.

    It comes before a logical type, which says less: the converter writes a precision of 64 where
    it knows none.
    """
    name = schema.get("connect.name")
    column = named_column(name, schema.get("connect.parameters"), plain) if name else None
    if column is None or column.convert is None:
        return column
    return replace(column, convert=_of_values(str(name), column.convert))


def _of_values(name: str, change: Convert) -> Convert:
    """Return a conversion whose failures are faults of the message."""

    def convert(value: Any) -> Any:
        try:
            return change(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Undecodable(f"no {name}: {brief(error)}") from error

    return convert


def _pairs(change: Convert | None) -> Convert:
    """Return what makes of a map's entries the text that such a map has in Connect's JSON."""

    def convert(items: list[dict[str, Any]]) -> str:
        entries = [change(item) for item in items] if change else items
        return dumps([[entry["key"], entry["value"]] for entry in entries])

    return convert


def _in_record(changes: Sequence[tuple[str, Convert]]) -> Convert:
    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, change in changes:
            value = record[name]
            if value is not None:
                record[name] = change(value)
        return record

    return convert


def _in_list(change: Convert) -> Convert:
    return lambda items: [None if item is None else change(item) for item in items]


def _in_map(change: Convert) -> Convert:
    return lambda items: {
        name: None if item is None else change(item) for name, item in items.items()
    }


def _decimal(scale: int) -> Convert:
    return lambda raw: decimal_of(int.from_bytes(raw, "big", signed=True), scale)


def _decimal_text(scale: int) -> Convert:
    exact = _decimal(scale)
    return lambda raw: format(exact(raw), "f")


def bare(schema: Any) -> Any:
    """The schema without logical types: the values as they were written, none rounded."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in ("default", "symbols") else bare(value)
        for name, value in schema.items()
        if name != "logicalType"
    }


def wider(kind: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type in which the values of both are what they are in their own, if any.

    So no integers among doubles, and no floats: what is then taken for a decimal is another.
    """
    if kind.equals(other, check_metadata=True):
        return kind
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return _wider_struct(kind, other)
    if pa.types.is_list(kind) and pa.types.is_list(other):
        item = _wider_field(kind.value_field, other.value_field)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(kind) and pa.types.is_map(other) and kind.key_type == other.key_type:
        item = _wider_field(kind.item_field, other.item_field)
        return None if item is None else pa.map_(kind.key_type, item)
    return INTEGERS[-1] if kind in INTEGERS and other in INTEGERS else None


def _wider_field(field: pa.Field, other: pa.Field) -> pa.Field | None:
    if pa.types.is_null(other.type):
        return field
    if pa.types.is_null(field.type):
        return other
    kind = wider(field.type, other.type) if field.metadata == other.metadata else None
    return None if kind is None else field.with_type(kind)


def _wider_struct(struct: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    fields = {item.name: item for item in struct}
    for item in other:
        both = _wider_field(fields.get(item.name, item), item)
        if both is None:
            return None
        fields[item.name] = both
    return pa.struct(list(fields.values()))


def _takes_nothing(kind: pa.DataType) -> bool:
    """Return whether values of a type may take no bytes."""
    if pa.types.is_struct(kind):
        return all(_takes_nothing(field.type) for field in kind)
    if pa.types.is_fixed_size_binary(kind):
        return kind.byte_width == 0
    return pa.types.is_null(kind)
