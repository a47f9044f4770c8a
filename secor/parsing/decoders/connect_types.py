"""Types of Kafka Connect's schemas, and of Debezium's, for values as Connect writes them in JSON.

The schema says what JSON does not: that a text is the bytes of a decimal, that an integer is a
date.
``connect_names`` has what the names of schemas make of plain values.
Source: Kafka's ``connect.json.JsonConverter`` (``org.apache.kafka``).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from secor.core.variant_json import dumps
from secor.parsing.decoders.columns import NULL_PAYLOAD, Undecodable, brief
from secor.parsing.decoders.connect_names import (
    DECIMAL,
    Column,
    Convert,
    decimal_column,
    decimal_scale,
    named_column,
)
from secor.parsing.decoders.json_object import decode_exactly


class _Unknown(Exception):
    """A schema that Connect's converter does not write."""


@dataclass(frozen=True, slots=True)
class StructReader:
    """Reads the payloads of one schema, whose top level is a struct."""

    column: Column

    def read(self, payload: bytes) -> Any:
        """Return the fields for the Arrow type.  Raises ``Undecodable``."""
        item = decode_exactly(payload, parse_float=_number)
        if item is None:
            raise Undecodable(NULL_PAYLOAD)
        assert self.column.convert is not None
        return self.column.convert(item)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError as error:  # an exponent beyond all measure
        raise Undecodable("a number is beyond the range of a decimal") from error


def struct_reader(schema: bytes) -> StructReader | None:
    """Return what reads payloads of a schema; None if this is no struct of Connect's."""
    try:
        parsed = msgspec.json.decode(schema)
        if not isinstance(parsed, dict) or parsed.get("type") != "struct":
            return None
        return StructReader(_column(parsed))
    except (_Unknown, msgspec.MsgspecError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _column(schema: Mapping[str, Any]) -> Column:
    """Return the Arrow type of a schema, and what converts its values, which are as in JSON."""
    kind, name, parameters = schema["type"], schema.get("name"), schema.get("parameters")
    # Before the type's own reader, which would give the bytes of the unscaled number.
    if kind == "bytes" and name == DECIMAL:
        return _decimal(parameters)
    plain = _plain_column(kind, schema)
    return named_column(name, parameters, plain) or plain


def _plain_column(kind: str, schema: Mapping[str, Any]) -> Column:
    """Return what a schema's type says, whatever its name."""
    if kind == "struct":
        return _struct(schema)
    if kind == "array":
        item = _column(schema["items"])
        return Column(pa.list_(item.field("item")), _array(item))
    if kind == "map":
        return _map(schema)
    plain = _PLAIN.get(kind)
    if plain is None:
        raise _Unknown
    return plain


def _struct(schema: Mapping[str, Any]) -> Column:
    columns = {field["field"]: _column(field) for field in schema["fields"]}
    # Connect's converter takes null for a field with a default, too.
    required = frozenset(
        field["field"]
        for field in schema["fields"]
        if not field.get("optional", False) and "default" not in field
    )

    def convert(item: Any) -> dict[str, Any]:
        if type(item) is not dict:
            raise Undecodable(f"a struct is expected, and there is {_shown(item)}")
        unknown = item.keys() - columns.keys()
        if unknown:
            raise Undecodable(f"field {min(unknown)[:40]!r} is not in the message's schema")
        row: dict[str, Any] = {}
        for name, column in columns.items():
            value = item.get(name)
            if value is None:
                if name in required:
                    raise Undecodable(f"field {name[:40]!r} is required by the message's schema")
                row[name] = None
            else:
                row[name] = _in_field(name, column, value)
        return row

    return Column(pa.struct([column.field(name) for name, column in columns.items()]), convert)


def _in_field(name: str, column: Column, value: Any) -> Any:
    if column.convert is None:
        return value
    try:
        return column.convert(value)
    except Undecodable as error:
        raise Undecodable(f"{name[:40]}: {error}") from error
    except (ValueError, TypeError, ArithmeticError, binascii.Error) as error:
        raise Undecodable(f"{name[:40]}: {_shown(value)}: {brief(error)}") from error


def _array(item: Column) -> Convert:
    def convert(values: Any) -> list[Any]:
        if type(values) is not list:
            raise Undecodable(f"an array is expected, and there is {_shown(values)}")
        return [None if value is None else _in_field("item", item, value) for value in values]

    return convert


def _map(schema: Mapping[str, Any]) -> Column:
    """Maps with text for keys are JSON objects; with others, arrays of pairs."""
    key, value = _column(schema["keys"]), _column(schema["values"])
    if not pa.types.is_string(key.type):
        return Column(pa.string(), _pairs(key, value), text=True)

    def convert(item: Any) -> list[tuple[str, Any]]:
        if type(item) is not dict:
            raise Undecodable(f"a map is expected, and there is {_shown(item)}")
        return [
            (name, None if entry is None else _in_field(name, value, entry))
            for name, entry in item.items()
        ]

    return Column(pa.map_(pa.string(), value.field("value")), convert)


def _pairs(key: Column, value: Column) -> Convert:
    def convert(items: Any) -> str:
        if type(items) is not list or any(
            type(item) is not list or len(item) != 2 for item in items
        ):
            raise Undecodable(f"a list of pairs is expected, and there is {_shown(items)}")
        pairs = ([_or_null(key, first), _or_null(value, second)] for first, second in items)
        return dumps(list(pairs))

    return convert


def _or_null(column: Column, value: Any) -> Any:
    return None if value is None else _in_field("entry", column, value)


def _integer(kind: pa.DataType) -> Column:
    def convert(value: Any) -> int:
        if type(value) is not int:
            raise Undecodable(f"an integer is expected, and there is {_shown(value)}")
        return value

    return Column(kind, convert)


def _floating(value: Any) -> float:
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if type(value) in (int, Decimal):
        number = float(value)
        if isfinite(number):
            return number
        raise Undecodable("a number is beyond the range of a double")
    raise Undecodable(f"a number is expected, and there is {_shown(value)}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Undecodable(f"text is expected, and there is {_shown(value)}")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Undecodable(f"true or false is expected, and there is {_shown(value)}")
    return value


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _decimal(parameters: Any) -> Column:
    """Decimals: bytes of the unscaled number in base64, or (``decimal.format``) a number."""
    column, scale = decimal_column(parameters), decimal_scale(parameters)
    if column is None or scale is None:
        raise _Unknown
    assert column.convert is not None
    of_bytes = column.convert

    def convert(value: Any) -> Any:
        if type(value) not in (int, Decimal):
            return of_bytes(_bytes(value))
        return Decimal(value) if pa.types.is_decimal(column.type) else format(Decimal(value), "f")

    return Column(column.type, convert)


_PLAIN: Mapping[str, Column] = MappingProxyType(
    {
        "int8": _integer(pa.int32()),
        "int16": _integer(pa.int32()),
        "int32": _integer(pa.int32()),
        "int64": _integer(pa.int64()),
        "float": Column(pa.float32(), _floating),
        "float32": Column(pa.float32(), _floating),
        "double": Column(pa.float64(), _floating),
        "float64": Column(pa.float64(), _floating),
        "boolean": Column(pa.bool_(), _boolean),
        "string": Column(pa.string(), _text),
        "bytes": Column(pa.binary(), _bytes),
    }
)
"""Types by their names in JSON (and, of floats, in Connect's own classes)."""


def _shown(value: Any) -> str:
    text = dumps(value) if not isinstance(value, Decimal) else str(value)
    return text if len(text) <= 40 else text[:40] + "…"
