"""Tools for nested Arrow arrays: structs, lists and maps taken apart and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.variant_json import is_mixed

JSON = pa.json_(pa.string())
"""Type of JSON text: what has several kinds, or kinds that no column has."""


def is_json(kind: pa.DataType) -> bool:
    """Return whether it is ``JSON``."""
    return isinstance(kind, pa.JsonType)


def is_list(kind: pa.DataType) -> bool:
    """Return whether it is any kind of list."""
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def text_of(array: pa.Array) -> pa.Array:
    """Return the strings of JSON text or of a string column."""
    return array.storage if is_json(array.type) else array


def as_json(texts: pa.Array) -> pa.Array:
    """Return strings as JSON text."""
    return pa.ExtensionArray.from_storage(JSON, texts)


def struct_of(
    columns: Sequence[pa.Array], fields: Sequence[pa.Field], like: pa.Array
) -> pa.StructArray:
    """Put columns together, null where ``like`` is null."""
    if not fields:
        return pa.array([{} if valid else None for valid in like.is_valid().to_pylist()], EMPTY)
    mask = like.is_null() if like.null_count else None
    return pa.StructArray.from_arrays(list(columns), fields=list(fields), mask=mask)


EMPTY = pa.struct([])


def children(array: pa.StructArray) -> list[tuple[pa.Field, pa.Array]]:
    """Return a struct's fields and columns, null where the struct is null."""
    return list(zip(array.type.fields, array.flatten(), strict=True))


def offsets_of(array: pa.Array) -> pa.Array:
    """Return where the lists of ``array`` begin in its flattened values, null for null ones.

    The end of the last one is the last offset.
    """
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    if not array.null_count:
        return starts
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, starts, pa.scalar(None, pa.int32()))


def flatten(array: pa.Array) -> pa.Array:
    """Return what the lists of ``array`` hold, one after the other."""
    if array.null_count == len(array):  # Arrow does not do that with structs of JSON text
        return array.values[:0]
    # Not ``values``: that ignores the slice, and gives what null lists hide.
    return pc.list_flatten(array)


def list_of(values: pa.Array, field: pa.Field, like: pa.Array) -> pa.ListArray:
    """Put flattened values back into lists as those of ``like``."""
    return pa.ListArray.from_arrays(offsets_of(like), values, type=pa.list_(field))


def entries(array: pa.MapArray) -> tuple[pa.Array, pa.StructArray]:
    """Return a map column as lists of ``key`` and ``value``, and those lists' values."""
    if array.offset:  # Arrow's cast forgets it in columns of the null type
        array = array.take(pa.array(np.arange(len(array))))
    kind = array.type
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    # The names of a map's parts are free: the cast compares with the type's own ones.
    named = pa.struct([kind.key_field, kind.item_field])
    if array.null_count == len(array):  # Arrow has no such cast if the values are JSON text
        lists = pa.nulls(len(array), pa.list_(pa.field("entries", named)))
    else:
        lists = array.cast(pa.list_(pa.field("entries", named)))
    flat = flatten(lists)
    columns = flat.flatten()
    return lists, pa.StructArray.from_arrays(columns, fields=list(entry))


def map_of(
    keys: pa.Array, items: pa.Array, like: pa.Array, kind: pa.MapType | None = None
) -> pa.MapArray:
    """Put flattened keys and items back into maps as the lists of ``like``.

    ``kind`` is for a type that says more than those of keys and items, as that none is null.
    """
    return pa.MapArray.from_arrays(offsets_of(like), keys, items, kind)


def rebuild(array: pa.Array, leaf: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return ``array`` with every column that is not nested changed by ``leaf``."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [(field, rebuild(column, leaf)) for field, column in children(array)]
        fields = [pa.field(field.name, column.type, field.nullable) for field, column in parts]
        return struct_of([column for _, column in parts], fields, array)
    if is_list(kind):
        values = rebuild(flatten(array), leaf)
        return list_of(values, pa.field("item", values.type), array)
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        keys, items = flat.flatten()
        return map_of(keys, rebuild(items, leaf), lists)
    return leaf(array)


def together(parts: Sequence[tuple[Any, pa.Array]]) -> pa.Array:
    """Put columns of some rows each, with their places, back into the order of the rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    return pa.concat_arrays([part for _, part in parts]).take(pa.array(order))


def any_leaf(kind: pa.DataType, test: Callable[[pa.DataType], Any]) -> bool:
    """Return whether ``test`` holds for some column in it that is not nested."""
    if pa.types.is_struct(kind):
        return any(any_leaf(field.type, test) for field in kind.fields)
    if is_list(kind):
        return any_leaf(kind.value_type, test)
    if pa.types.is_map(kind):
        return any_leaf(kind.key_type, test) or any_leaf(kind.item_type, test)
    return bool(test(kind))


def null_keeping_names(kind: pa.DataType, name: str = "") -> frozenset[str]:
    """Return the names of fields in which null members of objects are kept: maps and JSON text."""
    if pa.types.is_struct(kind):
        below = (null_keeping_names(field.type, field.name) for field in kind.fields)
        return frozenset().union(*below)
    if is_list(kind):
        return null_keeping_names(kind.value_type, name)
    return frozenset({name} if pa.types.is_map(kind) or is_json(kind) else ())


def has_marks(field: pa.Field) -> bool:
    """Return whether a decoder marked some JSON text in it."""
    if is_mixed(field):
        return not is_json(field.type)
    kind = field.type
    return any(has_marks(kind.field(index)) for index in range(kind.num_fields))


def unmark(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return the column with what decoders marked as JSON text typed so."""
    kind = array.type
    if not has_marks(field):
        return array
    if is_mixed(field):
        return as_json(text_of(array))
    if pa.types.is_struct(kind):
        columns = [unmark(column, inner) for inner, column in children(array)]
        fields = [
            pa.field(inner.name, column.type)
            for inner, column in zip(kind.fields, columns, strict=True)
        ]
        return struct_of(columns, fields, array)
    if is_list(kind):
        values = unmark(flatten(array), kind.value_field)
        return list_of(values, pa.field("item", values.type), array)
    lists, flat = entries(array)
    return map_of(flat.field(0), unmark(flat.field(1), kind.item_field), lists)
