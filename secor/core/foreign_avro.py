"""Avro that anybody may have written: schemas and files that claim more than they hold.

The Avro library reads arrays of values that take no bytes for as long as their count says,
unpacks a block whatever comes out of it, and its compiled reader follows a record within
itself until the process dies.  Here schemas are looked at first, and blocks are bounded.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, cast

import cramjam
import fastavro
import zstandard

LARGEST_BLOCK = 256 << 20
"""Bytes of a block, packed or not."""

_LARGEST_READ = 16 << 20
"""Bytes of a schema, of all metadata."""

_PIECE = 1 << 20
"""Bytes that are read at once: memory grows with the bytes that exist, not with a claimed size."""

_SYNC = 16
_LONGEST_VARINT = 10

_HEADER: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}},
        ],
    }
)

_PRIMITIVES = {"null": 0, "float": 4, "double": 8} | dict.fromkeys(
    ("boolean", "int", "long", "bytes", "string"), 1
)
"""The fewest bytes of a value of each primitive type."""


class SchemaLook:
    """The limits of a schema: the fewest bytes of a value, and whether a type contains itself.

    ``schema`` is one that the library has parsed, ``named`` holds types that it only names.
    Raises ``ValueError`` for an array of values that may take no bytes: a few bytes of data
    may claim any number of them.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any] | None = None) -> None:
        self.recursive = False
        self._named: dict[str, Any] = dict(named or {})
        self._open: set[str] = set()
        self._looked_at: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._items: list[Any] = []
        self._collect(schema)
        self.least_size = self._size(schema, frozenset())
        for items in self._items:
            if self._size(items, frozenset()) == 0:
                raise ValueError("an array of values without bytes may claim to have any number")

    def _collect(self, schema: Any) -> None:
        """Find all named types and all arrays."""
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
            return
        if isinstance(schema, str):
            self._follow(schema)
            return
        name = schema.get("name")
        if name is not None:
            self._named[name] = schema
            self._looked_at.add(name)
            self._open.add(name)
        kind = schema["type"]
        if kind == "array":
            self._items.append(schema["items"])
        if kind in ("record", "error"):
            for field in schema["fields"]:
                self._collect(field["type"])
        elif kind in ("array", "map"):
            self._collect(schema["items" if kind == "array" else "values"])
        elif not isinstance(kind, str) or kind not in ("enum", "fixed"):
            self._collect(kind)
        self._open.discard(name)

    def _follow(self, name: str) -> None:
        if name in self._open:
            self.recursive = True
        elif name in self._named and name not in self._looked_at:
            self._looked_at.add(name)
            self._collect(self._named[name])

    def _size(self, schema: Any, within: frozenset[str]) -> int:
        """Return the fewest bytes of a value; 0 for a type that is within itself."""
        if isinstance(schema, list):
            return 1 + min((self._size(branch, within) for branch in schema), default=0)
        if isinstance(schema, str):
            return self._size_of_name(schema, within)
        match schema["type"]:
            case "record" | "error":
                inner = within | {schema["name"]}
                return sum(self._size(field["type"], inner) for field in schema["fields"])
            case "fixed":
                return int(schema["size"])
            case "array" | "map" | "enum":
                return 1
            case kind:
                return self._size(kind, within)

    def _size_of_name(self, name: str, within: frozenset[str]) -> int:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if name in within or name not in self._named:
            return 0
        if name not in self._sizes:
            self._sizes[name] = self._size(self._named[name], within)
        return self._sizes[name]


UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zlib.error,
    cramjam.DecompressionError,
    zstandard.ZstdError,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
)
"""What comes of bytes that are no whole Avro file."""


def rows_of_file(file: BinaryIO) -> Iterator[Any]:
    """Give the rows of an Avro file.

    Raises ``UNREADABLE``; ``ValueError`` for what is claimed and not there.
    """
    for _, block in blocks_of_file(file, LARGEST_BLOCK):
        yield from block


def blocks_of_file(
    file: BinaryIO, largest: int = LARGEST_BLOCK
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Give the blocks of an Avro file: the file's schema, and the rows.

    ``largest`` bounds the bytes of a block.  Raises as ``rows_of_file``.
    """
    _, blocks = open_file(file, largest)
    yield from blocks


def open_file(
    file: BinaryIO, largest: int = LARGEST_BLOCK, *, logical: bool = True
) -> tuple[Any, Iterator[tuple[Any, Iterator[Any]]]]:
    """Return the schema of an Avro file, as JSON has it, and its blocks as ``blocks_of_file`` does.

    Without ``logical`` types the rows have what is written: times as integers, decimals as bytes.
    Raises as ``rows_of_file``.
    """
    source = _Bounded(file, largest)
    header: Any = fastavro.schemaless_reader(cast("BinaryIO", source), _HEADER)
    meta = {name: value.decode() for name, value in header["meta"].items()}
    unpack = _UNPACK.get(meta.get("avro.codec", "null"))
    if unpack is None:
        raise ValueError(f"the codec {meta['avro.codec']} is not known")
    written = json.loads(meta["avro.schema"])
    schema = fastavro.parse_schema(written if logical else _without_logical_types(written))
    # Before the first row is read: what the schema alone allows to claim needs no data at all.
    look = SchemaLook(schema)
    if look.least_size == 0:
        raise ValueError("rows without bytes may claim to be any number")
    # The compiled reader overflows the C stack on data that nests without end.
    read = fastavro._read_py.schemaless_reader if look.recursive else fastavro.schemaless_reader

    def blocks() -> Iterator[tuple[Any, Iterator[Any]]]:
        while (count := source.varint()) is not None:
            size = source.varint()
            data = unpack(source.exactly(size or 0), largest)
            # Before the rows are given out: a block of wrong length ends elsewhere, and its rows
            # are garbage.
            if source.exactly(_SYNC) != header["sync"]:
                raise ValueError("a block does not end with the file's marker")
            if len(data) > largest:
                raise _too_large(largest)
            yield schema, _rows(io.BytesIO(data), count, schema, read)

    return written, blocks()


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_logical_types(value)
        for name, value in schema.items()
        if name != "logicalType"
    }


def _rows(data: io.BytesIO, count: int, schema: Any, read: Callable[..., Any]) -> Iterator[Any]:
    for _ in range(count):
        yield read(data, schema)
    if data.read(1):
        raise ValueError("a block has bytes after its rows")


def _too_large(largest: int) -> ValueError:
    return ValueError(f"a block has more than {largest:,} bytes unpacked")


class _Bounded:
    """A file from which nobody reads more at once than there may be."""

    def __init__(self, file: BinaryIO, largest: int) -> None:
        self._file = file
        self._largest = largest

    def read(self, size: int) -> bytes:
        """Return so many bytes, or what there is until the end."""
        if not 0 <= size <= _LARGEST_READ:
            raise ValueError(f"a length of {size} bytes")
        return self._read(size)

    def exactly(self, size: int) -> bytes:
        """Return so many bytes of a block.  Raises ``EOFError``."""
        if not 0 <= size <= self._largest:
            raise ValueError(f"a block of {size} bytes")
        data = self._read(size)
        if len(data) < size:
            raise EOFError("the file ends within a block")
        return data

    def varint(self) -> int | None:
        """Return the next number, None at the end of the file."""
        value = 0
        for index in range(_LONGEST_VARINT):
            byte = self._read(1)
            if not byte:
                if index == 0:
                    return None
                raise EOFError("the file ends within a number")
            value |= (byte[0] & 0x7F) << (7 * index)
            if byte[0] < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise ValueError("a number of more than 64 bits")

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0 and (piece := self._file.read(min(size, _PIECE))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _snappy(data: bytes, largest: int) -> bytes:
    block = data[:-4]  # a CRC32 of what is unpacked follows
    if cramjam.snappy.decompress_raw_len(block) > largest:
        raise _too_large(largest)
    unpacked = bytes(cramjam.snappy.decompress_raw(block))
    if zlib.crc32(unpacked).to_bytes(4, "big") != data[-4:]:
        raise ValueError("a block is not what its checksum says")
    return unpacked


def _zstandard(data: bytes, largest: int) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(data)
    pieces = []
    while largest >= 0 and (piece := reader.read(_PIECE)):
        pieces.append(piece)
        largest -= len(piece)
    return b"".join(pieces)


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda data, _: data,
    # One byte more than is allowed, so that the caller can see that there was more. -15: Avro's
    # deflate has no zlib header.
    "deflate": lambda data, largest: zlib.decompressobj(-15).decompress(data, largest + 1),
    "bzip2": lambda data, largest: bz2.BZ2Decompressor().decompress(data, largest + 1),
    "xz": lambda data, largest: lzma.LZMADecompressor().decompress(data, largest + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
}
"""Each gives little more than a block may have."""
