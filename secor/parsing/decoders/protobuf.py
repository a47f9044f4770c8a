"""The Protobuf decoder: messages of one type, binary or JSON, one a Kafka message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.runtime_version import VersionError

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.by_registry import RegistryRows, RowReader, SchemaReaders
from secor.parsing.decoders.columns import (
    MAX_DEPTH,
    Undecodable,
    brief,
    build_declared,
    rowwise,
)
from secor.parsing.decoders.frames import unframed
from secor.parsing.decoders.framing import ConfluentFraming, MessageType, framing_of
from secor.parsing.decoders.json_text import depth
from secor.parsing.decoders.protobuf_files import check_compiler, message_class
from secor.parsing.decoders.protobuf_types import Convert, ProtobufPlanner, dictionary
from secor.parsing.registry import RegisteredSchema, SchemaRegistry
from secor.parsing.rows import Decoded, Rows
from secor.parsing.user_classes import import_class


class RegistryProtobufDecoder:
    """Messages framed by serialisers of a registry: each of the type that its frame names.

    Fields are as those of ``ProtobufDecoder``, and well-known types are columns of their own:
    a Timestamp is a timestamp, wrappers are nullable scalars, Struct, Value and ListValue are
    JSON text, and Confluent's Decimal is a decimal where its field's options say the scale.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        framing: str | None = None,
        use_id: str | None = None,
    ) -> None:
        check_compiler()
        readers: SchemaReaders[RowReader] = SchemaReaders(registry, "PROTOBUF", _MessageReader)
        frames = framing_of("protobuf", registry, framing, indexed=True, use_id=use_id)
        frames = frames or ConfluentFraming(indexed=True)
        self._rows = RegistryRows(readers, frames)
        self.identity = f"protobuf-registry-2:{frames.name}:{registry.url}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``; the messages' types must go together."""
        return self._rows.decode(messages, paths)

    def decode_apart(
        self, messages: pa.RecordBatch, paths: tuple[str, ...] | None
    ) -> Sequence[tuple[Rows, Decoded]]:
        """See ``rows.DividingDecoder``: by what the messages' types are like."""
        return self._rows.decode_apart(messages, paths)


class _MessageReader:
    """Reads the messages of one type of a registered schema."""

    def __init__(self, registered: RegisteredSchema, message_type: MessageType) -> None:
        self._class = message_class(registered, message_type)
        kind: Any = self._class.DESCRIPTOR
        self.type, self._getters = ProtobufPlanner(native=True).plan(kind)
        self._readers: dict[frozenset[str] | None, Convert] = {None: dictionary(self._getters)}

    def read(self, payload: bytes, wanted: frozenset[str] | None) -> Any:
        """See ``RowReader``."""
        read = self._readers.get(wanted)
        if read is None:
            assert wanted is not None
            read = dictionary([getter for getter in self._getters if getter[0] in wanted])
            self._readers[wanted] = read
        return read(_parse_binary(self._class, payload))


class ProtobufDecoder:
    """Messages by a descriptor set (``protoc --include_imports -o``) or a generated class.

    ``encoding`` is ``binary`` or ``json`` (the canonical JSON mapping; unknown names are
    bad); with ``framing="confluent"`` the frame of a schema registry is skipped, and the
    configured type counts.  Fields have their names of the .proto file;
    unset fields with presence are null, others have their default; enums are their symbols
    (digits where unknown); messages within themselves are JSON text (metadata ``MIXED``);
    well-known types have no special place: a Timestamp is ``seconds`` and ``nanos``.  An empty
    payload is a message without any field.  Bad: what the parser refuses.
    """

    def __init__(
        self,
        message: str | None = None,
        descriptor_set: str | Path | None = None,
        message_class: str | None = None,
        encoding: str = "binary",
        framing: str | None = None,
        use_id: str | None = None,
    ) -> None:
        if encoding not in ("binary", "json"):
            raise ConfigurationError(f"protobuf encoding {encoding!r}: must be 'binary' or 'json'")
        self._framing = framing_of("protobuf", None, framing, indexed=True, use_id=use_id)
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
        self._binary = encoding == "binary"
        kind: Any = self._class.DESCRIPTOR
        self._type, self._getters = ProtobufPlanner().plan(kind)
        self.identity = f"protobuf-3:{encoding}:{framing or 'none'}:{kind.full_name}:{_hash(kind)}"

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        getters = self._getters
        if paths is not None:
            wanted = {path.partition(".")[0] for path in paths}
            getters = [getter for getter in getters if getter[0] in wanted]
        framed_badly: Mapping[int, str] = {}
        if self._framing is not None:
            messages, framed_badly = unframed(messages, self._framing)
        plain = dictionary(getters)
        read = _parse_binary if self._binary else _parse_json
        objects, bad = rowwise(
            messages, lambda raw: plain(read(self._class, raw)), empty=self._binary
        )
        bad.update(framed_badly)
        return build_declared(objects, self._type, bad, paths)


def _parse_binary(kind: type[Message], raw: bytes) -> Message:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise Undecodable(f"invalid protobuf: {brief(error)}") from error


def _parse_json(kind: type[Message], raw: bytes) -> Message:
    # Before the library, whose recursion may end the process; the cheap count spares most messages
    # the walk.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and depth(raw) > MAX_DEPTH:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}")
    try:
        return json_format.Parse(raw.decode(), kind(), max_recursion_depth=MAX_DEPTH)
    except UnicodeDecodeError as error:
        raise Undecodable(f"invalid UTF-8 at byte {error.start}") from error
    except (json_format.Error, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise Undecodable(f"invalid protobuf JSON: {brief(error)}") from error


def _load_described(path: Path, name: str) -> type[Message]:
    # A pool of its own: in the process's default pool two files of one name with other contents
    # exclude each other.
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
