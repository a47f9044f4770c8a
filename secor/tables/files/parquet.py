"""Parquet data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from secor.core.ports import Sink
from secor.formats.python_file import BUFFER_BYTES, Output
from secor.formats.typed.parquet import TypedParquetFormat
from secor.tables.files.data_file_writer import DataFileWriter
from secor.tables.library import ParquetStatistics
from secor.tables.manifest import Statistics

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""


@dataclass(frozen=True, slots=True)
class ParquetDataFormat:
    """Row groups of exactly ``group_rows`` rows; ``options`` are the library's for its writer."""

    columns: pa.Schema
    options: Mapping[str, Any]
    statistics: ParquetStatistics
    group_rows: int = 50_000

    @property
    def extension(self) -> str:
        """The codec is inside, so the name does not tell it."""
        return ".parquet"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        options = sorted(self.options.items())
        digest = hashlib.sha256(self.columns.serialize()).hexdigest()[:16]
        return f"table-parquet:{VERSION}:{options}:{self.group_rows}:{digest}:arrow{pa.__version__}"

    def create(self, sink: Sink, seed: bytes) -> DataFileWriter:
        """Begin a file; Parquet has no markers that a seed could decide."""
        del seed
        return DataFileWriter(
            "parquet", self.columns, self.group_rows, lambda: _ParquetFile(sink, self)
        )

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give rows as JSON messages.  Raises ``CorruptFile``."""
        return TypedParquetFormat().read(file, name)


class _ParquetFile:
    """Whole row groups to a Parquet file."""

    def __init__(self, sink: Sink, data_format: ParquetDataFormat) -> None:
        self._output = Output(sink)
        # The library writes a column in several pieces of some bytes each.
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._output, mode="w"), BUFFER_BYTES)
        self._statistics = data_format.statistics
        self._writer = pq.ParquetWriter(
            self._buffer,
            data_format.columns,
            store_decimal_as_integer=True,
            **data_format.options,
        )

    def write(self, group: pa.Table) -> None:
        """Write one row group."""
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._buffer.flush()  # the file's size on disk says when its batch is large enough

    def close(self) -> Statistics:
        """Write the footer."""
        self._writer.close()
        self._buffer.flush()
        return self._statistics(self._writer.writer.metadata)

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()
