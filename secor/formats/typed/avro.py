"""Avro object container files: decoded rows written and read, and their Avro schemas."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import fastavro
import fastavro.write
import pyarrow as pa

from secor.arrow.decimals import LONGEST_INTEGER
from secor.arrow.nested_arrays import (
    children,
    entries,
    is_list,
    list_of,
    map_of,
    rebuild,
    struct_of,
    text_of,
)
from secor.arrow.to_python import MapEntries, json_text, plain
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.foreign_avro import UNREADABLE, blocks_of_file
from secor.core.ports import Sink
from secor.formats.python_file import SinkFile
from secor.formats.typed import metadata
from secor.formats.typed.writer import Shape, TypedWriter
from secor.schema.schema import RowSchema
from secor.schema.settings import check

ORIGINAL = "secor.name"
"""Property of a field whose own name Avro does not allow."""

_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return a record; fields that may be null are optional."""
    return _record(pa.struct(list(schema)), "Row")


def names_of(kind: pa.StructType) -> list[str]:
    """Return the names of a struct's fields in Avro, no two alike."""
    taken: set[str] = set()
    names = []
    for column in kind.fields:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", column.name)
        name = base = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        number = 1
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names.append(name)
    return names


def rename_fields(array: pa.Array) -> pa.Array:
    """Return ``array`` with the names of ``names_of`` at every level."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [rename_fields(column) for _, column in children(array)]
        fields = [
            pa.field(name, column.type, field.nullable)
            for name, column, field in zip(names_of(kind), columns, kind.fields, strict=True)
        ]
        return struct_of(columns, fields, array)
    if not pa.types.is_nested(kind):
        return array
    if is_list(kind):
        values = rename_fields(array.flatten())
        return list_of(values, pa.field("item", values.type), array)
    lists, flat = entries(array)
    return map_of(flat.field(0), rename_fields(flat.field(1)), lists)


def _record(kind: pa.StructType, name: str) -> dict[str, Any]:
    fields = []
    for column, avro in zip(kind.fields, names_of(kind), strict=True):
        typed = _optional if column.nullable else _type
        record: dict[str, Any] = {"name": avro, "type": typed(column.type, f"{name}_{avro}")}
        if avro != column.name:
            record[ORIGINAL] = column.name
        fields.append({**record, "default": None} if column.nullable else record)
    return {"type": "record", "name": name, "fields": fields}


def _optional(kind: pa.DataType, name: str) -> Any:
    return "null" if pa.types.is_null(kind) else ["null", _type(kind, name)]


def _type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        return _record(kind, name)
    if is_list(kind):
        return {"type": "array", "items": _optional(kind.value_type, f"{name}_item")}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _optional(kind.item_type, f"{name}_value")}
    if pa.types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if pa.types.is_temporal(kind):
        return _temporal(kind)
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width > pa.int32().bit_width else "int"
    if pa.types.is_floating(kind):
        return "float" if pa.types.is_float32(kind) else "double"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    if pa.types.is_fixed_size_binary(kind):
        return "bytes"
    raise ConfigurationError(f"Avro has no type for {kind}: declare another for the field {name}")


def _temporal(kind: pa.DataType) -> dict[str, str]:
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_time(kind):
        width = "int" if kind.bit_width == pa.int32().bit_width else "long"
        return {"type": width, "logicalType": f"time-{_UNITS[kind.unit]}"}
    local = "" if kind.tz else "local-"
    return {"type": "long", "logicalType": f"{local}timestamp-{_UNITS[kind.unit]}"}


CODECS: Mapping[str, str] = MappingProxyType(
    {"deflate": "deflate", "none": "null", "snappy": "snappy"}
)

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""

ROWS_READ = 4096

LARGEST_BLOCK = 2 << 30
"""Bytes of a block that is read: one that is written is in memory, below ``limits.memory``."""

NO_LIMIT = 1 << 62
"""Bytes after which the library would end a block by itself."""


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Blocks of exactly ``block_rows`` rows; one of them is held in memory.

    Every field is a union with null.  Names are changed to what Avro allows: letters,
    digits and underscores.
    """

    codec: str = "deflate"
    block_rows: int = 5_000
    schema: RowSchema = field(default_factory=RowSchema)
    metadata_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check("Avro", self.codec, CODECS, self.block_rows, "block_rows")
        object.__setattr__(self, "metadata_columns", metadata.check_columns(self.metadata_columns))

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".avro"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        shape, version = self._shape.identity, fastavro.__version__
        return f"avro:{VERSION}:{self.codec}:{shape}:fastavro{version}"

    @property
    def _shape(self) -> Shape:
        return Shape(self.schema, self.metadata_columns, self.block_rows, _leaf)

    def create(self, sink: Sink, seed: bytes) -> TypedWriter:
        """Begin a file; its sync marker comes from ``seed``."""
        # The library would draw it: a batch that is made again must have the same bytes.
        marker = hashlib.sha256(b"avro" + seed).digest()[:16]
        return TypedWriter(self._shape, lambda schema: _File(sink, self.codec, marker, schema))

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield rows as JSON messages, with their metadata columns.  Raises ``CorruptFile``."""
        rows: list[Any] = []
        try:
            for schema, block in blocks_of_file(file, LARGEST_BLOCK):
                rows += [_with_entries(row, schema) for row in block]
                if len(rows) >= ROWS_READ:
                    yield _messages(rows)
                    rows = []
        except UNREADABLE as error:
            raise CorruptFile(f"{name}: is no whole Avro file: {error!r}") from error
        if rows:
            yield _messages(rows)


def _with_entries(value: Any, kind: Any) -> Any:
    """Return a value of an Avro type as this format writes it, with ``MapEntries`` for maps."""
    if value is None:
        return None
    match kind:
        case ["null", inner]:
            return _with_entries(value, inner)
        case {"type": "record", "fields": fields}:
            kinds = {field["name"]: field["type"] for field in fields}
            return {name: _with_entries(item, kinds[name]) for name, item in value.items()}
        case {"type": "array", "items": inner}:
            return [_with_entries(item, inner) for item in value]
        case {"type": "map", "values": inner}:
            return MapEntries({name: _with_entries(item, inner) for name, item in value.items()})
        case _:
            return value


def _messages(rows: Sequence[Any]) -> pa.RecordBatch:
    names = [name for name in metadata.COLUMNS if name in rows[0]]
    known = {
        name: pa.array([row.pop(name) for row in rows], metadata.COLUMNS[name][1]) for name in names
    }
    return metadata.messages([json_text(row) for row in rows], known)


def _leaf(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _leaf(array.cast(kind.value_type))
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return array.cast(pa.timestamp("ms", kind.tz))
    if pa.types.is_time(kind) and kind.unit in ("s", "ns"):
        return array.cast(pa.time32("ms") if kind.unit == "s" else pa.string())
    if pa.types.is_date64(kind):
        return array.cast(pa.date32())
    if pa.types.is_duration(kind) or pa.types.is_unsigned_integer(kind):
        return array.cast(pa.decimal128(LONGEST_INTEGER, 0) if kind == pa.uint64() else pa.int64())
    if pa.types.is_float16(kind) or pa.types.is_decimal256(kind):
        return array.cast(pa.float32() if pa.types.is_float16(kind) else pa.string())
    return text_of(array)


class _File:
    """Whole blocks to an Avro file."""

    def __init__(self, sink: Sink, codec: str, marker: bytes, schema: pa.Schema) -> None:
        self._output = SinkFile(sink)
        self._writer = fastavro.write.Writer(
            cast("Any", self._output),
            avro_schema(schema),
            codec=CODECS[codec],
            # Only ``dump`` ends a block: by bytes, another version of the library could end it
            # elsewhere, and the same batch would have other bytes.
            sync_interval=NO_LIMIT,
            sync_marker=marker,
        )

    def write(self, group: pa.RecordBatch) -> None:
        """Write one block."""
        struct = rebuild(group.to_struct_array(), _countable)
        for row in plain(rename_fields(struct)):
            self._writer.write(row)
        self._writer.dump()

    def close(self) -> None:
        """Every block is written already; Avro has no footer."""

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()


def _countable(array: pa.Array) -> pa.Array:
    """Dates, times and timestamps as the integers that Avro stores."""
    if not pa.types.is_temporal(array.type):
        return array
    narrow = array.type.bit_width == pa.int32().bit_width
    return array.cast(pa.int32() if narrow else pa.int64())
