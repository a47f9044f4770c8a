"""ORC data files: field ids are attributes of the types.

What ORC has no type for is stored as Iceberg's specification of ORC says: times as integers,
UUIDs and fixed as binary, each with an attribute that says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa

from secor.arrow.nested_arrays import is_list
from secor.core.errors import ConfigurationError
from secor.core.ports import Sink
from secor.formats.python_file import SinkFile
from secor.formats.typed.orc import OrcFormat, stripe_writer
from secor.tables.catalog import FIELD_ID
from secor.tables.rows.column_names import is_uuid
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.files.statistics import ColumnCounts
from secor.tables.staging.manifest import Statistics

VERSION = 2
"""Of the writer: grows when it writes other bytes for the same settings."""

CODEC_PROPERTY = "write.orc.compression-codec"

CODECS: Mapping[str, str] = MappingProxyType(
    {
        "zlib": "zlib",
        "zstd": "zstd",
        "snappy": "snappy",
        "lz4": "lz4",
        "none": "uncompressed",
        "uncompressed": "uncompressed",
    }
)


@dataclass(frozen=True, slots=True)
class OrcDataFormat:
    """Stripes of ``group_rows`` rows, or a multiple where these are very small."""

    columns: pa.Schema
    codec: str = "zlib"
    group_rows: int = 50_000

    @classmethod
    def of(
        cls, columns: pa.Schema, properties: Mapping[str, str], group_rows: int
    ) -> OrcDataFormat:
        """Return the format that a table asks for.  Raises ``ConfigurationError``."""
        codec = properties.get(CODEC_PROPERTY, "zlib").lower()
        if codec not in CODECS:
            raise ConfigurationError(f"{CODEC_PROPERTY} is {codec}: use {', '.join(CODECS)}")
        return cls(columns, codec, group_rows)

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".orc"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        digest = hashlib.sha256(self.columns.serialize()).hexdigest()[:16]
        return f"table-orc:{VERSION}:{self.codec}:{self.group_rows}:{digest}:arrow{pa.__version__}"

    def create(self, sink: Sink, seed: bytes) -> DataFileWriter:
        """Begin a file; ORC has no markers that a seed could decide."""
        del seed
        return DataFileWriter("orc", self.columns, self.group_rows, lambda: _OrcFile(sink, self))

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give rows as JSON messages.  Raises ``CorruptFile``."""
        return OrcFormat().read(file, name)


class _OrcFile:
    """Whole stripes to an ORC file."""

    def __init__(self, sink: Sink, data_format: OrcDataFormat) -> None:
        self._output = SinkFile(sink)
        self._stored = pa.schema([_stored_field(field) for field in data_format.columns])
        self._integers = pa.schema([_integer_field(field) for field in data_format.columns])
        self._counts = ColumnCounts(data_format.columns)
        with self._output.failures():
            self._writer = stripe_writer(
                self._output, data_format.group_rows, CODECS[data_format.codec]
            )

    def write(self, group: pa.Table) -> None:
        """Write one stripe."""
        self._counts.add(group)
        stored = group.cast(self._integers).cast(self._stored)
        with self._output.failures():
            self._writer.write(stored)

    def close(self) -> Statistics:
        """Write the footer."""
        with self._output.failures():
            self._writer.close()
        return self._counts.statistics()

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()


def _stored_field(field: pa.Field) -> pa.Field:
    """Return a column as ORC stores it, with Iceberg's attributes."""
    attributes = {
        "iceberg.id": field.metadata[FIELD_ID].decode(),
        "iceberg.required": str(not field.nullable).lower(),
    }
    kind = field.type
    if pa.types.is_time(kind):
        attributes["iceberg.long-type"] = "TIME"
    elif is_uuid(kind):
        attributes["iceberg.binary-type"] = "UUID"
    elif pa.types.is_fixed_size_binary(kind):
        attributes["iceberg.binary-type"] = "FIXED"
        attributes["iceberg.length"] = str(kind.byte_width)
    return pa.field(field.name, _stored_type(kind), field.nullable, attributes)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(field) for field in kind.fields])
    if is_list(kind):
        return pa.list_(_stored_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_stored_field(kind.key_field), _stored_field(kind.item_field))
    if pa.types.is_time(kind):
        return pa.int64()
    if is_uuid(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def _integer_field(field: pa.Field) -> pa.Field:
    """Return a column with UUIDs as plain bytes: Arrow casts them no further in one step."""
    return field.with_type(_plain(field.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_integer_field(field) for field in kind.fields])
    if is_list(kind):
        return pa.list_(_integer_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_integer_field(kind.key_field), _integer_field(kind.item_field))
    return kind.storage_type if is_uuid(kind) else kind
