"""Frames that serialisers of schema registries put around messages.

A frame names the schema, in front of the payload or in a record header; Protobuf's also names
the message's type in its file.  Headers come first, as for the makers' own deserialisers.

Sources: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/,
https://github.com/awslabs/aws-glue-schema-registry and
https://github.com/Apicurio/apicurio-registry (``serdes``).
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.columns import EMPTY_PAYLOAD, Undecodable
from secor.parsing.registry import ApicurioId, SchemaId

MOST_DECOMPRESSED, MOST_TIMES = 256 << 20, 100
"""Bytes of a decompressed payload, and how many times the compressed one (and a kibibyte) it may
have: zlib can make a thousand times as many, and a chunk of such messages would take all memory."""

MOST_INDEXES = 64
"""Levels of nested types in a frame; a real file has a few."""

MessageType = tuple[int, ...] | str | int
"""A type in a Protobuf file: by the indexes of its levels (Confluent), by its short name
(Apicurio), or by its position among the full names of all types (Glue)."""


@dataclass(frozen=True, slots=True)
class SchemaName:
    """The schema that a frame names, and which of its types."""

    schema_id: SchemaId
    message_type: MessageType = ()

    def __str__(self) -> str:
        kinds = {int: "id ", str: "GUID "}
        return f"schema {kinds.get(type(self.schema_id), '')}{self.schema_id}"


class Frame(NamedTuple):
    """One frame: its schema, its size in bytes, and the payload if that was compressed."""

    schema: SchemaName
    size: int
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class RegistryFraming(ABC):
    """The frames of one maker's serialisers; ``indexed``: they name a Protobuf message's type."""

    indexed: bool = False

    @property
    def name(self) -> str:
        """The framing's name in the configuration."""
        [name] = (name for name, kind in FRAMINGS.items() if isinstance(self, kind))
        return name

    def headers(self, column: str) -> Sequence[str]:
        """Return the record headers that may name the schema of ``value`` or ``key``."""
        return ()

    @abstractmethod
    def usual_size(self, value: bytes) -> int:
        """Return the size of most frames, if ``value`` begins with one of them."""

    @abstractmethod
    def parse(self, raw: bytes) -> Frame:
        """Return the frame in front of a value; Undecodable if there is none."""

    def parse_header(self, header: str, content: bytes) -> SchemaName:
        """Return the schema that a record header names."""
        raise NotImplementedError(header)

    @property
    def has_rest(self) -> bool:
        """Return whether there is something in front of values though a header names the schema."""
        return False

    def parse_rest(self, schema: SchemaName, raw: bytes) -> Frame:
        """Return the frame of a value with its schema in a header."""
        return Frame(schema, 0)


@dataclass(frozen=True, slots=True)
class ConfluentFraming(RegistryFraming):
    """A zero and an id of 4 bytes, or a one and a GUID of 16, alike in headers.

    ``indexed``: behind that Protobuf's indexes, zigzag varints, their count first; a zero is
    short for the list of one zero.
    """

    def headers(self, column: str) -> Sequence[str]:
        """See ``RegistryFraming``."""
        return (f"__{column}_schema_id",)

    def usual_size(self, value: bytes) -> int:
        """See ``RegistryFraming``."""
        return 5 + self.indexed

    def parse(self, raw: bytes) -> Frame:
        """See ``RegistryFraming``."""
        schema_id: SchemaId
        magic = _magic(raw, 0, 1)
        if magic == 0:
            [schema_id], end = _unpack(">xI", raw, "magic and schema id")
        else:
            [guid], end = _unpack("x16s", raw, "magic and GUID")
            schema_id = str(UUID(bytes=guid))
        if not self.indexed:
            return Frame(SchemaName(schema_id), end)
        indexes, end = _read_indexes(raw, end)
        return Frame(SchemaName(schema_id, indexes), end)

    def parse_header(self, header: str, content: bytes) -> SchemaName:
        """See ``RegistryFraming``."""
        return self.parse(content).schema


@dataclass(frozen=True, slots=True)
class ApicurioFraming(RegistryFraming):
    """A zero and an id of 4 bytes, or of 8 that begin with zeros, as version 2 wrote them.

    ``use_id`` is the serialiser's ``apicurio.registry.use-id``, None for the default of the
    version that writes as many bytes.  ``indexed``: behind that Protobuf's reference, a small
    message of its own with the short name of the type.
    """

    use_id: str | None = None

    def headers(self, column: str) -> Sequence[str]:
        """See ``RegistryFraming``."""
        return (f"apicurio.{column}.globalId", f"apicurio.{column}.contentId")

    def usual_size(self, value: bytes) -> int:
        """See ``RegistryFraming``."""
        return 9 if value[1:5] == bytes(4) else 5

    def parse(self, raw: bytes) -> Frame:
        """See ``RegistryFraming``."""
        _magic(raw, 0)
        long = self.usual_size(raw) == 9
        # Four zeros after the magic byte are the upper half of an id of 8 bytes: ids count from 1,
        # so one of 4 bytes is never zero.
        [number], end = _unpack(">xQ" if long else ">xI", raw, "magic and schema id")
        use_id = self.use_id or ("globalId" if long else "contentId")
        schema, size, _ = self.parse_rest(SchemaName(ApicurioId(use_id, number)), raw[end:])
        return Frame(schema, end + size)

    def parse_header(self, header: str, content: bytes) -> SchemaName:
        """See ``RegistryFraming``."""
        if len(content) != 8:
            raise Undecodable(f"{len(content)} bytes, not an id of 8")
        return SchemaName(ApicurioId(header.rpartition(".")[2], int.from_bytes(content, "big")))

    @property
    def has_rest(self) -> bool:
        """See ``RegistryFraming``."""
        return self.indexed

    def parse_rest(self, schema: SchemaName, raw: bytes) -> Frame:
        """See ``RegistryFraming``."""
        if not self.indexed:
            return Frame(schema, 0)
        size, start = _varint(raw, 0)
        tag, reference = raw[start : start + 1], raw[start + 2 : start + size]
        if tag != b"\n" or size < 3 or len(reference) != size - 2 or raw[start + 1] != size - 2:
            raise Undecodable("no reference to the message's type in front of it")
        try:
            return Frame(SchemaName(schema.schema_id, reference.decode()), start + size)
        except UnicodeDecodeError as error:
            raise Undecodable("the reference to the message's type is not text") from error


@dataclass(frozen=True, slots=True)
class GlueFraming(RegistryFraming):
    """A three, a zero or, of payloads compressed by zlib, a five, and a GUID of 16 bytes.

    ``indexed``: the payload begins with the position of the message's type, a varint.
    """

    def usual_size(self, value: bytes) -> int:
        """See ``RegistryFraming``."""
        return 18 + self.indexed

    def parse(self, raw: bytes) -> Frame:
        """See ``RegistryFraming``."""
        _magic(raw, 3)
        [compression, guid], end = _unpack("xB16s", raw, "magic, compression and GUID")
        if compression not in (0, 5):
            raise Undecodable(f"compression {compression}, not 0 or 5")
        payload = _decompress(raw[end:]) if compression else None
        schema_id = str(UUID(bytes=guid))
        if not self.indexed:
            return Frame(SchemaName(schema_id), end, payload)
        if payload is None:
            position, end = _varint(raw, end)
            return Frame(SchemaName(schema_id, position), end)
        position, start = _varint(payload, 0)
        return Frame(SchemaName(schema_id, position), end, payload[start:])


FRAMINGS: Mapping[str, type[RegistryFraming]] = {
    "confluent": ConfluentFraming,
    "apicurio": ApicurioFraming,
    "glue": GlueFraming,
}


def framing_of(
    decoder: str,
    registry: object,
    name: str | None,
    *,
    indexed: bool = False,
    use_id: str | None = None,
) -> RegistryFraming | None:
    """Return the framing of a decoder's messages, None of bare ones.

    Raises ``ConfigurationError``.
    """
    if name == "apicurio":
        return ApicurioFraming(indexed, use_id)
    if name is not None and name in FRAMINGS:
        return FRAMINGS[name](indexed)
    if name not in (None, "none"):
        known = ", ".join([*FRAMINGS, "none"])
        raise ConfigurationError(f"{decoder} framing {name!r}: must be one of {known}")
    if registry is None:
        return None
    if name == "none":
        raise ConfigurationError(f"{decoder}: messages have no framing, so no registry is needed")
    return ConfluentFraming(indexed)


def _magic(raw: bytes, *known: int) -> int:
    if not raw:
        raise Undecodable(EMPTY_PAYLOAD)
    if raw[0] not in known:
        raise Undecodable(f"magic byte {raw[0]}, not {' or '.join(map(str, known))}")
    return raw[0]


def _unpack(layout: str, raw: bytes, contents: str) -> tuple[tuple[Any, ...], int]:
    size = struct.calcsize(layout)
    if len(raw) < size:
        raise Undecodable(f"{len(raw)} bytes: shorter than {contents}")
    return struct.unpack_from(layout, raw), size


def _decompress(raw: bytes) -> bytes:
    most = min(MOST_DECOMPRESSED, 1024 + MOST_TIMES * len(raw))
    # With a bound, unlike zlib.decompress, which makes all of a payload before anyone sees its
    # size.
    reader = zlib.decompressobj()
    try:
        payload = reader.decompress(raw, most)
    except zlib.error as error:
        raise Undecodable(f"invalid zlib: {error}") from error
    # Whatever is behind the first stream would be dropped without a word.
    if not reader.eof or reader.unused_data:
        raise Undecodable(f"zlib: truncated, longer than {most} bytes, or followed by others")
    return payload


def _read_indexes(raw: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes and where they end."""
    count, end = _zigzag(raw, start)
    if count == 0:
        return (0,), end
    if not 0 < count <= MOST_INDEXES:
        raise Undecodable(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, end = _zigzag(raw, end)
        indexes.append(index)
    return tuple(indexes), end


def _zigzag(raw: bytes, start: int) -> tuple[int, int]:
    value, end = _varint(raw, start)
    return (value >> 1) ^ -(value & 1), end


def _varint(raw: bytes, start: int) -> tuple[int, int]:
    value = 0
    # 64 bits take ten bytes of seven at most; without the bound a damaged message makes an integer
    # as long as its bytes have the highest bit.
    for position, byte in enumerate(raw[start : start + 10]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, start + position + 1
    raise Undecodable(f"truncated header at byte {min(start, len(raw))}")
