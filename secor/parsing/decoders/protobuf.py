"""The Protobuf decoder: messages of one type, binary or JSON, one a Kafka message."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.runtime_version import VersionError

from secor.core.errors import ConfigurationError
from secor.core.variant_json import MIXED, dumps
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_declared,
    rowwise,
)
from secor.parsing.decoders.json_text import depth
from secor.parsing.rows import Decoded
from secor.parsing.user_classes import import_class

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


class ProtobufDecoder:
    """Messages by a descriptor set (``protoc --include_imports -o``) or a generated class.

    ``encoding`` is ``binary`` or ``json`` (the canonical JSON mapping; unknown names are
    bad); with ``framing="confluent"`` the header of the schema registry's wire format is
    skipped, and the configured type counts.  Fields have their names of the .proto file;
    unset fields with presence are null, others have their default; enums are their symbols
    (digits where unknown); messages within themselves are JSON text (metadata ``MIXED``);
    well-known types have no special place: a Timestamp is ``seconds`` and ``nanos``.  Bad:
    what the parser refuses.
    """

    def __init__(
        self,
        message: str | None = None,
        descriptor_set: str | Path | None = None,
        message_class: str | None = None,
        encoding: str = "binary",
        framing: str = "none",
    ) -> None:
        if encoding not in ("binary", "json"):
            raise ConfigurationError(f"protobuf encoding {encoding!r}: must be 'binary' or 'json'")
        if framing not in ("none", "confluent"):
            raise ConfigurationError(f"protobuf framing {framing!r}: must be 'none' or 'confluent'")
        if (message_class is None) == (message is None or descriptor_set is None):
            raise ConfigurationError(
                "protobuf: give either message and descriptor_set, or message_class"
            )
        if message_class is not None:
            self._class = _import_message(message_class)
        else:
            assert message is not None
            assert descriptor_set is not None
            self._class = _load_described(Path(descriptor_set), message)
        self._parse = self._binary if encoding == "binary" else self._json
        kind: Any = self._class.DESCRIPTOR
        self._framed = framing == "confluent"
        self._type, self._getters = _plan(kind, ())
        self.identity = f"protobuf-2:{encoding}:{framing}:{kind.full_name}:{_hash(kind)}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        getters = self._getters
        if paths is not None:
            wanted = {path.partition(".")[0] for path in paths}
            getters = [getter for getter in getters if getter[0] in wanted]
        plain = _dictionary(getters)
        objects, bad = rowwise(messages, lambda raw: plain(self._message(raw)))
        return build_declared(objects, self._type, bad, paths)

    def _message(self, raw: bytes) -> Message:
        return self._parse(_strip_frame(raw) if self._framed else raw)

    def _binary(self, raw: bytes) -> Message:
        try:
            return self._class.FromString(raw)
        except DecodeError as error:
            raise Undecodable(f"invalid protobuf: {brief(error)}") from error

    def _json(self, raw: bytes) -> Message:
        if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and depth(raw) > MAX_DEPTH:
            raise Undecodable(f"nested deeper than {MAX_DEPTH}")
        try:
            return json_format.Parse(raw.decode(), self._class(), max_recursion_depth=MAX_DEPTH)
        except UnicodeDecodeError as error:
            raise Undecodable(f"invalid UTF-8 at byte {error.start}") from error
        except (json_format.Error, ValueError, TypeError, OverflowError, AttributeError) as error:
            raise Undecodable(f"invalid protobuf JSON: {brief(error)}") from error


def _load_described(path: Path, name: str) -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
        for file in files.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        raise ConfigurationError(f"protobuf: no message {name!r} in {path}") from error
    except (OSError, DecodeError, TypeError) as error:
        raise ConfigurationError(f"protobuf descriptor set {path}: {error}") from error


def _import_message(place: str) -> type[Message]:
    try:
        message_class = import_class("protobuf", place)
    except VersionError as error:
        raise ConfigurationError(f"protobuf class {place!r}: {error}") from error
    if not (isinstance(message_class, type) and issubclass(message_class, Message)):
        raise ConfigurationError(f"protobuf class {place!r} is no generated message")
    return message_class


def _hash(kind: Descriptor) -> str:
    """Hash of the file that defines the message and all that it imports."""
    seen: dict[str, bytes] = {}

    def visit(file: Any) -> None:
        if file.name not in seen:
            seen[file.name] = file.serialized_pb
            for other in file.dependencies:
                visit(other)

    visit(kind.file)
    return hashlib.sha256(b"".join(seen[name] for name in sorted(seen))).hexdigest()[:16]


def _strip_frame(raw: bytes) -> bytes:
    """Return the message behind a zero byte, the schema's id and the indexes of its type.

    Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
    The indexes are zigzag varints, their count first; a single 0 stands for the list [0].
    """
    if raw[0] != 0:
        raise Undecodable(f"magic byte {raw[0]}, not 0")
    count, at = _varint(raw, 5)
    if count % 2:
        raise Undecodable("a negative number of message indexes")
    for _ in range(min(count // 2, len(raw))):
        _, at = _varint(raw, at)
    return raw[at:]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(raw[at : at + 10]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, at + position + 1
    raise Undecodable(f"truncated header at byte {min(at, len(raw))}")


def _plan(kind: Descriptor, above: tuple[str, ...]) -> tuple[pa.DataType, list[Getter]]:
    """Return a message type's Arrow struct and where its values come from."""
    within = (*above, kind.full_name)
    fields, getters = [], []
    for item in kind.fields:
        field, convert = _field(item, within)
        fields.append(field)
        getters.append((item.name, item.has_presence, convert))
    return pa.struct(fields), getters


def _dictionary(getters: list[Getter]) -> Convert:
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


def _field(item: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.Field, Convert | None]:
    entry = item.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map(item, above)
    kind, convert, text = _value(item, above)
    metadata = MIXED if text else None
    if not item.is_repeated:
        return pa.field(item.name, kind, metadata=metadata), convert
    listed = pa.list_(pa.field("item", kind, metadata=metadata))
    return pa.field(item.name, listed), _each(convert)


def _each(convert: Convert | None) -> Convert:
    if convert is None:
        return list
    change = convert
    return lambda values: [change(value) for value in values]


def _map(item: FieldDescriptor, above: tuple[str, ...]) -> tuple[pa.Field, Convert]:
    entry: Any = item.message_type
    key = _value(entry.fields_by_name["key"], above)[0]
    kind, convert, text = _value(entry.fields_by_name["value"], above)
    value = pa.field("value", kind, metadata=MIXED if text else None)

    def pairs(mapping: Any) -> dict[Any, Any]:
        # Sorted: the order of a map on the wire means nothing, and its iteration is not stable.
        return {
            name: convert(mapping[name]) if convert else mapping[name] for name in sorted(mapping)
        }

    return pa.field(item.name, pa.map_(key, value)), pairs


def _value(
    item: FieldDescriptor, above: tuple[str, ...]
) -> tuple[pa.DataType, Convert | None, bool]:
    """Return type, conversion and whether it is JSON text."""
    if item.message_type is not None:
        return _message(item.message_type, above)
    if item.enum_type is not None:
        names = {number: member.name for number, member in item.enum_type.values_by_number.items()}
        return pa.string(), lambda number: names.get(number, str(number)), False
    if item.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary(), None, False
    return SCALARS.get(item.cpp_type, pa.string()), None, False


def _message(kind: Descriptor, above: tuple[str, ...]) -> tuple[pa.DataType, Convert, bool]:
    if kind.full_name in above:
        return pa.string(), _whole_text, True
    nested, getters = _plan(kind, above)
    return nested, _dictionary(getters), False


def _whole_text(message: Message) -> str:
    return dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))
