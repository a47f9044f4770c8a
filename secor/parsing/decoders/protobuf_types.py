"""Arrow types of Protobuf messages, and how their values are read.

Sources: https://protobuf.dev/reference/protobuf/google.protobuf/ for the well-known types, and
Confluent's converter for what it makes of Connect's dates and times (``google.type``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from secor.core.errors import ConfigurationError
from secor.core.variant_json import dumps, schema_field
from secor.parsing.decoders.columns import (
    EXACT,
    MAX_DEPTH,
    MOST_FIELDS,
    Undecodable,
    brief,
    decimal_of,
)

Convert = Callable[[Any], Any]
Getter = tuple[str, bool, Convert | None]
"""A field's name, whether it knows to be unset, and its conversion."""

SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.uint32(),
    FieldDescriptor.CPPTYPE_UINT64: pa.uint64(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
}

MOST_DIGITS = 38
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The limits of a Timestamp: the years 1 and 9999."""

CONFLUENT_META = 1088
"""The number of Confluent's extension of field options, which has a decimal's parameters."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The Arrow type of a value, its conversion, and whether it is JSON text."""

    type: pa.DataType
    convert: Convert | None = None
    text: bool = False

    def field(self, name: str) -> pa.Field:
        """Return it as the field of a struct, list or map."""
        return schema_field(name, self.type, text=self.text)


@dataclass(slots=True)
class ProtobufPlanner:
    """Walks a message's type; ``native``: well-known types are columns of their own types."""

    native: bool = False
    fields: int = 0

    def plan(self, kind: Descriptor, above: tuple[str, ...] = ()) -> tuple[Any, list[Getter]]:
        """Return a message type's Arrow struct and where its values come from."""
        self.fields += len(kind.fields)
        if self.fields > MOST_FIELDS or len(above) > MAX_DEPTH:
            raise ConfigurationError(
                f"protobuf: {(*above, kind.full_name)[0]} has more than {MOST_FIELDS} fields, or"
                f" nests deeper than {MAX_DEPTH}"
            )
        within = (*above, kind.full_name)
        fields, getters = [], []
        for item in kind.fields:
            field, convert = self._field(item, within)
            fields.append(field)
            # A field that cannot be unset has its default, which proto3 does not distinguish from
            # absence.
            getters.append((item.name, item.has_presence, convert))
        return pa.struct(fields), getters

    def _field(
        self, item: FieldDescriptor, above: tuple[str, ...]
    ) -> tuple[pa.Field, Convert | None]:
        entry = item.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return self._map(item, above)
        value = self._value(item, above)
        if not item.is_repeated:
            return value.field(item.name), value.convert
        return pa.field(item.name, pa.list_(value.field("item"))), _each(value.convert)

    def _map(self, item: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.Field, Convert]:
        entry: Any = item.message_type
        key = self._value(entry.fields_by_name["key"], above)
        value = self._value(entry.fields_by_name["value"], above)
        convert = value.convert

        def pairs(mapping: Any) -> dict[Any, Any]:
            # Sorted: the order of a map on the wire means nothing, and its iteration is not stable.
            return {
                name: convert(mapping[name]) if convert else mapping[name]
                for name in sorted(mapping)
            }

        return pa.field(item.name, pa.map_(key.type, schema_field("value", value.type))), pairs

    def _value(self, item: FieldDescriptor, above: tuple[str, ...]) -> ValueType:
        if item.message_type is not None:
            return self._message(item, item.message_type, above)
        if item.enum_type is not None:
            numbers = item.enum_type.values_by_number.items()
            names = {number: member.name for number, member in numbers}
            # A newer producer may have numbers that the registered type does not name.
            return ValueType(pa.string(), lambda number: names.get(number, str(number)))
        if item.type == FieldDescriptor.TYPE_BYTES:
            return ValueType(pa.binary())
        return ValueType(SCALARS.get(item.cpp_type, pa.string()))

    def _message(
        self, item: FieldDescriptor, kind: Descriptor, above: tuple[str, ...]
    ) -> ValueType:
        if self.native and (known := _well_known(item, kind)) is not None:
            return known
        if kind.full_name in above:
            # A message within itself has no end as columns.
            return JSON_TEXT if self.native else ValueType(pa.string(), _whole_text, text=True)
        nested, getters = self.plan(kind, above)
        return ValueType(nested, dictionary(getters))


def dictionary(getters: Collection[Getter]) -> Convert:
    """Return what makes a dictionary of a message."""

    def convert(message: Message) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, presence, change in getters:
            if presence and not message.HasField(name):
                fields[name] = None
            else:
                value = getattr(message, name)
                fields[name] = change(value) if change else value
        return fields

    return convert


def _each(convert: Convert | None) -> Convert:
    if convert is None:
        return list
    change = convert
    return lambda values: [change(value) for value in values]


def _stable(value: Any) -> Any:
    """Return JSON with sorted names: the order in which a map gives its entries is not stable.

    Numbers of a Struct are doubles, so those without a fraction are written as integers.
    """
    if isinstance(value, dict):
        return {name: _stable(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    if isinstance(value, float) and value.is_integer() and 0 < abs(value) <= EXACT:
        return int(value)
    return 0 if isinstance(value, float) and str(value) == "0.0" else value


def _whole_text(message: Message) -> str:
    try:
        return dumps(_stable(json_format.MessageToDict(message, preserving_proto_field_name=True)))
    except (json_format.Error, ValueError, TypeError) as error:
        raise Undecodable(f"has no JSON: {brief(error)}") from error


# Not marked as mixed: a table would look into the text for columns, and refuse other values.
JSON_TEXT = ValueType(pa.string(), _whole_text)


def _well_known(item: FieldDescriptor, kind: Descriptor) -> ValueType | None:
    if kind.full_name == "confluent.type.Decimal":
        return _decimal(item)
    if kind.full_name in _WRAPPERS:
        inner: Any = kind.fields_by_name["value"]
        binary = inner.type == FieldDescriptor.TYPE_BYTES
        scalar = pa.binary() if binary else SCALARS.get(inner.cpp_type, pa.string())
        return ValueType(scalar, lambda wrapper: wrapper.value)
    return _WELL_KNOWN.get(kind.full_name)


def _instant(moment: Any) -> int:
    if not FIRST_SECOND <= moment.seconds <= LAST_SECOND or not 0 <= moment.nanos < 10**9:
        raise Undecodable(f"a Timestamp of {moment.seconds} s and {moment.nanos} ns is no time")
    return int(moment.seconds * 1_000_000 + moment.nanos // 1000)


def _day(value: Any) -> date:
    try:
        return date(value.year, value.month, value.day)
    except ValueError as error:  # such as a month without a day, which the type has, too
        text = f"{value.year}-{value.month}-{value.day}"
        raise Undecodable(f"a Date of {text} is no day: {brief(error)}") from error


def _time_of_day(value: Any) -> int:
    seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
    return int(seconds * 1_000_000 + value.nanos // 1000)


_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_WELL_KNOWN: Mapping[str, ValueType] = {
    "google.protobuf.Timestamp": ValueType(pa.timestamp("us", "UTC"), _instant),
    "google.protobuf.Struct": JSON_TEXT,
    "google.protobuf.Value": JSON_TEXT,
    "google.protobuf.ListValue": JSON_TEXT,
    "google.type.Date": ValueType(pa.date32(), _day),
    "google.type.TimeOfDay": ValueType(pa.time64("us"), _time_of_day),
}


def _decimal(item: FieldDescriptor) -> ValueType:
    """Return the type of a decimal: of a fixed scale only where the field's options say it."""
    parameters = _confluent_parameters(item)
    digits = (parameters.get("precision", str(MOST_DIGITS)), parameters.get("scale", ""))
    if all(text.isascii() and text.isdigit() for text in digits):
        precision, scale = map(int, digits)
        if 0 < precision <= MOST_DIGITS and scale <= precision:
            return ValueType(pa.decimal128(precision, scale), _exact)
    return ValueType(pa.string(), lambda message: format(_exact(message), "f"))


def _exact(message: Any) -> Any:
    if abs(message.scale) > 1000:  # some bytes could claim billions of digits
        raise Undecodable(f"a decimal of scale {message.scale}")
    return decimal_of(int.from_bytes(message.value, "big", signed=True), message.scale)


def _confluent_parameters(item: FieldDescriptor) -> Mapping[str, str]:
    options = _options_class().FromString(item.GetOptions().SerializeToString())
    return dict(options.meta.params)


@cache
def _options_class() -> Any:
    """Return the class of field options that have nothing but Confluent's extension."""
    file = descriptor_pb2.FileDescriptorProto(
        name="secor/field_options.proto", package="secor", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    options, meta = file.message_type.add(name="Options"), file.message_type.add(name="Meta")
    optional, message = kinds.LABEL_OPTIONAL, kinds.TYPE_MESSAGE
    options.field.add(
        name="meta", number=CONFLUENT_META, label=optional, type=message, type_name=".secor.Meta"
    )
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=optional, type=kinds.TYPE_STRING)
    meta.field.add(
        name="params",
        number=2,
        label=kinds.LABEL_REPEATED,
        type=message,
        type_name=".secor.Meta.ParamsEntry",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("secor.Options"))
