"""Parquet data files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from secor.arrow.nested_arrays import any_leaf, is_list
from secor.core.ports import Sink
from secor.formats.python_file import BUFFER_BYTES, SinkFile
from secor.formats.typed.parquet import TypedParquetFormat
from secor.tables.library import ParquetStatistics
from secor.tables.rows.column_names import is_uuid
from secor.tables.staging.files.data_file_writer import DataFileWriter
from secor.tables.staging.files.statistics import FloatCounts
from secor.tables.staging.manifest import Statistics

VERSION = 2
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
        """The codec is inside the file, so the extension does not name it."""
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
        self._output = SinkFile(sink)
        # The library writes a column in several pieces of some bytes each.
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._output, mode="w"), BUFFER_BYTES)
        self._statistics = data_format.statistics
        self._floats = FloatCounts(data_format.columns)
        self._writer = pq.ParquetWriter(
            self._buffer,
            data_format.columns,
            store_decimal_as_integer=True,
            **{**data_format.options, **_without_misleading_bounds(data_format.columns)},
        )

    def write(self, group: pa.Table) -> None:
        """Write one row group."""
        self._floats.add(group)
        with self._output.failures():
            self._writer.write_table(group, row_group_size=group.num_rows)
            self._buffer.flush()  # the file's size on disk says when its batch is large enough

    def close(self) -> Statistics:
        """Write the footer."""
        with self._output.failures():
            self._writer.close()
            self._buffer.flush()
        return self._statistics(self._writer.writer.metadata, self._floats.by_id)

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()


def _without_misleading_bounds(columns: pa.Schema) -> Mapping[str, Any]:
    """Return the option by which row groups have no bounds that readers would be misled by.

    Those of floating-point numbers leave NaN out, and engines for which NaN is a value, above all
    others, pass over row groups by them: DuckDB finds NaN neither by ``=`` nor by ``>=``.  Those
    of UUIDs are of unsigned bytes, and Iceberg's library for Java compares signed numbers: Spark
    passed over UUIDs next to one that begins with 8 to f.
    """
    if not any_leaf(pa.struct(list(columns)), _is_misleading):
        return {}
    leaves = [leaf for field in columns for leaf in _leaves(field.name, field.type)]
    return {"write_statistics": [path for path, kind in leaves if not _is_misleading(kind)]}


def _is_misleading(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind)) or is_uuid(kind)


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Give the columns of a Parquet file by their paths."""
    if pa.types.is_struct(kind):
        for field in kind.fields:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    else:
        yield path, kind
