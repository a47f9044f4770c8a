"""Limits of values that a partition transform takes: beyond them a partition is a wrong one.

A transform that leaves the range of its type wraps round (``truncate``, ``hour``), gives null
(``year``, ``month``), or gives digits or a date that no manifest holds.  Readers filter by such a
value and pass over the rows, or nobody can commit the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""1 January of the year 1 and 31 December 9999: the dates of Python and of ISO 8601."""

_MICROSECONDS = 86_400_000_000

_LEAST_OF_INTEGERS: Mapping[type[IcebergType], int] = {
    IntegerType: -(1 << 31),
    LongType: -(1 << 63),
}

_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """The values of one column, by the names around it, that one partition field takes.

    ``least`` and ``greatest`` are included, None for no limit; those of times are integers.
    """

    names: tuple[str, ...]
    field: str
    least: int | Decimal | None
    greatest: int | None = None

    def faults(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why rows have no partition; a column that ``rows`` lack has no faults."""
        column: pa.Array = rows
        for name in self.names:
            place = column.type.get_field_index(name)
            if place < 0:
                return {}
            column = pc.struct_field(column, [place])
        values = _comparable(column)
        outside = pa.repeat(pa.scalar(False), len(values))
        if self.least is not None:
            outside = pc.or_(outside, pc.less(values, pa.scalar(self.least, values.type)))
        if self.greatest is not None:
            outside = pc.or_(outside, pc.greater(values, pa.scalar(self.greatest, values.type)))
        return {
            row: f"column {'.'.join(self.names)}: {values[row].as_py()} is outside the range of"
            f" the table's partition field {self.field}"
            for row in pc.indices_nonzero(outside).to_pylist()
        }


def partition_limits(spec: PartitionSpec, schema: Schema) -> Sequence[PartitionLimits]:
    """Return the limits of the spec's fields that have any."""
    limits = []
    for field in spec.fields:
        if isinstance(field.transform, VoidTransform):
            continue
        least, greatest = _range(field.transform, schema.find_type(field.source_id))
        if least is not None:
            column = schema.find_column_name(field.source_id)
            assert column is not None, "the spec was compared with the schema"
            names = _names(schema, field.source_id)
            limits.append(PartitionLimits(names, field.name, least, greatest))
    return limits


def takes_partitions(kind: IcebergType, transform: Transform[object, object]) -> bool:
    """Return whether rows are found by a partition value of a column of this type.

    Floating-point numbers are not: the library compares a double with the float that it stored.
    Nor are UUIDs themselves, which it compares with bytes.  Fixed-length bytes themselves end
    readers in Java: Iceberg 1.11 expects a length in front of them in manifests, which its own
    writer puts there and Avro does not have (apache/iceberg issue 17501).
    """
    if isinstance(kind, UUIDType | FixedType):
        return not isinstance(transform, IdentityTransform)
    return isinstance(transform, VoidTransform) or not isinstance(kind, FloatType | DoubleType)


def _range(
    transform: Transform[object, object], kind: IcebergType
) -> tuple[int | Decimal | None, int | None]:
    if isinstance(kind, DateType | TimestampType | TimestamptzType):
        if isinstance(transform, BucketTransform):
            return None, None
        if isinstance(kind, DateType):
            return _FIRST_DAY, _LAST_DAY
        return _FIRST_DAY * _MICROSECONDS, (_LAST_DAY + 1) * _MICROSECONDS - 1
    if isinstance(transform, IdentityTransform) or not isinstance(transform, TruncateTransform):
        return None, None
    if isinstance(kind, DecimalType):
        most = 10**kind.precision - 1
        # A value below the last whole multiple of the width would be truncated to one that has more
        # digits than the type.
        unscaled = -(most // transform.width * transform.width)
        return Decimal(unscaled).scaleb(-kind.scale, _EXACT), None
    least = _LEAST_OF_INTEGERS.get(type(kind))
    return (None if least is None else -(-least // transform.width * transform.width)), None


def _comparable(column: pa.Array) -> pa.Array:
    """Return times as the integers that they are."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column


def _names(schema: Schema, field_id: int) -> tuple[str, ...]:
    """Return the names of the structs around a column, and its own, which may have dots."""
    parents = schema._lazy_id_to_parent
    names = [schema.find_field(field_id).name]
    while (parent := parents.get(field_id)) is not None:
        field_id = parent
        names.insert(0, schema.find_field(field_id).name)
    return tuple(names)
