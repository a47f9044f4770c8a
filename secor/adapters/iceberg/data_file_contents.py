"""Contents of data files as their metadata should describe them: counts, least and greatest values.

Shares nothing with what writes metadata: the values themselves are counted and compared.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from secor.adapters.iceberg.data_file_rows import EXACT, open_rows

_INTEGERS = (
    *(IntegerType, LongType, DateType, TimeType),
    *(TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType),
)
_NANOSECONDS = (TimestampNanoType, TimestamptzNanoType)
_FLOATING = (FloatType, DoubleType)

NAN = "NaN"
"""In place of the number, which is not equal to itself."""


@dataclass
class ColumnContents:
    """Values of one column that is not within a list or map, added batch by batch.

    Values are *plain*: integers for times and unscaled decimals, bytes for texts and UUIDs.
    ``nulls`` has the rows in which a struct around the column is null, ``hidden``, too.
    ``buckets`` are results by the number of buckets, None for a null.
    """

    name: str
    kind: PrimitiveType
    bucket_counts: Sequence[int] = ()
    nulls: int = 0
    hidden: int = 0
    nans: int = 0
    least: Any = None
    greatest: Any = None
    buckets: dict[int, set[int | None]] = field(default_factory=dict)

    def add(self, array: pa.Array, hidden: int) -> None:
        """Add the values of one batch."""
        self.nulls += array.null_count
        self.hidden += hidden
        values = _comparable(array, self.kind).drop_null()
        if isinstance(self.kind, _FLOATING):
            # Iceberg counts NaN, and no bound may be one.
            is_nan = pc.is_nan(values)
            self.nans += is_nan.true_count
            values = values.filter(pc.invert(is_nan))
        for count in self.bucket_counts:
            self.buckets.setdefault(count, set()).update(self._buckets(values, count))
            if array.null_count:
                self.buckets[count].add(None)
        if len(values):
            least, greatest = _ends(values)
            if self.least is None or order_key(least) < order_key(self.least):
                self.least = least
            if self.greatest is None or order_key(greatest) > order_key(self.greatest):
                self.greatest = greatest

    def _buckets(self, values: pa.Array, count: int) -> set[int | None]:
        """Compute buckets by the Python code of the library: Secor's writer uses another one."""
        bucket_of = BucketTransform(num_buckets=count).transform(self.kind)
        return {bucket_of(value) for value in _library_values(values, self.kind)}


@dataclass
class FileContents:
    """One whole data file.

    ``columns`` are by field id; ``row_groups`` and ``left_out`` as in ``FileRows``.
    """

    size: int
    records: int = 0
    columns: dict[int, ColumnContents] = field(default_factory=dict)
    row_groups: tuple[int, ...] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def read_contents(
    io: FileIO,
    file: DataFile,
    mapping: NameMapping | None,
    schema: Schema,
    buckets: Mapping[int, Sequence[int]],
) -> FileContents:
    """Read a file, a batch at a time; ``buckets`` are numbers of buckets by field id.

    Columns that the table's ``schema`` has in nanoseconds are read in these; those that are wider
    there than in the file have that type.
    """
    contents = FileContents(len(io.new_input(file.file_path)))
    with open_rows(io, file, mapping) as rows:
        fields = rows.schema.fields
        for batch in rows.batches:
            contents.records += len(batch)
            arrays = zip(fields, batch.columns, strict=True)
            for field_, array in arrays:
                for name, leaf, values, hidden in _leaves(field_, _decoded(array), 0, ()):
                    key = leaf.field_id
                    if key not in contents.columns:
                        kind = _kind(schema, leaf)
                        contents.columns[key] = ColumnContents(name, kind, buckets.get(key, ()))
                    contents.columns[key].add(values, hidden)
        contents.row_groups = rows.row_groups
        contents.left_out = dict(rows.left_out or {})
    # Only now is it known: a later stripe may leave out a column that earlier ones had, and the
    # nulls in its place are no values.
    for name in contents.left_out:
        parts = [
            key
            for key, column in contents.columns.items()
            if column.name == name or column.name.startswith(f"{name}.")
        ]
        for key in parts:
            del contents.columns[key]
    return contents


def _kind(schema: Schema, leaf: NestedField) -> PrimitiveType:
    kind = leaf.field_type
    assert isinstance(kind, PrimitiveType)
    if leaf.field_id in schema._lazy_id_to_field:
        wanted = schema.find_type(leaf.field_id)
        if isinstance(wanted, (*_NANOSECONDS, LongType, DoubleType)):
            return wanted
    return kind


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _leaves(
    column: NestedField, array: pa.Array, hidden: int, around: tuple[str, ...]
) -> Iterator[tuple[str, NestedField, pa.Array, int]]:
    """Give the columns of scalars within structs; readers filter by no others.

    A value within a null struct is null.
    """
    names = (*around, column.name)
    kind: IcebergType = column.field_type
    if isinstance(kind, StructType):
        nulls = array.null_count
        for inner, values in zip(kind.fields, array.flatten(), strict=True):
            yield from _leaves(inner, _decoded(values), nulls, names)
    elif isinstance(kind, PrimitiveType):
        yield ".".join(names), column, array, hidden


def _comparable(array: pa.Array, kind: PrimitiveType) -> pa.Array:
    """Return an array that Arrow orders as Iceberg orders the column."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    arrow = array.type
    if pa.types.is_timestamp(arrow):
        unit = "ns" if isinstance(kind, _NANOSECONDS) else "us"
        finer = arrow.unit == "ns" and unit == "us"
        return array.cast(pa.timestamp(unit, arrow.tz), safe=not finer).cast(pa.int64())
    if pa.types.is_time(arrow):
        return array.cast(pa.time64("us"), safe=arrow.unit != "ns").cast(pa.int64())
    if pa.types.is_date32(arrow):
        return array.cast(pa.int32())
    if pa.types.is_floating(arrow):
        return array.cast(pa.float64())
    if pa.types.is_boolean(arrow) or pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
        return array
    return array.cast(pa.large_binary())


def _ends(values: pa.Array) -> tuple[Any, Any]:
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        # Iceberg orders −0.0 before 0.0, Arrow takes them for equal.
        bits = numbers.view(np.int64)
        keys = np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits)
        return float(numbers[keys.argmin()]), float(numbers[keys.argmax()])
    ends = pc.min_max(values)
    return plain(ends["min"].as_py()), plain(ends["max"].as_py())


def order_key(value: Any) -> Any:
    """Return what compares as Iceberg orders plain values: −0.0 is before 0.0."""
    if not isinstance(value, float):
        return value
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits ^ ((1 << 63) - 1) if bits < 0 else bits


def plain(value: Any) -> Any:
    """Return a value of the library, or of Arrow, as a plain one."""
    match value:
        case Decimal():
            sign, digits, _ = value.as_tuple()  # arithmetic would round
            number = int("".join(map(str, digits)))
            return -number if sign else number
        case str():
            return value.encode()
        case uuid.UUID():
            return value.bytes
        case float() if value != value:
            return NAN
    return value


def _library_values(values: pa.Array, kind: PrimitiveType) -> Iterator[Any]:
    """Give different values as transforms of the library take them."""
    read: Callable[[Any], Any] = lambda value: value  # noqa: E731
    match kind:
        case StringType():
            read = bytes.decode
        case UUIDType():
            read = _uuid
    yield from map(read, values.unique().to_pylist())


def _uuid(value: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=value)


def decode_bound(kind: PrimitiveType, data: bytes) -> Any:
    """Return a bound as a plain value (Iceberg specification, appendix D).

    Bounds from before a column became wider have fewer bytes.  Raises ``ValueError``.
    """
    match kind:
        case BooleanType():
            if len(data) != 1:
                raise ValueError(f"{len(data)} bytes")
            return data != b"\x00"
        case FloatType() | DoubleType():
            forms = {4: "<f", 8: "<d"}
            if len(data) not in forms:
                raise ValueError(f"{len(data)} bytes")
            return plain(struct.unpack(forms[len(data)], data)[0])
        case DecimalType():
            if not data:
                raise ValueError("no bytes")
            return int.from_bytes(data, "big", signed=True)
        case StringType():
            data.decode()
            return data
    if isinstance(kind, _INTEGERS):
        if len(data) not in (4, 8):
            raise ValueError(f"{len(data)} bytes")
        return int.from_bytes(data, "little", signed=True)
    return data


LONGEST_BOUND = 16
"""Characters or bytes of bounds that are recorded anew, as with Iceberg's default."""


def encode_bound(kind: PrimitiveType, value: Any, *, is_upper: bool = False) -> bytes | None:
    """Return a bound for a plain value; None, which is always right, above a long text.

    UUIDs get none: readers order them differently.
    """
    if isinstance(kind, UUIDType):
        return None
    if isinstance(value, bytes):
        if isinstance(kind, StringType):
            cut = value.decode()[:LONGEST_BOUND].encode()
        else:
            cut = value[:LONGEST_BOUND]
        # A text that was cut is less than the whole: right as a lower bound, wrong as an upper one.
        return None if is_upper and cut != value else cut
    match kind:
        case BooleanType():
            return b"\x01" if value else b"\x00"
        case FloatType():
            return struct.pack("<f", value)
        case DoubleType():
            return struct.pack("<d", value)
        case DecimalType():
            # The fewest bytes of two's complement, as the specification asks: // 8 + 1 has room for
            # the sign's bit.
            size = (value if value >= 0 else ~value).bit_length() // 8 + 1
            return int(value).to_bytes(size, "big", signed=True)
    return struct.pack("<i" if isinstance(kind, IntegerType | DateType) else "<q", value)


LONGEST_SHOWN = 60
"""Characters of a value in a finding."""


def show(kind: IcebergType | None, value: Any) -> str:
    """Return a plain value as a person writes it."""
    match kind, value:
        case _, None:
            return "null"
        case StringType(), bytes():
            return _cut(repr(value.decode(errors="backslashreplace")))
        case _, bytes():
            return _cut(f"0x{value.hex()}")
        case DecimalType(), int():
            return str(Decimal(value).scaleb(-kind.scale, EXACT))
        case DateType(), int():
            return str(np.datetime64(value, "D"))
        case ((TimestampType() | TimestamptzType()), int()):
            return f"{np.datetime64(value, 'us')} ({value})"
        case ((TimestampNanoType() | TimestamptzNanoType()), int()):
            return f"{np.datetime64(value, 'ns')} ({value})"
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text)} long)"
