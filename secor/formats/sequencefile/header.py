"""The header of a SequenceFile: version, classes, codec, metadata, sync; Hadoop's vints.

Source: ``org.apache.hadoop.io.SequenceFile`` (version 6) and ``WritableUtils``.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

MAGIC = b"SEQ"
VERSION = 6
BYTES_WRITABLE = "org.apache.hadoop.io.BytesWritable"
LONG_WRITABLE = "org.apache.hadoop.io.LongWritable"

SYNC_SIZE = 16
ESCAPE = b"\xff\xff\xff\xff"
"""In the place of a record's length: the sync marker follows."""

LARGEST = 1 << 30
"""Bytes of the largest record, and of the largest buffer of a block, that is read or written."""

_LONGEST_NAME = 4096
_MOST_METADATA = 1024
_INT = struct.Struct(">i")


class NotEnough(Exception):
    """The bytes end before the value does."""


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The header of a file; ``codec`` is a Java class name, None when not compressed."""

    key_class: str
    value_class: str
    codec: str | None
    block: bool
    sync: bytes

    def encode(self) -> bytes:
        """Return the bytes, without metadata pairs."""
        parts = [MAGIC, bytes([VERSION]), _text(self.key_class), _text(self.value_class)]
        parts.append(bytes([self.codec is not None, self.block]))
        if self.codec is not None:
            parts.append(_text(self.codec))
        return b"".join([*parts, _INT.pack(0), self.sync])


def sync_of(seed: bytes) -> bytes:
    """Return the sync marker of the object that ``seed`` names."""
    return hashlib.sha256(b"sequencefile sync\0" + seed).digest()[:SYNC_SIZE]


def encode_vint(value: int) -> bytes:
    """Encode a non-negative integer as ``WritableUtils.writeVInt`` does."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([0x90 - size]) + value.to_bytes(size, "big")


def decode_vint(data: bytes, position: int) -> tuple[int, int]:
    """Return a non-negative vint at ``position`` and the place after it.

    Raises ``NotEnough``, and ``ValueError`` for a negative or too long one.
    """
    if position >= len(data):
        raise NotEnough
    first = data[position]
    if first <= 127:
        return first, position + 1
    size = 0x90 - first
    if not 1 <= size <= 4:
        raise ValueError(f"0x{first:02x} begins no length")
    if position + 1 + size > len(data):
        raise NotEnough
    return int.from_bytes(data[position + 1 : position + 1 + size], "big"), position + 1 + size


def decode_header(data: bytes) -> tuple[FileHeader, int]:
    """Return the header at the start of ``data`` and its size in bytes.

    Raises ``NotEnough``, and ``ValueError`` for what is no SequenceFile of version 6.
    """
    _check_magic(data)
    key_class, position = _read_text(data, 4)
    value_class, position = _read_text(data, position)
    compressed, position = _read_boolean(data, position)
    block, position = _read_boolean(data, position)
    codec = None
    if compressed:
        codec, position = _read_text(data, position)
    elif block:
        raise ValueError("blocks without compression do not exist")
    pairs, position = _read_int(data, position)
    if not 0 <= pairs <= _MOST_METADATA:
        raise ValueError(f"{pairs} pairs of metadata")
    for _ in range(2 * pairs):
        _, position = _read_text(data, position)
    sync, position = _take(data, position, SYNC_SIZE)
    return FileHeader(key_class, value_class, codec, block, sync), position


def _check_magic(data: bytes) -> None:
    if data[:3] != MAGIC[: len(data)]:
        raise ValueError(f"it begins with {data[:3]!r}, not {MAGIC!r}")
    if len(data) < 4:
        raise NotEnough
    if data[3] != VERSION:
        raise ValueError(f"SequenceFile version {data[3]}; only {VERSION} is supported")


def _text(value: str) -> bytes:
    raw = value.encode()
    return encode_vint(len(raw)) + raw


def _take(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    if position + size > len(data):
        raise NotEnough
    return data[position : position + size], position + size


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = decode_vint(data, position)
    if size > _LONGEST_NAME:
        raise ValueError(f"a name of {size} bytes")
    raw, position = _take(data, position, size)
    return raw.decode(), position


def _read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    raw, position = _take(data, position, 1)
    if raw not in (b"\0", b"\1"):
        raise ValueError(f"{raw!r} is no boolean")
    return raw == b"\1", position


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    raw, position = _take(data, position, 4)
    return _INT.unpack(raw)[0], position
