"""Avro data files: field ids are properties of the schema."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import fastavro
import fastavro.write
import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.core.ports import Sink
from secor.formats.python_file import SinkFile
from secor.formats.typed.avro import NO_LIMIT, AvroFormat
from secor.tables.staging.files.avro_rows import avro_rows, avro_schema
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.files.statistics import ColumnCounts
from secor.tables.staging.manifest import Statistics

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
        """The codec is inside, so the name does not tell it."""
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
