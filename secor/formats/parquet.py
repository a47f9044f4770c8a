"""Parquet of the backup group: the lossless columns of messages, written and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from secor.core.errors import ConfigurationError, CorruptFile, SecorError
from secor.core.model import SCHEMA
from secor.core.ports import Sink
from secor.formats.python_file import BUFFER_BYTES, SinkFile
from secor.formats.row_groups import RowGroups

CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "none": "none",
    "gzip": "gzip",
    "lz4": "lz4",
}

VERSION = 1
"""Of the writer: grows when it writes other bytes for the same settings."""

MESSAGES_READ = 8192
"""Rows of the batches that the reader gives."""


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """The columns of ``SCHEMA``, row groups of exactly ``row_group_rows`` messages.

    A row group's messages are held in memory until it is full.
    """

    codec: str = "zstd"
    row_group_rows: int = 50_000

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise ConfigurationError(
                f"parquet has no codec {self.codec!r}: use one of {', '.join(CODECS)}"
            )
        if self.row_group_rows < 1:
            raise ConfigurationError("parquet: row_group_rows must be at least 1")

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".parquet"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes: also Arrow's version, which is in the file."""
        return f"parquet:{VERSION}:{self.codec}:{self.row_group_rows}:arrow{pa.__version__}"

    def create(self, sink: Sink, seed: bytes) -> ParquetWriter:
        """Begin a file; Parquet has no markers that a seed could decide."""
        del seed
        return ParquetWriter(sink, self)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the messages.  Page checksums are verified.  Raises ``CorruptFile``."""
        with not_whole(name):
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            if not holds_messages(parquet.schema_arrow):
                raise CorruptFile(
                    f"{name}: its columns are not those of whole messages"
                    f" ({', '.join(SCHEMA.names)}) with their types"
                )
            yield from whole_messages(parquet)


@contextmanager
def not_whole(name: str) -> Iterator[None]:
    """Turn what Arrow says of the file ``name`` into ``CorruptFile``."""
    try:
        yield
    except SecorError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"{name}: is no whole Parquet file: {error}") from error


def whole_messages(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a file that ``holds_messages``."""
    for batch in parquet.iter_batches(MESSAGES_READ):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)


def holds_messages(schema: pa.Schema) -> bool:
    """Return whether a file has exactly the columns of whole messages, with their types.

    A column that is only called ``timestamp`` or ``value`` may be anybody's.
    """
    return bool(schema.equals(SCHEMA))


class ParquetWriter:
    """One Parquet file in the making."""

    def __init__(self, sink: Sink, log_format: ParquetFormat) -> None:
        self._groups = RowGroups(log_format.row_group_rows)
        self._output = SinkFile(sink)
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._output, mode="w"), BUFFER_BYTES)
        self._writer = pq.ParquetWriter(
            self._buffer,
            SCHEMA,
            compression=CODECS[log_format.codec],
            version="2.6",
            # Only what readers filter by: bounds of keys and values would put messages into the
            # footer.
            write_statistics=["offset", "timestamp"],
            use_dictionary=["timestamp_type", "headers.list.element.key"],
            # Rising numbers: differences take a byte or two where the numbers take eight.
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        )

    def append(self, records: pa.RecordBatch) -> None:
        """Add messages; every full row group is written."""
        for group in self._groups.add(records):
            self._write(group)

    def buffered(self) -> int:
        """Return the bytes of the row group that is not full yet."""
        return self._groups.buffered

    def close(self) -> None:
        """Write the last row group and the footer."""
        if len(self._groups):
            self._write(self._groups.rest())
        with self._output.failures():
            self._writer.close()
            self._buffer.flush()

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()

    def _write(self, group: pa.RecordBatch) -> None:
        with self._output.failures():
            self._writer.write_table(pa.Table.from_batches([group]), row_group_size=group.num_rows)
            self._buffer.flush()  # the file's size on disk says when its batch is large enough
