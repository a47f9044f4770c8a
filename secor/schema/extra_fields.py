"""Fields of messages for which a schema has no column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    children,
    entries,
    flatten,
    is_json,
    is_list,
    list_of,
    unmark,
)
from secor.core.variant_json import is_mixed
from secor.schema.inference import typed_text


def find_undeclared(array: pa.Array, kind: pa.DataType, *, marked: bool = False) -> pa.Array | None:
    """Return what ``kind`` has no place for, in the same structure, null where nothing is.

    ``array`` is a column that ``fitting.fitted`` takes as ``kind``.  Of a list or a map with
    something undeclared in an element it is the whole of it.
    """
    if array.null_count == len(array) or is_json(kind):
        return None
    if marked or is_json(array.type):
        array = typed_text(array)
    if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
        return _undeclared_fields(array, kind)
    if pa.types.is_struct(array.type) and pa.types.is_map(kind):
        fields = pa.struct([pa.field(field.name, kind.item_type) for field in array.type.fields])
        return _undeclared_fields(array, fields)
    if is_list(array.type) and is_list(kind):
        mark = is_mixed(array.type.value_field)
        return _undeclared_items(array, flatten(array), kind.value_type, marked=mark)
    if pa.types.is_map(array.type) and pa.types.is_map(kind):
        items = entries(array)[1].field(1)
        return _undeclared_items(
            array, items, kind.item_type, marked=is_mixed(array.type.item_field)
        )
    return None


def _undeclared_fields(array: pa.StructArray, kind: pa.StructType) -> pa.Array | None:
    targets = {field.name: field.type for field in kind.fields}
    names: list[pa.Field] = []
    columns: list[pa.Array] = []
    for field, column in children(array):
        more, mark = column, is_mixed(field)
        if field.name in targets:
            more = find_undeclared(column, targets[field.name], marked=mark)
        else:
            more = unmark(column, field)
        if more is not None and more.null_count < len(more):
            names.append(pa.field(field.name, more.type))
            columns.append(more)
    if not columns:
        return None
    valid = columns[0].is_valid()
    for column in columns[1:]:
        valid = pc.or_(valid, column.is_valid())
    return pa.StructArray.from_arrays(columns, fields=names, mask=pc.invert(valid))


def _undeclared_items(
    array: pa.Array, items: pa.Array, kind: pa.DataType, *, marked: bool
) -> pa.Array | None:
    more = find_undeclared(items, kind, marked=marked)
    if more is None:
        return None
    lists = entries(array)[0] if pa.types.is_map(array.type) else array
    flags = list_of(more.is_valid(), pa.field("item", pa.bool_()), lists)
    has_extra: list[Any] = [
        bool(item_flags) and any(item_flags) for item_flags in flags.to_pylist()
    ]
    rows = np.where(np.array(has_extra, dtype=bool), np.arange(len(array)), -1)
    extra = array.take(pa.array(rows, pa.int64(), mask=rows < 0))
    return unmark(extra, pa.field("found", array.type))
