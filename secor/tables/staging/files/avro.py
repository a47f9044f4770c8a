"""Avro data files: field ids are properties of the schema."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import fastavro
import fastavro.write
import pyarrow as pa

from secor.arrow.nested_arrays import is_list
from secor.core.errors import ConfigurationError
from secor.core.ports import Sink
from secor.formats.python_file import SinkFile
from secor.formats.typed.avro import NO_LIMIT, AvroFormat
from secor.tables.catalog import FIELD_ID
from secor.tables.rows.column_names import is_uuid
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.files.statistics import ColumnCounts
from secor.tables.staging.manifest import Statistics

UUID_BYTES = 16

_SCALARS: Mapping[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("us"): {
        "type": "long",
        "logicalType": "timestamp-micros",
        "adjust-to-utc": False,
    },
    pa.timestamp("us", "UTC"): {
        "type": "long",
        "logicalType": "timestamp-micros",
        "adjust-to-utc": True,
    },
}


def avro_schema(columns: pa.Schema) -> dict[str, Any]:
    """Return the schema of a data file."""
    return _record("table", list(columns))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field) for field in fields]}


def _field(field: pa.Field) -> dict[str, Any]:
    name = avro_name(field.name)
    made = {"name": name, "type": _optional(field), "field-id": _id(field)}
    if field.nullable:
        made["default"] = None
    if name != field.name:
        made["iceberg-field-name"] = field.name
    return made


def _optional(field: pa.Field) -> Any:
    kind = _type(field.type, _id(field))
    return ["null", kind] if field.nullable else kind


def _type(kind: pa.DataType, field_id: int) -> Any:
    if pa.types.is_struct(kind):
        return _record(f"r{field_id}", list(kind.fields))
    if is_list(kind):
        element = kind.value_field
        return {"type": "array", "items": _optional(element), "element-id": _id(element)}
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_decimal(kind):
        size = _bytes_of_decimal(kind.precision)
        digits = {"precision": kind.precision, "scale": kind.scale}
        # With the field's id: Avro takes a name in a schema for one type, and two columns may have
        # the same type.
        name = f"decimal_{kind.precision}_{kind.scale}_{field_id}"
        return {"type": "fixed", "name": name, "size": size, "logicalType": "decimal", **digits}
    if is_uuid(kind):
        name = f"uuid_{field_id}"
        return {"type": "fixed", "name": name, "size": UUID_BYTES, "logicalType": "uuid"}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"fixed_{field_id}", "size": kind.byte_width}
    return _SCALARS[kind]


def _map(kind: pa.MapType) -> dict[str, Any]:
    key, value = kind.key_field, kind.item_field
    if pa.types.is_string(key.type):
        ids = {"key-id": _id(key), "value-id": _id(value)}
        return {"type": "map", "values": _optional(value), **ids}
    pair = {
        "type": "record",
        "name": f"k{_id(key)}_v{_id(value)}",
        "fields": [
            {"name": "key", "type": _type(key.type, _id(key)), "field-id": _id(key)},
            {"name": "value", "type": _optional(value), "field-id": _id(value)},
        ],
    }
    # Avro's maps have text as keys: others are arrays of pairs, as Iceberg's specification says.
    return {"type": "array", "items": pair, "logicalType": "map"}


def _id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID])


def _bytes_of_decimal(precision: int) -> int:
    return next(size for size in range(1, 17) if 10**precision - 1 < 1 << (8 * size - 1))


def avro_name(name: str) -> str:
    """Return a name with the characters that Avro allows, as Iceberg writes it."""
    first = name if re.match(r"[A-Za-z_]", name) else f"_{name}"
    head, tail = first[0], first[1:]
    if not re.match(r"[A-Za-z_0-9]", name):
        head, tail = f"_x{ord(name[0]):X}", name[1:]
    return head + re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", tail)


def avro_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Give rows as fastavro takes them: times as integers, decimals and UUIDs as bytes."""
    read = _struct_reader(list(rows.schema))
    # As integers: Python's dates and times end at the year 9999.
    plain = rows.cast(pa.schema([_countable(field) for field in rows.schema]))
    for row in plain.to_pylist():
        yield read(row)


Reader = Callable[[Any], Any]


def _struct_reader(fields: list[pa.Field]) -> Reader:
    readers = [(field.name, avro_name(field.name), _reader(field.type)) for field in fields]

    def read(row: Any) -> Any:
        if row is None:
            return None
        return {
            avro: row[name] if inner is None else inner(row[name]) for name, avro, inner in readers
        }

    return read


def _reader(kind: pa.DataType) -> Reader | None:
    """Return what turns a value into Avro's; None where it is that already."""
    if pa.types.is_struct(kind):
        return _struct_reader(list(kind.fields))
    if is_list(kind):
        inner = _reader(kind.value_type)
        if inner is None:
            return None
        return lambda items: None if items is None else [inner(item) for item in items]
    if pa.types.is_map(kind):
        return _map_reader(kind)
    if pa.types.is_decimal(kind):
        size = _bytes_of_decimal(kind.precision)
        return lambda value: (
            None if value is None else _unscaled(value).to_bytes(size, "big", signed=True)
        )
    return None


def _unscaled(value: Decimal) -> int:
    """Return the digits of a decimal that has its column's scale, as Arrow gives them.

    Not by arithmetic, which would round to the context's precision.
    """
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _map_reader(kind: pa.MapType) -> Reader:
    key = _reader(kind.key_type) or _same
    value = _reader(kind.item_type) or _same
    if pa.types.is_string(kind.key_type):
        return lambda pairs: (
            None if pairs is None else {key(name): value(item) for name, item in pairs}
        )
    return lambda pairs: (
        None
        if pairs is None
        else [{"key": key(name), "value": value(item)} for name, item in pairs]
    )


def _same(value: Any) -> Any:
    return value


def _countable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _countable_type(field.type), field.nullable)


def _countable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_countable(field) for field in kind.fields])
    if is_list(kind):
        return pa.list_(_countable(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_countable(kind.key_field), _countable(kind.item_field))
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_temporal(kind):
        return pa.int64()
    return kind.storage_type if is_uuid(kind) else kind


VERSION = 2
"""Of the writer: grows when it writes other bytes for the same settings."""

CODEC_PROPERTY = "write.avro.compression-codec"

CODECS: Mapping[str, str] = MappingProxyType(
    {"gzip": "deflate", "snappy": "snappy", "none": "null", "uncompressed": "null"}
)


@dataclass(frozen=True, slots=True)
class AvroDataFormat:
    """Blocks of exactly ``group_rows`` rows."""

    columns: pa.Schema
    codec: str = "gzip"
    group_rows: int = 5_000

    @classmethod
    def of(
        cls, columns: pa.Schema, properties: Mapping[str, str], group_rows: int
    ) -> AvroDataFormat:
        """Return the format that a table asks for.  Raises ``ConfigurationError``."""
        codec = properties.get(CODEC_PROPERTY, "gzip").lower()
        if codec not in CODECS:
            raise ConfigurationError(f"{CODEC_PROPERTY} is {codec}: use {', '.join(CODECS)}")
        return cls(columns, codec, group_rows)

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".avro"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        digest = hashlib.sha256(self.columns.serialize()).hexdigest()[:16]
        version = fastavro.__version__
        return f"table-avro:{VERSION}:{self.codec}:{self.group_rows}:{digest}:fastavro{version}"

    def create(self, sink: Sink, seed: bytes) -> DataFileWriter:
        """Begin a file; its sync marker comes from ``seed``."""
        marker = hashlib.sha256(b"avro" + seed).digest()[:16]
        return DataFileWriter(
            "avro", self.columns, self.group_rows, lambda: _AvroFile(sink, self, marker)
        )

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give rows as JSON messages.  Raises ``CorruptFile``."""
        return AvroFormat().read(file, name)


class _AvroFile:
    """Whole blocks to an Avro file."""

    def __init__(self, sink: Sink, data_format: AvroDataFormat, marker: bytes) -> None:
        self._output = SinkFile(sink)
        self._counts = ColumnCounts(data_format.columns)
        self._writer = fastavro.write.Writer(
            cast("Any", self._output),
            avro_schema(data_format.columns),
            codec=CODECS[data_format.codec],
            # Only ``dump`` ends a block, so that the same rows give the same bytes.
            sync_interval=NO_LIMIT,
            sync_marker=marker,
        )

    def write(self, group: pa.Table) -> None:
        """Write one block."""
        self._counts.add(group)
        for row in avro_rows(group):
            self._writer.write(row)
        self._writer.dump()

    def close(self) -> Statistics:
        """Every block is written already; Avro has no footer."""
        return self._counts.statistics()

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()
