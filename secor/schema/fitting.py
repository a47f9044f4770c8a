"""Fitting of decoded rows to declared types: exactly, or the message goes into quarantine.

| declared | takes |
|---|---|
| string | text, text in binary; with ``any_text`` every value |
| binary | binary, text as its UTF-8 |
| int, double | numbers of any width if nothing is lost, text that is such a number |
| decimal | integers, text, doubles that are written with that many digits |
| bool | bool |
| date, time, timestamp | the same if nothing is lost, ISO 8601 text, integers in its unit |
| date, timestamp, time | of these, what is of the years 1 to 9999, and of one day |
| struct, list | the same; a struct's fields by name |
| map | maps, structs |
| json | anything |

``TypeRules.exact`` takes no text as a number, a date or a time of day: where nobody declared types,
"007" is no 7.  Text is a timestamp there if it has date, time and, for instants, an offset.

How a decoder typed a value depends on its neighbours: 5 is a double next to 1.5, and JSON text
next to "x".  Here it is the same 5 in all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    any_leaf,
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
    together,
    unmark,
)
from secor.arrow.scalar_casts import (
    DECLARED,
    TypeRules,
    cast,
    castable_rows,
    is_bytes,
    is_text,
    takes,
)
from secor.arrow.time_limits import is_limited
from secor.arrow.to_python import any_texts, json_texts, plain, write_out
from secor.core.variant_json import is_mixed, loads
from secor.schema.descriptions import DEFAULT
from secor.schema.inference import by_kind


class MisfitError(Exception):
    """Some value of a column does not fit; the text is ``path: reason``.

    Where rows are many it is not asked for: ``say`` finds it when it is.
    """

    def __init__(self, say: Callable[[], str]) -> None:
        """Take what finds the text."""
        super().__init__()
        self._say = say

    def __str__(self) -> str:
        """Return the text."""
        return self._say()


def fit_array(
    array: pa.Array,
    target: pa.Field,
    path: str,
    *,
    marked: bool = False,
    rules: TypeRules = DECLARED,
) -> pa.Array:
    """Return ``array`` as ``target`` says.  Raises ``MisfitError`` if one value does not fit.

    ``marked`` says that it is JSON text.  Null becomes the default of a field that has
    one, and fits only fields that may be null.
    """
    kind = target.type
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)  # whatever type other rows have given it
    if rules.any_text and is_text(kind) and (marked or not _is_plain_text(array.type)):
        return _any_texts(as_json(text_of(array)) if marked else array, kind, path)
    if marked or is_json(array.type):
        array = as_json(text_of(array))
        if not is_json(kind):
            return _by_kind(array, target, path, rules=rules)
    # With metadata: that marks JSON text in the one, and has the defaults of the other.
    if array.type.equals(kind, check_metadata=True) and not any_leaf(kind, _is_checked):
        return array
    if is_json(kind):  # parsed text is made canonical
        return as_json(json_texts(unmark(array, pa.field(path, array.type)), nulls=True))
    if pa.types.is_struct(kind):
        return fit_struct(array, kind, path, rules=rules)
    if is_list(kind):
        return _list(array, kind, path, rules=rules)
    if pa.types.is_map(kind):
        return _map(array, kind, path, rules=rules)
    return _scalar(array, kind, path, rules=rules)


def _is_plain_text(kind: pa.DataType) -> bool:
    return is_text(kind) or is_bytes(kind)


def _any_texts(array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    try:
        return any_texts(unmark(array, pa.field(path, array.type))).cast(kind)
    except UnicodeDecodeError as error:
        raise _misfit(path, array, kind) from error


def _is_checked(kind: pa.DataType) -> bool:
    return is_json(kind) or is_limited(kind)


def _by_kind(array: pa.Array, target: pa.Field, path: str, *, rules: TypeRules) -> pa.Array:
    """Fit JSON text of several kinds, each value as if it had come alone."""
    parts = []
    for rows, part in by_kind(array, target.type):
        if is_json(part.type):
            raise _misfit(path, part, target.type)
        parts.append((rows, fit_array(part, target, path, rules=rules)))
    return together(parts)


def _items(
    items: pa.Array, target: pa.Field, path: Callable[[int], str], *, marked: bool, rules: TypeRules
) -> pa.Array:
    """Return what lists or maps hold; a misfit names the ``path`` of the first item that is none.

    Null is none where the type says so.
    """

    def fit(part: pa.Array, first: int) -> pa.Array:
        if part.null_count and not target.nullable:
            raise MisfitError(lambda: f"{path(first)}: is missing")
        return fit_array(part, target, path(first), marked=marked, rules=rules)

    def misfit(part: pa.Array, first: int) -> MisfitError | None:
        try:
            fit(part, first)
        except MisfitError as error:
            return error
        return None

    def say() -> str:
        counts = range(1, len(items) + 1)
        # Halved, not one by one: a list of a million items has its culprit after twenty tries.
        first = bisect_left(counts, True, key=lambda count: misfit(items[:count], 0) is not None)
        return str(misfit(items[first : first + 1], first))

    if not len(items):
        return pa.nulls(0, target.type)
    try:
        return fit(items, 0)
    except MisfitError as error:
        # The reason is only looked for when it is asked for: most misfits are found again row by
        # row.
        raise error if len(items) == 1 else MisfitError(say) from None


def fit_struct(
    array: pa.Array, kind: pa.StructType, path: str, *, rules: TypeRules = DECLARED
) -> pa.StructArray:
    """Return a struct column with exactly the fields of ``kind``."""
    if not pa.types.is_struct(array.type):
        raise _misfit(path, array, kind)
    columns = {field.name: (field, column) for field, column in children(array)}
    fitted_columns = [
        fit_field(*columns.get(target.name, (None, None)), target, array, path, rules=rules)
        for target in kind.fields
    ]
    return struct_of(fitted_columns, list(kind.fields), array)


def fit_field(
    field: pa.Field | None,
    column: pa.Array | None,
    target: pa.Field,
    parent: pa.Array,
    path: str = "",
    *,
    rules: TypeRules = DECLARED,
) -> pa.Array:
    """Return the column ``target`` of struct ``parent``, made of ``column`` if it is there."""
    inner = f"{path}.{target.name}" if path else target.name
    if field is None:
        column = pa.nulls(len(parent), target.type)
    else:
        column = fit_array(column, target, inner, marked=is_mixed(field), rules=rules)
    return fill_missing(column, target, parent, inner)


def fill_missing(column: pa.Array, target: pa.Field, parent: pa.Array, path: str) -> pa.Array:
    """Replace null by the default; else refuse it where the field may not be null."""
    if not column.null_count or (target.nullable and not target.metadata):
        return column
    if target.metadata and DEFAULT in target.metadata:
        # The default as one more row, from which empty ones take it.
        both = pa.concat_arrays([column, default_of(target, path)])
        rows = np.arange(len(column))
        empty = column.is_null().to_numpy(zero_copy_only=False)
        return both.take(pa.array(np.where(empty, len(column), rows)))
    if not target.nullable and pc.any(pc.and_(column.is_null(), parent.is_valid())).as_py():
        raise MisfitError(lambda: f"{path}: is missing")
    return column


def default_of(target: pa.Field, path: str) -> pa.Array:
    """Return a field's default as a column of one row.  Raises ``MisfitError``."""
    constant = as_json(pa.array([target.metadata[DEFAULT].decode()], pa.string()))
    return fit_array(constant, target, path)


def _list(array: pa.Array, kind: pa.ListType, path: str, *, rules: TypeRules) -> pa.Array:
    if not is_list(array.type):
        raise _misfit(path, array, kind)
    marked = is_mixed(array.type.value_field)
    flat = flatten(array)
    values = _items(flat, kind.value_field, lambda _: f"{path}[]", marked=marked, rules=rules)
    return list_of(values, kind.value_field, array)


def _map(array: pa.Array, kind: pa.MapType, path: str, *, rules: TypeRules) -> pa.Array:
    if pa.types.is_struct(array.type):
        return _map_of_struct(array, kind, path, rules=rules)
    if not pa.types.is_map(array.type):
        raise _misfit(path, array, kind)
    lists, flat = entries(array)
    marked = is_mixed(array.type.item_field)
    keys = flat.field(0).cast(pa.string())

    def inner(place: int) -> str:
        return f"{path}.{keys[place]}"

    items = _items(flat.field(1), kind.item_field, inner, marked=marked, rules=rules)
    return map_of(keys, items, lists, kind)


def _map_of_struct(
    array: pa.StructArray, kind: pa.MapType, path: str, *, rules: TypeRules
) -> pa.Array:
    """A struct's fields are the keys, by name, those without a value left out."""
    parts = [
        (field.name, fit_array(column, kind.item_field, inner, marked=is_mixed(field), rules=rules))
        # By name: the order in which the fields of a chunk came up must not change the file.
        for field, column in sorted(children(array), key=lambda child: child[0].name)
        for inner in (f"{path}.{field.name}",)
        if column.null_count < len(column)
    ]
    valid = array.is_valid().to_pylist()
    present = [column.is_valid().to_pylist() for _, column in parts]
    keys: list[list[str] | None] = []
    places: list[int] = []
    for row in range(len(array)):
        present_fields = [index for index, rows in enumerate(present) if rows[row]]
        keys.append([parts[index][0] for index in present_fields] if valid[row] else None)
        places += [index * len(array) + row for index in present_fields]
    lists = pa.array(keys, pa.list_(pa.string()))
    columns = [column for _, column in parts]
    items = pa.concat_arrays(columns) if columns else pa.nulls(0, kind.item_type)
    return map_of(flatten(lists), items.take(pa.array(places, pa.int64())), lists, kind)


def _scalar(array: pa.Array, kind: pa.DataType, path: str, *, rules: TypeRules) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if array.type != kind and not takes(kind, array.type, exact=rules.exact):
        raise _misfit(path, array, kind)
    try:
        return cast(array, kind, exact=rules.exact)
    except (pa.ArrowException, ValueError) as error:
        raise _misfit(path, array, kind) from error


def fit_singly(
    array: pa.Array, kind: pa.DataType, path: str, *, rules: TypeRules
) -> list[pa.Array | str]:
    """Return each value of a column of scalars as one row of ``kind``, or why it is none.

    No value is null.
    """
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    results: list[pa.Array | str] = [""] * len(array)
    if array.type == kind or takes(kind, array.type, exact=rules.exact):
        for row in castable_rows(array, kind):
            with suppress(pa.ArrowException, ValueError):
                results[row] = cast(array.slice(row, 1), kind, exact=rules.exact)
    rest = [row for row, result in enumerate(results) if isinstance(result, str)]
    values = _values(array.take(pa.array(rest, pa.int64())))
    for row, value in zip(rest, values, strict=True):
        results[row] = _refusal(path, value, kind)
    return results


def _misfit(path: str, array: pa.Array, kind: pa.DataType) -> MisfitError:
    """Name the first value: when the column is one row, that is the culprit."""

    def say() -> str:
        first = _values(array.drop_null()[:1])
        return _refusal(path, first[0] if first else None, kind)

    return MisfitError(say)


def _values(array: pa.Array) -> list[Any]:
    texts = unmark(array, pa.field("", array.type))
    return plain(write_out(texts), integral=True)


def _refusal(path: str, value: Any, kind: pa.DataType) -> str:
    plain_value = _with_numbers(value)
    shown = str(value) if isinstance(value, Decimal) else repr(plain_value)
    shown = "null" if value is None else shown[:60]
    return f"{path or 'message'}: {shown} is no {kind}"


def _with_numbers(value: Any) -> Any:
    """Return a plain value with the numbers in it as ready JSON, names in order."""
    if isinstance(value, msgspec.Raw):
        return loads(bytes(value).decode())
    if isinstance(value, dict):
        return {name: _with_numbers(value[name]) for name in sorted(value)}
    return [_with_numbers(item) for item in value] if isinstance(value, list) else value
