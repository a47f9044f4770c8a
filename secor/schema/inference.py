"""Types of rows that nobody declared: what is seen in them, widened until all of them fit.

The result is a function of the values alone.  How a decoder typed them depends on what else
was in the chunk, so a column counts only for what its own values show: a field without any
value has no type, doubles without any fraction are integers, JSON text of several kinds is
parsed and typed again.  Only doubles of a message's own schema stay doubles.

| seen | and | gives |
|---|---|---|
| nothing | anything | that |
| int64 | double | double; integers beyond 2^53 are rounded |
| decimal | decimal, int64 | a decimal that holds both, up to 38 digits |
| timestamps | finer ones | the finer unit, if both or none have a zone |
| structs | structs | all fields of both, at most ``MAX_FIELDS`` |
| lists, maps | lists, maps | element by element |
| anything | anything else | JSON text of both |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.decimals import MOST_DIGITS
from secor.arrow.nested_arrays import (
    JSON,
    as_json,
    children,
    entries,
    flatten,
    is_json,
    is_list,
    list_of,
    map_of,
    struct_of,
    text_of,
)
from secor.arrow.to_python import EXACT, is_integral
from secor.core.variant_json import LongNumber, dumps, is_declared, is_mixed, loads

Rows = npt.NDArray[np.int64]

MAX_FIELDS = 1000
"""Objects with more names than this are kept as JSON text: they are maps."""

UNITS = ("s", "ms", "us", "ns")
INT64 = range(-(1 << 63), 1 << 63)


def observe(array: pa.Array, *, marked: bool = False, declared: bool = False) -> pa.Array:
    """Return the column typed by its own values; ``marked`` says that it is JSON text, and
    ``declared`` that its messages' schema says that it is doubles.

    Struct fields are in the order of the column, those without a value left out.
    """
    kind = array.type
    # First: a column without values has the type that its neighbours gave it, which says nothing
    # about it.
    if array.null_count == len(array):
        return pa.nulls(len(array))
    if declared:
        return array.cast(pa.float64())
    if marked or is_json(kind):
        return typed(_parse_json(array))
    if pa.types.is_struct(kind):
        return _struct(array)
    if is_list(kind):
        values = _observe_field(kind.value_field, flatten(array))
        return list_of(values, pa.field("item", values.type), array)
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        items = _observe_field(kind.item_field, flat.field(1))
        return map_of(flat.field(0).cast(pa.string()), items, lists)
    return _scalar(array)


def _observe_field(field: pa.Field, array: pa.Array) -> pa.Array:
    return observe(array, marked=is_mixed(field), declared=is_declared(field))


def _struct(array: pa.StructArray) -> pa.StructArray:
    columns = [
        (field.name, _observe_field(field, column))
        for field, column in children(array)
        if column.null_count < len(column)
    ]
    fields = [pa.field(name, column.type) for name, column in columns]
    return struct_of([column for _, column in columns], fields, array)


def _scalar(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return observe(array.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return narrow(array.cast(pa.float64()))
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return array.cast(pa.int64())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return array.cast(pa.binary())
    return array


def narrow(doubles: pa.Array) -> pa.Array:
    """Return int64 if every one is an integer that a double holds exactly."""
    values = pc.fill_null(doubles, 0.0).to_numpy(zero_copy_only=False)
    whole = (np.trunc(values) == values) & (np.abs(values) <= EXACT)
    # -0.0 is no integer: as one it would lose its sign.
    if not whole.all() or (np.signbit(values) & (values == 0)).any():
        return doubles
    return doubles.cast(pa.int64())


def _parse_json(array: pa.Array) -> list[Any]:
    return [None if text is None else loads(text) for text in text_of(array).to_pylist()]


def typed_text(array: pa.Array) -> pa.Array:
    """Return JSON text typed without any loss: numbers that no type holds exactly stay text."""
    return typed(_parse_json(array), lossless=True)


def by_kind(array: pa.Array, target: pa.DataType) -> Iterator[tuple[Rows, pa.Array]]:
    """Part JSON text into columns of one kind each, as each row by itself would be typed.

    Null is of no kind.  Integers beyond 64 bits, and numbers with more digits than a double has,
    are decimals for a ``target`` of exact numbers.  For others such integers have no type: they
    stay JSON text, and so do objects with too many names, unless ``target`` is a map.
    """
    exact = is_exact_number(target)
    values = _parse_json(array)
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(_kind(value), []).append(row)
    for chosen in rows.values():
        chosen_values = [values[row] for row in chosen]
        if exact and _has_many_digits(chosen_values[0]):
            part = _decimals(chosen_values)
        elif isinstance(chosen_values[0], LongNumber):
            part = pa.array(list(map(float, chosen_values)), pa.float64())
        else:
            part = typed(chosen_values, lossless=True, target=target)
        yield np.array(chosen, dtype=np.int64), part


def is_exact_number(kind: pa.DataType) -> bool:
    """Return whether a column holds all digits of its numbers."""
    return bool(pa.types.is_decimal(kind) or pa.types.is_integer(kind))


def _has_many_digits(value: Any) -> bool:
    return isinstance(value, LongNumber) or _kind(value) == "big"


def _decimals(numbers: Sequence[int | LongNumber]) -> pa.Array:
    """Return decimals of one scale; JSON text if one has more digits than any type."""
    exact = [
        number.decimal() if isinstance(number, LongNumber) else Decimal(number)
        for number in numbers
    ]
    try:
        return pa.array(exact)
    except pa.ArrowInvalid:
        return as_json(pa.array([dumps(number) for number in numbers], pa.string()))


def _kind(value: Any) -> str:
    if isinstance(value, LongNumber):
        exact = value.decimal()
        return f"digits {exact and exact.as_tuple().exponent}"
    if isinstance(value, float) and is_integral(value):
        return "int"
    if type(value) is int and value not in INT64:
        return "big"
    return type(value).__name__


def typed(
    values: Sequence[Any], *, lossless: bool = False, target: pa.DataType | None = None
) -> pa.Array:
    """Return a column of values that were JSON text by the rules of this module.

    ``lossless`` leaves numbers text that would be rounded.  Where ``target`` is a map, objects
    become maps, with the entries that are null.
    """
    kinds = {type(value) for value in values if value is not None}
    if LongNumber in kinds:
        kinds = kinds - {LongNumber} | {float}
    if not kinds:
        return pa.nulls(len(values))
    column: pa.Array | None = None
    if kinds == {dict} and target is not None and pa.types.is_map(target):
        column = _maps(values, target.item_type)
    elif kinds == {dict}:
        column = _objects(values, lossless, target)
    elif kinds == {list}:
        column = _lists(values, lossless, target)
    elif kinds in ({str}, {bool}, {bytes}):
        column = pa.array(values)
    elif kinds <= {int, float}:
        column = _numbers(values, lossless)
    if column is None:
        texts = [None if value is None else dumps(value) for value in values]
        column = as_json(pa.array(texts, pa.string()))
    return column


def _numbers(values: Sequence[Any], lossless: bool) -> pa.Array | None:
    if any(isinstance(value, int) and value not in INT64 for value in values):
        return None
    if all(_is_whole(value) for value in values):
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    if lossless and any(_loses_digits(value) for value in values):
        return None
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _is_whole(value: Any) -> bool:
    if isinstance(value, LongNumber):
        return False
    return value is None or isinstance(value, int) or is_integral(value)


def _loses_digits(value: Any) -> bool:
    return isinstance(value, LongNumber) or (isinstance(value, int) and abs(value) > EXACT)


def _objects(values: Sequence[Any], lossless: bool, target: pa.DataType | None) -> pa.Array | None:
    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    if len(names) > MAX_FIELDS:
        return None
    targets = {} if target is None or not pa.types.is_struct(target) else dict(_types(target))
    columns = {
        name: typed(
            [None if value is None else value.get(name) for value in values],
            lossless=lossless,
            target=targets.get(name),
        )
        for name in names
    }
    known = {name: column for name, column in columns.items() if column.type != pa.null()}
    fields = [pa.field(name, column.type) for name, column in known.items()]
    return struct_of(
        list(known.values()), fields, pa.array([v is not None or None for v in values])
    )


def _types(struct: pa.StructType) -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in struct.fields)


def _maps(objects: Sequence[dict[str, Any] | None], target: pa.DataType) -> pa.MapArray:
    """Return objects as maps with items for ``target``: names in order, also those of null."""
    names = [None if stored is None else sorted(stored) for stored in objects]
    keys = pa.array(names, pa.list_(pa.string()))
    values = [stored[name] for stored in objects if stored is not None for name in sorted(stored)]
    return map_of(flatten(keys), typed(values, lossless=True, target=target), keys)


def _lists(values: Sequence[Any], lossless: bool, target: pa.DataType | None) -> pa.Array:
    flat = [item for value in values if value is not None for item in value]
    inner = target.value_type if target is not None and is_list(target) else None
    items = typed(flat, lossless=lossless, target=inner)
    like = pa.array([None if v is None else [None] * len(v) for v in values], pa.list_(pa.null()))
    return list_of(items, pa.field("item", items.type), like)


def widen(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds the values of both: commutative and associative, but that the
    fields of the first come first.
    """
    if kind == other or other == pa.null():
        return kind
    if kind == pa.null():
        return other
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return _union(kind, other)
    if is_list(kind) and is_list(other):
        return pa.list_(pa.field("item", widen(kind.value_type, other.value_type)))
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return pa.map_(pa.string(), widen(kind.item_type, other.item_type))
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        # An instant and the reading of a local clock have no common type: which zone the clock has
        # nobody knows.
        if (kind.tz is None) == (other.tz is None):
            zone = kind.tz if kind.tz == other.tz else "UTC"
            return pa.timestamp(max(kind.unit, other.unit, key=UNITS.index), zone)
        return JSON
    if {kind, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    return _decimal(kind, other) or JSON


def _union(struct: pa.StructType, other: pa.StructType) -> pa.DataType:
    kinds = {field.name: field.type for field in struct.fields}
    for field in other.fields:
        kinds[field.name] = widen(kinds.get(field.name, pa.null()), field.type)
    if len(kinds) > MAX_FIELDS:
        return JSON
    return pa.struct([pa.field(name, kind) for name, kind in kinds.items()])


def _decimal(kind: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    both = [
        (19, 0) if side == pa.int64() else (side.precision, side.scale)
        for side in (kind, other)
        if side == pa.int64() or pa.types.is_decimal128(side)
    ]
    if len(both) < 2:
        return None
    scale = max(scale for _, scale in both)
    # The digits before the point of the one, and behind it of the other: less would lose some of
    # either.
    digits = max(precision - scale for precision, scale in both) + scale
    return pa.decimal128(digits, scale) if digits <= MOST_DIGITS else None


def final(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column gets, ``null`` if it gets none.

    Objects and lists that were always empty are JSON text.
    """
    if pa.types.is_struct(kind):
        fields = [pa.field(field.name, final(field.type)) for field in kind.fields]
        fields = [field for field in fields if field.type != pa.null()]
        return pa.struct(fields) if fields else JSON
    if is_list(kind):
        item = final(kind.value_type)
        return JSON if item == pa.null() else pa.list_(pa.field("item", item))
    if pa.types.is_map(kind):
        item = final(kind.item_type)
        return JSON if item == pa.null() else pa.map_(pa.string(), item)
    return kind
