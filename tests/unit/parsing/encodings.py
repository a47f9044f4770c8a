"""The same fields as real bytes of every encoding, and the settings that decode them."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import msgpack
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELDS: Mapping[str, type] = {
    "number": int,
    "country": str,
    "s": int,
    "ms": int,
    "us": int,
    "ns": int,
    "iso": str,
    "log": str,
    "java": str,
}
"""What every message has, in this order."""

AVRO = {
    "type": "record",
    "name": "Message",
    "fields": [
        {"name": name, "type": "long" if kind is int else "string"} for name, kind in FIELDS.items()
    ],
}
NAMES = {str(at): name for at, name in enumerate(FIELDS, 1)}
PATTERN = "\x1f".join(f"(?P<{name}>[^\x1f]*)" for name in FIELDS) + "\x1e"


@dataclass(frozen=True)
class Encoding:
    """``settings`` are ``[parser]``'s, made in a folder for files that they name."""

    encode: Callable[[Mapping[str, Any]], bytes]
    settings: Callable[[Path], Mapping[str, Any]]


def _avro(fields: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), dict(fields))
    return stream.getvalue()


def _avro_file(folder: Path) -> Mapping[str, Any]:
    path = folder / "message.avsc"
    path.write_text(json.dumps(AVRO))
    return {"decoder": "avro", "schema_file": str(path), "framing": "none"}


def _descriptors() -> descriptor_pb2.FileDescriptorSet:
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="every.proto", package="every", syntax="proto3")
    message = file.message_type.add(name="Message")
    proto = descriptor_pb2.FieldDescriptorProto
    for at, (name, kind) in enumerate(FIELDS.items(), 1):
        typed = proto.TYPE_INT64 if kind is int else proto.TYPE_STRING
        message.field.add(name=name, number=at, type=typed, label=proto.LABEL_OPTIONAL)
    return found


def _protobuf(fields: Mapping[str, Any]) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in _descriptors().file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("every.Message"))
    return made(**fields).SerializeToString()


def _descriptor_set(folder: Path) -> Mapping[str, Any]:
    path = folder / "every.desc"
    path.write_bytes(_descriptors().SerializeToString())
    return {"decoder": "protobuf", "message": "every.Message", "descriptor_set": str(path)}


def _thrift_binary(fields: Mapping[str, Any]) -> bytes:
    found = b""
    for at, (name, kind) in enumerate(FIELDS.items(), 1):
        if kind is int:
            found += struct.pack(">bhq", 10, at, fields[name])
        else:
            raw = fields[name].encode()
            found += struct.pack(">bhi", 11, at, len(raw)) + raw
    return found + b"\x00"


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _thrift_compact(fields: Mapping[str, Any]) -> bytes:
    found = b""
    for name, kind in FIELDS.items():
        if kind is int:
            found += b"\x16" + _varint(fields[name] << 1)  # zigzag of what is not negative
        else:
            raw = fields[name].encode()
            found += b"\x18" + _varint(len(raw)) + raw
    return found + b"\x00"


def _lines(fields: Mapping[str, Any]) -> bytes:
    return ("\x1f".join(str(fields[name]) for name in FIELDS) + "\x1e").encode()


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode()


_FRAMED = {"framing": "confluent"}

ENCODINGS: Mapping[str, Encoding] = {
    "json": Encoding(_json, lambda _: {"decoder": "json"}),
    "json-framed": Encoding(
        lambda fields: bytes(5) + _json(fields), lambda _: {"decoder": "json", **_FRAMED}
    ),
    "messagepack": Encoding(msgpack.packb, lambda _: {"decoder": "messagepack"}),
    "avro": Encoding(_avro, _avro_file),
    "protobuf": Encoding(_protobuf, _descriptor_set),
    "protobuf-framed": Encoding(
        lambda fields: bytes(6) + _protobuf(fields), lambda at: {**_descriptor_set(at), **_FRAMED}
    ),
    "protobuf-json": Encoding(_json, lambda at: {**_descriptor_set(at), "encoding": "json"}),
    "thrift": Encoding(_thrift_binary, lambda _: {"decoder": "thrift", "names": NAMES}),
    "thrift-compact": Encoding(
        _thrift_compact,
        lambda _: {"decoder": "thrift", "names": NAMES, "protocol": "compact"},
    ),
    "thrift-class": Encoding(
        _thrift_binary,
        lambda _: {
            "decoder": "thrift",
            "message_class": "tests.unit.parsing.thrift_for_tests:Every",
        },
    ),
    "regex": Encoding(_lines, lambda _: {"decoder": "regex", "pattern": PATTERN}),
}
"""A message without its last byte is none, in each of them."""
