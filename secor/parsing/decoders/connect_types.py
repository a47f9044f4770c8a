"""Types of Kafka Connect's schemas, and of Debezium's, for values as Connect writes them in JSON.

The schema says what JSON does not: that a text is the bytes of a decimal, that an integer is a
date.
Sources: Kafka's ``connect.json.JsonConverter`` and ``connect.data`` (``org.apache.kafka``), and
Debezium's documentation of its data types (``io.debezium.time``, ``io.debezium.data``).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from secor.core.variant_json import dumps, schema_field
from secor.parsing.decoders.avro_types import Column, Convert
from secor.parsing.decoders.columns import NULL_PAYLOAD, Undecodable, brief, decimal_of
from secor.parsing.decoders.json_object import decode_exactly

MOST_DIGITS = 38
"""Digits of the widest decimal that every format has."""


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
    kind, name = schema["type"], schema.get("name")
    logical = _LOGICAL.get((name, kind))
    if logical is not None:
        return logical(schema)
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
        return Column(pa.string(), dumps, text=True)

    def convert(item: Any) -> list[tuple[str, Any]]:
        if type(item) is not dict:
            raise Undecodable(f"a map is expected, and there is {_shown(item)}")
        return [
            (name, None if entry is None else _in_field(name, value, entry))
            for name, entry in item.items()
        ]

    return Column(pa.map_(pa.string(), schema_field("value", value.type)), convert)


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


def _decimal(schema: Mapping[str, Any]) -> Column:
    """Decimals: bytes of the unscaled number in base64, or (``decimal.format``) a number.

    The precision is there where Debezium says it; a decimal of unknown precision takes 38 digits.
    """
    parameters = schema.get("parameters") or {}
    scale = int(parameters["scale"])
    precision = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    if not 0 <= scale <= precision <= MOST_DIGITS:
        return Column(pa.string(), lambda value: format(_exact(value, scale), "f"))
    return Column(pa.decimal128(precision, scale), lambda value: _exact(value, scale))


def _exact(value: Any, scale: int) -> Decimal:
    if type(value) in (int, Decimal):
        return Decimal(value)
    return decimal_of(int.from_bytes(_bytes(value), "big", signed=True), scale)


def _variable_scale(schema: Mapping[str, Any]) -> Column:
    """Numbers of any scale, as text, digit by digit: no decimal column takes all of them."""
    inner = _struct(schema)
    assert inner.convert is not None
    whole: Callable[[Any], dict[str, Any]] = inner.convert

    def convert(item: Any) -> str:
        fields = whole(item)
        unscaled = int.from_bytes(fields["value"], "big", signed=True)
        return format(decimal_of(unscaled, fields["scale"]), "f")

    return Column(pa.string(), convert)


def _zoned(value: Any) -> datetime:
    instant = datetime.fromisoformat(_text(value))
    if instant.tzinfo is None:
        raise Undecodable(f"{_shown(value)} has no time zone")
    return instant.astimezone(UTC)


def _fixed(column: Column) -> Callable[[Mapping[str, Any]], Column]:
    return lambda _: column


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

_LOGICAL: Mapping[tuple[Any, Any], Callable[[Mapping[str, Any]], Column]] = MappingProxyType(
    {
        ("org.apache.kafka.connect.data.Decimal", "bytes"): _decimal,
        ("org.apache.kafka.connect.data.Date", "int32"): _fixed(_integer(pa.date32())),
        ("org.apache.kafka.connect.data.Time", "int32"): _fixed(_integer(pa.time32("ms"))),
        ("org.apache.kafka.connect.data.Timestamp", "int64"): _fixed(
            _integer(pa.timestamp("ms", "UTC"))
        ),
        ("io.debezium.time.Date", "int32"): _fixed(_integer(pa.date32())),
        ("io.debezium.time.Time", "int32"): _fixed(_integer(pa.time32("ms"))),
        ("io.debezium.time.MicroTime", "int64"): _fixed(_integer(pa.time64("us"))),
        ("io.debezium.time.NanoTime", "int64"): _fixed(_integer(pa.time64("ns"))),
        ("io.debezium.time.Timestamp", "int64"): _fixed(_integer(pa.timestamp("ms"))),
        ("io.debezium.time.MicroTimestamp", "int64"): _fixed(_integer(pa.timestamp("us"))),
        ("io.debezium.time.NanoTimestamp", "int64"): _fixed(_integer(pa.timestamp("ns"))),
        ("io.debezium.time.ZonedTimestamp", "string"): _fixed(
            Column(pa.timestamp("us", "UTC"), _zoned)
        ),
        ("io.debezium.data.VariableScaleDecimal", "struct"): _variable_scale,
    }
)
"""What a name makes of a plain type.  Debezium's times without a zone stay without one."""


def _shown(value: Any) -> str:
    text = dumps(value) if not isinstance(value, Decimal) else str(value)
    return text if len(text) <= 40 else text[:40] + "…"
