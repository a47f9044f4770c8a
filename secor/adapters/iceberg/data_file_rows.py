"""Rows of data files as they are: Parquet by row groups, ORC by stripes, Avro by blocks.

The Iceberg library for Python reads no Avro data files, and holds all rows of a file at once.
Columns are found by field ids, or by the table's name mapping where a file has no ids.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as LibraryTable
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from secor.core.errors import CorruptFile
from secor.core.foreign_avro import UNREADABLE, open_file

BATCH_BYTES = 32 << 20
"""Of the rows that are in memory at once, as large as they are in the file's own encoding."""

MOST_ROWS = 65_536

_PIECE = 1 << 20
"""Bytes that are asked of a store at once."""

EXACT = Context(prec=80)
"""Python's own context would round decimals of more than 28 digits."""

PATH_ID, POSITION_ID = 2_147_483_546, 2_147_483_545
"""Ids of the columns of files with positional deletes (Iceberg specification)."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """One open data file: ``batches`` are columns in the order of ``schema``.

    ``row_groups`` are where those of a Parquet file begin, None for other formats.  ``left_out``
    says of columns, by name, why their values cannot be read; ``batches`` have nulls there.
    """

    schema: Schema
    batches: Iterator[pa.RecordBatch]
    row_groups: tuple[int, ...] | None = None
    left_out: Mapping[str, str] | None = None


@contextmanager
def open_rows(io: FileIO, file: DataFile, mapping: NameMapping | None = None) -> Iterator[FileRows]:
    """Open a file; what the library and pyarrow raise is the caller's to translate."""
    with io.new_input(file.file_path).open() as stream:
        match file.file_format:
            case FileFormat.PARQUET:
                yield _parquet(cast("BinaryIO", stream), mapping)
            case FileFormat.ORC:
                yield _orc(cast("BinaryIO", stream), mapping)
            case FileFormat.AVRO:
                yield _avro(cast("BinaryIO", stream))
            case other:
                raise ValueError(f"a file of the format {other} has no rows")


def _parquet(stream: BinaryIO, mapping: NameMapping | None) -> FileRows:
    # Spark's old INT96 times reach beyond what nanoseconds in 64 bits hold.
    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    schema = pyarrow_to_schema(file.schema_arrow, mapping, downcast_ns_timestamp_to_us=True)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            rows = BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)
            size = min(max(rows, 1), MOST_ROWS)
            yield from file.iter_batches(batch_size=size, row_groups=[number])

    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    return FileRows(schema, batches(), tuple(map(_start_of_group, groups)))


def _start_of_group(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    data, dictionary = int(first.data_page_offset), int(first.dictionary_page_offset or 0)
    # A column begins with its dictionary where it has one; offsets elsewhere mean that there is
    # none.
    return dictionary if 0 < dictionary < data else data


def _orc(stream: BinaryIO, mapping: NameMapping | None) -> FileRows:
    file = orc.ORCFile(stream)
    schema = pyarrow_to_schema(file.schema, mapping, downcast_ns_timestamp_to_us=True)
    left_out: dict[str, str] = {}

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(file.nstripes):
            yield _stripe(file, number, left_out)

    return FileRows(schema, batches(), left_out=left_out)


def _stripe(file: orc.ORCFile, number: int, left_out: dict[str, str]) -> pa.RecordBatch:
    """Read a stripe; Arrow refuses times beyond the 64 bits of its nanoseconds."""
    try:
        return file.read_stripe(number)
    except pa.ArrowInvalid as error:
        if "out of range for nanosecond" not in str(error):
            raise
        why = str(error)
    columns = []
    # Column by column: one time out of range makes Arrow refuse the stripe with all its columns.
    for field in file.schema:
        try:
            columns.append(file.read_stripe(number, [field.name]).column(0))
        except pa.ArrowInvalid:
            left_out[field.name] = why
            columns.append(None)
    rows = len(next(column for column in columns if column is not None))
    filled = [
        pa.nulls(rows, field.type) if column is None else column
        for field, column in zip(file.schema, columns, strict=True)
    ]
    return pa.record_batch(filled, schema=file.schema)


def _avro(stream: BinaryIO) -> FileRows:
    with _no_whole_file():
        written, blocks = open_file(stream, logical=False)
    schema = AvroSchemaConversion().avro_to_iceberg(written)
    names = [field["name"] for field in written["fields"]]

    def batches() -> Iterator[pa.RecordBatch]:
        while True:
            with _no_whole_file():
                block = next(blocks, None)
                if block is None:
                    return
                rows = list(block[1])
            columns = [
                _array(field.field_type, [row[name] for row in rows])
                for field, name in zip(schema.fields, names, strict=True)
            ]
            yield pa.record_batch(columns, [field.name for field in schema.fields])

    return FileRows(schema, batches())


_DAMAGE = tuple(kind for kind in UNREADABLE if kind is not OSError)
"""Without errors of the store, which may answer next time."""


@contextmanager
def _no_whole_file() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ValueError(f"no whole Avro file: {error!r}") from error


def _array(kind: IcebergType, values: Sequence[Any]) -> pa.Array:
    """Return values as Avro has them without its logical types: times and dates are integers."""
    nulls = pa.array([value is None for value in values], pa.bool_())
    match kind:
        case StructType():
            rows = [_pairs(value) for value in values]
            children = [
                _array(field.field_type, [None if row is None else row[place] for row in rows])
                for place, field in enumerate(kind.fields)
            ]
            names = [field.name for field in kind.fields]
            return pa.StructArray.from_arrays(children, names, mask=nulls)
        case ListType():
            return _lists(values, nulls, lambda items: _array(kind.element_type, items))
        case MapType():
            pairs = [None if value is None else _items(value) for value in values]
            entry = StructType(kind.key_field, kind.value_field)
            return _lists(pairs, nulls, lambda items: _array(entry, items))
        case DecimalType():
            return pa.array([_decimal(value, kind) for value in values], _arrow_type(kind))
        case DateType():
            return pa.array(values, pa.int32()).cast(pa.date32())
        case TimeType() | TimestampType() | TimestamptzType():
            return pa.array(values, pa.int64()).cast(_arrow_type(kind))
        case UUIDType():
            return pa.array([_uuid(value) for value in values], pa.binary(16))
    return pa.array(values, _arrow_type(kind))


def _pairs(value: Any) -> list[Any] | None:
    if value is None:
        return None
    return list(value.values()) if isinstance(value, dict) else list(value)


def _items(value: Any) -> list[Any]:
    """Return the entries of a map, which Avro has as an array where keys are no texts."""
    return list(value.items()) if isinstance(value, dict) else list(value)


def _lists(
    values: Sequence[Any], nulls: pa.Array, array_of: Callable[[list[Any]], pa.Array]
) -> pa.Array:
    offsets = [0]
    items: list[Any] = []
    for value in values:
        items.extend(value or ())
        offsets.append(len(items))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array_of(items), mask=nulls)


def _decimal(value: bytes | None, kind: DecimalType) -> Decimal | None:
    if value is None:
        return None
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.scale, EXACT)


def _uuid(value: bytes | str | None) -> bytes | None:
    return uuid.UUID(value).bytes if isinstance(value, str) else value


def _arrow_type(kind: IcebergType) -> pa.DataType:
    return schema_to_pyarrow(kind, include_field_ids=False)


def scan_rows(
    table: LibraryTable, snapshot_id: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Give some columns of all rows that a reader of a snapshot sees.

    The library reads the files whose formats it knows.  Raises as it does, ``ValueError`` for
    equality deletes among others.
    """
    scan = table.scan(snapshot_id=snapshot_id, selected_fields=tuple(columns))
    by_library: list[FileScanTask] = []
    others: list[FileScanTask] = []
    for task in scan.plan_files():
        files = (task.file, *task.delete_files)
        is_avro = any(file.file_format is FileFormat.AVRO for file in files)
        (others if is_avro else by_library).append(task)
    projection = scan.projection()
    reading = ArrowScan(table.metadata, table.io, projection, AlwaysTrue())
    try:
        yield from reading.to_record_batches(by_library)
    except _READ_ERRORS:
        # The library reads files side by side and does not say which one it could not read.
        for task in by_library:
            with naming_damage(table.io, task.file):
                # Again, one file at a time, only to name the damaged one.
                deque(reading.to_record_batches([task]), maxlen=0)
        raise
    for task in others:
        deleted = _deleted_positions(table.io, task)
        with naming_damage(table.io, task.file):
            yield from _rows_of_file(table, task.file, projection, deleted)


_READ_ERRORS = (OSError, ValueError, pa.ArrowException)


@contextmanager
def naming_damage(io: FileIO, file: DataFile) -> Iterator[None]:
    """Raise ``CorruptFile`` for a file that is missing or damaged; errors of the store pass.

    Arrow raises ``OSError`` for both, so the store is asked for all bytes of the file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptFile(f"a file of its snapshot is missing: {error}") from error
    except _READ_ERRORS as error:
        if isinstance(error, OSError) and not _has_bytes(io, file.file_path):
            raise
        what = f"{file.file_path} ({file.file_format.value.lower()})"
        raise CorruptFile(f"{what}: {error}") from error


def _has_bytes(io: FileIO, path: str) -> bool:
    try:
        with io.new_input(path).open() as stream:
            while stream.read(_PIECE):
                pass
    except OSError:
        return False
    return True


def _deleted_positions(io: FileIO, task: FileScanTask) -> npt.NDArray[np.int64]:
    """Return the positions of a data file's rows that its delete files name."""
    positions = [np.array([], np.int64)]
    for delete_file in task.delete_files:
        with naming_damage(io, delete_file), open_rows(io, delete_file) as rows:
            paths, numbers = (
                [field.field_id for field in rows.schema.fields].index(key)
                for key in (PATH_ID, POSITION_ID)
            )
            for batch in rows.batches:
                is_ours = pc.equal(batch.column(paths), task.file.file_path)
                positions.append(batch.column(numbers).filter(is_ours).to_numpy())
    return np.unique(np.concatenate(positions))


def _rows_of_file(
    table: LibraryTable, file: DataFile, columns: Schema, deleted: npt.NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    wanted = schema_to_pyarrow(columns, include_field_ids=False)
    first = 0
    with open_rows(table.io, file, table.name_mapping()) as rows:
        ids = [field.field_id for field in rows.schema.fields]
        for batch in rows.batches:
            arrays = [
                batch.column(ids.index(column.field_id)).cast(field.type)
                if column.field_id in ids
                else pa.nulls(len(batch), field.type)
                for column, field in zip(columns.fields, wanted, strict=True)
            ]
            kept = ~np.isin(np.arange(first, first + len(batch)), deleted)
            # Positions of deletes count all rows of the file, those that are deleted included.
            first += len(batch)
            yield pa.record_batch(arrays, names=wanted.names).filter(pa.array(kept))
