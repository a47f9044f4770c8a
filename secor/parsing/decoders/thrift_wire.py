"""Thrift's binary and compact protocols, read without a definition.

Sources: https://github.com/apache/thrift/blob/master/doc/specs/thrift-binary-protocol.md and
thrift-compact-protocol.md.  Depth and every size are checked against what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

from secor.parsing.decoders.columns import MAX_DEPTH, Undecodable

STOP, BOOL, BYTE, DOUBLE, I16, I32, I64 = 0, 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST, UUID = 11, 12, 13, 14, 15, 16

COMPACT = {
    1: BOOL,
    2: BOOL,
    3: BYTE,
    4: I16,
    5: I32,
    6: I64,
    7: DOUBLE,
    8: STRING,
    9: LIST,
    10: SET,
    11: MAP,
    12: STRUCT,
    13: UUID,
}
"""The compact protocol's numbers of types to the binary protocol's."""

FIXED: Mapping[int, str] = {BYTE: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}

Fields = dict[str, Any]


class Reader(Protocol):
    """One message's bytes and where reading has come to."""

    position: int

    def __init__(self, raw: bytes) -> None: ...

    def struct(self, levels: int) -> Fields:
        """Read fields up to the stop, by their ids in decimal."""


class _Bytes:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.raw):
            raise Undecodable(f"truncated: {size} bytes wanted at byte {self.position}")
        taken = self.raw[self.position : end]
        self.position = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def count(self, size: int) -> int:
        """Check a container's size: each element takes at least one byte."""
        if not 0 <= size <= len(self.raw) - self.position:
            raise Undecodable(f"a container of {size} elements at byte {self.position}")
        return size

    def text(self, size: int) -> str | bytes:
        raw = self.take(size)
        try:
            return raw.decode()
        except UnicodeDecodeError:  # binary and string are alike on the wire
            return raw

    def unknown(self, kind: int) -> Undecodable:
        return Undecodable(f"unknown type {kind} at byte {self.position - 1}")


def _deeper(levels: int) -> int:
    if not levels:
        raise Undecodable(f"nested deeper than {MAX_DEPTH}")
    return levels - 1


def _put(fields: Fields, number: int, value: Any) -> None:
    name = str(number)
    if name in fields:
        raise Undecodable(f"field {name} twice in one struct")
    fields[name] = value


class BinaryReader(_Bytes):
    """Big-endian numbers of fixed width."""

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def struct(self, levels: int) -> Fields:
        """See ``Reader``."""
        levels = _deeper(levels)
        fields: Fields = {}
        while kind := self.byte():
            number = self._number(">h")
            _put(fields, number, self.value(kind, levels))
        return fields

    def value(self, kind: int, levels: int) -> Any:
        """Read one value of a type."""
        form = FIXED.get(kind)
        if form is not None:
            return self._number(form)
        if kind == BOOL:
            return self.byte() != 0
        if kind == STRING:
            return self.text(self._number(">i"))
        if kind == STRUCT:
            return self.struct(levels)
        if kind in (LIST, SET):
            element = self.byte()
            size = self.count(self._number(">i"))
            levels = _deeper(levels)
            return [self.value(element, levels) for _ in range(size)]
        if kind == MAP:
            return self._map(_deeper(levels))
        if kind == UUID:
            return self.take(16).hex()
        raise self.unknown(kind)

    def _map(self, levels: int) -> list[Fields]:
        key, value = self.byte(), self.byte()
        size = self.count(self._number(">i"))
        return [
            {"key": self.value(key, levels), "value": self.value(value, levels)}
            for _ in range(size)
        ]


class CompactReader(_Bytes):
    """Varints, zigzag, field ids as differences, booleans within the field's header."""

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            # Python's integers have no limit of their own: damaged bytes would make very long ones.
            if shift > 63:
                raise Undecodable(f"a varint of more than 10 bytes at byte {self.position}")

    def _zigzag(self, bits: int) -> int:
        raw = self._varint()
        value = (raw >> 1) ^ -(raw & 1)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise Undecodable(f"an integer beyond {bits} bits at byte {self.position}")
        return value

    def struct(self, levels: int) -> Fields:
        """See ``Reader``."""
        levels = _deeper(levels)
        fields: Fields = {}
        number = 0
        while head := self.byte():
            delta = head >> 4
            number = number + delta if delta else self._zigzag(16)
            kind = head & 0x0F
            # A boolean field has its value in place of its type: 1 is true, 2 false, and no byte
            # follows.
            value = kind == 1 if kind in (1, 2) else self.value(self._kind(kind), levels)
            _put(fields, number, value)
        return fields

    def _kind(self, number: int) -> int:
        kind = COMPACT.get(number)
        if kind is None:
            raise self.unknown(number)
        return kind

    def value(self, kind: int, levels: int) -> Any:
        """Read one value of a type."""
        if kind in (I16, I32, I64):
            return self._zigzag({I16: 16, I32: 32, I64: 64}[kind])
        if kind == STRING:
            return self.text(self._varint())
        if kind == STRUCT:
            return self.struct(levels)
        if kind in (LIST, SET):
            return self._list(_deeper(levels))
        if kind == MAP:
            return self._map(_deeper(levels))
        return self._small(kind)

    def _small(self, kind: int) -> Any:
        if kind == BOOL:
            # In lists and maps false is 0 by the specification, and 2 as Java's library writes it.
            return self.byte() == 1
        if kind == BYTE:
            return struct.unpack(">b", self.take(1))[0]
        if kind == DOUBLE:
            # Little-endian, unlike the binary protocol's.
            return struct.unpack("<d", self.take(8))[0]
        return self.take(16).hex()

    def _list(self, levels: int) -> list[Any]:
        head = self.byte()
        size = head >> 4
        size = self.count(self._varint() if size == 15 else size)
        kind = self._kind(head & 0x0F)
        return [self.value(kind, levels) for _ in range(size)]

    def _map(self, levels: int) -> list[Fields]:
        size = self.count(self._varint())
        # An empty map has no byte with the types of its keys and values.
        if not size:
            return []
        head = self.byte()
        key, value = self._kind(head >> 4), self._kind(head & 0x0F)
        return [
            {"key": self.value(key, levels), "value": self.value(value, levels)}
            for _ in range(size)
        ]
