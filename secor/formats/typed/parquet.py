"""Parquet of decoded rows: written and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from secor.arrow.nested_arrays import text_of
from secor.core.ports import Sink
from secor.formats.parquet import (
    CODECS,
    MESSAGES_READ,
    ParquetFormat,
    holds_messages,
    not_whole,
    whole_messages,
)
from secor.formats.python_file import BUFFER_BYTES, SinkFile
from secor.formats.typed import metadata
from secor.formats.typed.writer import Shape, TypedWriter
from secor.schema.required_fields import without_hidden_nulls
from secor.schema.schema import RowSchema
from secor.schema.settings import check

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""

MARK = b"secor.typed"
"""Key in the schema's metadata: files with it hold rows, not whole messages."""


@dataclass(frozen=True, slots=True)
class TypedParquetFormat:
    """Row groups of exactly ``row_group_rows`` rows; one of them is held in memory."""

    codec: str = "zstd"
    row_group_rows: int = 50_000
    schema: RowSchema = field(default_factory=RowSchema)
    metadata_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check("typed Parquet", self.codec, CODECS, self.row_group_rows, "row_group_rows")
        object.__setattr__(self, "metadata_columns", metadata.check_columns(self.metadata_columns))

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".parquet"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes: also Arrow's version, which is in the file."""
        shape = self._shape.identity
        return f"typed-parquet:{VERSION}:{self.codec}:{shape}:arrow{pa.__version__}"

    @property
    def _shape(self) -> Shape:
        return Shape(self.schema, self.metadata_columns, self.row_group_rows, _leaf)

    def create(self, sink: Sink, seed: bytes) -> TypedWriter:
        """Begin a file; Parquet has no markers that a seed could decide."""
        del seed
        return TypedWriter(self._shape, lambda schema: ParquetFileWriter(sink, self, schema))

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield rows as JSON messages, with their metadata columns.  Raises ``CorruptFile``."""
        return read(file, name)


def _leaf(array: pa.Array) -> pa.Array:
    kind = array.type
    return array.cast(kind.value_type) if pa.types.is_dictionary(kind) else text_of(array)


class ParquetFileWriter:
    """Whole row groups to a Parquet file."""

    def __init__(self, sink: Sink, log_format: TypedParquetFormat, schema: pa.Schema) -> None:
        mark = {"version": VERSION, "metadata_columns": log_format.metadata_columns}
        self._schema = schema.with_metadata({MARK: json.dumps(mark)})
        whole = [name for name in ("_offset", "_timestamp") if name in log_format.metadata_columns]
        self._output = SinkFile(sink)
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._output, mode="w"), BUFFER_BYTES)
        self._writer = pq.ParquetWriter(
            self._buffer,
            self._schema,
            compression=CODECS[log_format.codec],
            # Fixed: another default of a later library would give other bytes, and a batch that is
            # made again must be the same.
            version="2.6",
            use_dictionary=_worth_a_dictionary(schema),
            column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED") or None,
            # Damage in a page is found when it is read, as with the other formats.
            write_page_checksum=True,
        )

    def write(self, group: pa.RecordBatch) -> None:
        """Write one row group."""
        columns = [without_hidden_nulls(column) for column in group.columns]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        with self._output.failures():
            self._writer.write_table(table, row_group_size=group.num_rows)
            self._buffer.flush()  # the file's size on disk says when its batch is large enough

    def close(self) -> None:
        """Write the footer."""
        with self._output.failures():
            self._writer.close()
            self._buffer.flush()

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()


def _worth_a_dictionary(schema: pa.Schema) -> list[str] | bool:
    """Everything but the columns that differ in every row and are encoded as differences."""
    if not {"_offset", "_timestamp"} & set(schema.names):
        return True
    return [path for path in leaf_paths(schema) if path not in ("_offset", "_timestamp")]


@lru_cache(maxsize=64)
def leaf_paths(schema: pa.Schema) -> tuple[str, ...]:
    """Return the paths of a schema's Parquet columns."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    columns: Any = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return tuple(columns.column(index).path for index in range(len(columns.names)))


def read(file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of any Parquet file as JSON messages.  Raises ``CorruptFile``."""
    with not_whole(name):
        yield from _rows(pq.ParquetFile(file, page_checksum_verification=True))


def _rows(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    names = metadata.metadata_columns_of(parquet.schema_arrow)
    for batch in parquet.iter_batches(MESSAGES_READ):
        yield metadata.as_messages(batch, names)


class EitherParquet(ParquetFormat):
    """A reader of Parquet of whole messages, by its columns, and of any other as decoded rows."""

    __slots__ = ()

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the file's records.  Raises ``CorruptFile``."""
        with not_whole(name):
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            schema = parquet.schema_arrow
            # Rows of a table may have columns with the same names as whole messages: the mark
            # decides.
            whole = holds_messages(schema) and MARK not in (schema.metadata or {})
            yield from whole_messages(parquet) if whole else _rows(parquet)
