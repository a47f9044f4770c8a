"""ORC: decoded rows written and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import orc

from secor.arrow.decimals import LONGEST_INTEGER
from secor.arrow.nested_arrays import any_leaf, children, entries, flatten, is_list, text_of
from secor.arrow.time_limits import EARLY_FRACTION, SECOND, is_early_fraction
from secor.core.errors import CorruptFile
from secor.core.model import rows_in_blocks
from secor.core.ports import Sink
from secor.formats.python_file import SinkFile
from secor.formats.typed import metadata
from secor.formats.typed.writer import Shape, TypedWriter
from secor.schema.misfit_prefilter import Truths, holders
from secor.schema.schema import RowSchema
from secor.schema.settings import check

CODECS: Mapping[str, str] = MappingProxyType(
    {"zstd": "zstd", "none": "uncompressed", "gzip": "zlib", "snappy": "snappy", "lz4": "lz4"}
)

VERSION = 3
"""Of the writer: grows when it writes other bytes for the same settings."""

NO_ROW_INDEX = 1 << 32
"""The stride of a row index that makes readers see none: the file's footer has 32 bits for it.

Java's library compares a filter with the bounds of a row index as Java's strings, that is by
UTF-16, and the bounds are those by UTF-8.  Where a text begins with one of U+E000 to U+FFFF (such
as full-width letters) and another with an emoji, rows are not found.  Arrow's writer takes no 0.
"""

ROWS_READ = 8192


@dataclass(frozen=True, slots=True)
class OrcFormat:
    """Stripes of ``stripe_rows`` rows, which are held in memory, or a multiple of it.

    ORC gives no way to end a stripe as long as no column has filled a block of 64 KiB: a
    stripe that small goes on through the next rows.
    What ORC lacks is stored otherwise: times as text, unsigned integers as wider signed
    ones.  Instants are ORC's ``timestamp`` in UTC: Spark reads no file with its ``timestamp
    with local time zone``.
    """

    codec: str = "zstd"
    stripe_rows: int = 50_000
    schema: RowSchema = field(default_factory=RowSchema)
    metadata_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check("ORC", self.codec, CODECS, self.stripe_rows, "stripe_rows")
        object.__setattr__(self, "metadata_columns", metadata.check_columns(self.metadata_columns))

    @property
    def extension(self) -> str:
        """The codec is inside the file, so the extension does not name it."""
        return ".orc"

    @property
    def identity(self) -> str:
        """Everything that changes the bytes: also Arrow's version, which brings ORC's."""
        return f"orc:{VERSION}:{self.codec}:{self._shape.identity}:arrow{pa.__version__}"

    @property
    def _shape(self) -> Shape:
        return Shape(self.schema, self.metadata_columns, self.stripe_rows, _leaf)

    def create(self, sink: Sink, seed: bytes) -> TypedWriter:
        """Begin a file; ORC has no markers that a seed could decide."""
        del seed
        return TypedWriter(self._shape, lambda schema: OrcFileWriter(sink, self))

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Yield rows as JSON messages, with their metadata columns.  Raises ``CorruptFile``."""
        try:
            stripes = orc.ORCFile(file)
            names = metadata.metadata_columns_of(stripes.schema)
            for stripe in range(stripes.nstripes):
                for rows in rows_in_blocks(stripes.read_stripe(stripe), ROWS_READ):
                    yield metadata.as_messages(rows, names)
        except (pa.ArrowException, OSError) as error:
            raise CorruptFile(f"{name}: is no whole ORC file: {error}") from error


def refused_times(rows: pa.StructArray) -> Mapping[int, str]:
    """Return why rows cannot be in an ORC file: for times that its readers do not agree on.

    Arrow writes a time before 1970 with a fraction of a second as a negative fraction, from which
    Java's library, and so Spark, makes a time that is a second earlier.
    """
    refused: dict[int, str] = {}
    for top, column in children(rows):
        early = _early_fractions(column)
        reason = f"{top.name}: {EARLY_FRACTION}"
        refused = dict.fromkeys(np.flatnonzero(early).tolist(), reason) | refused
    return refused


def _early_fractions(array: pa.Array) -> Truths:
    """Return which rows have a time that ORC's readers do not agree on, at any level."""
    kind = array.type
    if not any_leaf(kind, pa.types.is_timestamp):
        return np.zeros(len(array), dtype=bool)
    if pa.types.is_struct(kind):
        return np.logical_or.reduce([_early_fractions(column) for _, column in children(array)])
    if is_list(kind):
        return holders(array, _early_fractions(flatten(array)))
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        return holders(lists, _early_fractions(flat))
    return is_early_fraction(array.view(pa.int64()), SECOND[kind.unit])


def _leaf(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _leaf(array.cast(kind.value_type))
    if pa.types.is_null(kind) or pa.types.is_time(kind) or pa.types.is_decimal256(kind):
        return array.cast(pa.string())
    if pa.types.is_unsigned_integer(kind):
        return array.cast(pa.decimal128(LONGEST_INTEGER, 0) if kind == pa.uint64() else pa.int64())
    if pa.types.is_date64(kind):
        return array.cast(pa.date32())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Through integers: a cast of the type would turn the instant into the clock of a zone.
        return array.cast(pa.int64()).cast(pa.timestamp(kind.unit))
    if pa.types.is_duration(kind):
        return array.cast(pa.int64())
    return array.cast(pa.float32()) if pa.types.is_float16(kind) else text_of(array)


def stripe_writer(output: SinkFile, stripe_rows: int, compression: str) -> orc.ORCWriter:
    """Open a file whose stripes are the batches written, of ``stripe_rows`` rows at most.

    The library ends a stripe after the batch with which it reaches ``stripe_size`` bytes,
    and counts full blocks only; so batches have a stripe's rows, and the size is nothing.
    """
    return orc.ORCWriter(
        pa.PythonFile(output, mode="w"),
        batch_size=stripe_rows,
        stripe_size=1,
        compression=compression,
        row_index_stride=NO_ROW_INDEX,
    )


class OrcFileWriter:
    """Whole stripes to an ORC file."""

    def __init__(self, sink: Sink, log_format: OrcFormat) -> None:
        self._output = SinkFile(sink)
        with self._output.failures():
            self._writer = stripe_writer(
                self._output, log_format.stripe_rows, CODECS[log_format.codec]
            )

    def write(self, group: pa.RecordBatch) -> None:
        """Write one stripe."""
        with self._output.failures():
            self._writer.write(pa.Table.from_batches([group]))

    def close(self) -> None:
        """Write the footer."""
        with self._output.failures():
            self._writer.close()

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        self._output.discard()
