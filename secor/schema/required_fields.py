"""Fields that may not be null, as Parquet's writer wants them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from secor.arrow.nested_arrays import (
    entries,
    flatten,
    is_list,
    list_of,
    map_of,
)


def has_required(kind: pa.DataType) -> bool:
    """Return whether some field of messages in it, at any level, may not be null."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or has_required(field.type) for field in kind.fields)
    if is_list(kind):
        return has_required(kind.value_type)
    return bool(pa.types.is_map(kind) and has_required(kind.item_type))


def without_hidden_nulls(array: pa.Array) -> pa.Array:
    """Return the column with some value where a field that may not be null is within a null one.

    The writer refuses null there, though nobody can see it.
    """
    kind = array.type
    if not has_required(kind):
        return array
    if is_list(kind):
        return list_of(without_hidden_nulls(flatten(array)), kind.value_field, array)
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        return map_of(flat.field(0), without_hidden_nulls(flat.field(1)), lists)
    columns = [
        without_hidden_nulls(column if field.nullable else _filled(column))
        for field, column in zip(kind.fields, array.flatten(), strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(columns, fields=kind.fields, mask=mask)


def _filled(column: pa.Array) -> pa.Array:
    if not column.null_count:
        return column
    rows = np.arange(len(column))
    empty = column.is_null().to_numpy(zero_copy_only=False)
    return pa.concat_arrays([column, blank(column.type)]).take(
        pa.array(np.where(empty, len(column), rows))
    )


def blank(kind: pa.DataType) -> pa.Array:
    """Return one value of a type that a file stores: zero, nothing, or a struct of such."""
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [blank(field.type) for field in kind.fields], fields=kind.fields
        )
    if pa.types.is_nested(kind):
        return pa.array([[]], kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([b""]).cast(kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes(kind.byte_width)], kind)
    if pa.types.is_boolean(kind):
        return pa.array([False])
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
        return pa.array([0], width).cast(kind)
    return pa.array([0], kind)
