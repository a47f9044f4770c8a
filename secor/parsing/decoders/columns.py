"""Building of Arrow columns from the Python objects that decoders make."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import pyarrow as pa

from secor.core.variant_json import MIXED, dumps
from secor.parsing.decoders.extent import (
    MAX_FIELDS,
    Node,
    divide,
    oversized,
)
from secor.parsing.fields import field_at, text_of
from secor.parsing.rows import Decoded, Rows

MAX_DEPTH = 64
"""Deeper messages are bad: some of the libraries below overflow the C stack on them."""

MOST_FIELDS = 10_000
"""Fields of one schema: types that are used again and again can make any number of a few lines."""

NULL_PAYLOAD = "null payload"
EMPTY_PAYLOAD = "empty payload"

EXACT = 1 << 53
INT64 = range(-(1 << 63), 1 << 63)


class Undecodable(Exception):
    """One message cannot be decoded; the text is the reason.  Never leaves a decoder."""


def rowwise(
    messages: pa.RecordBatch, decode: Callable[[bytes], Any], *, empty: bool = False
) -> tuple[list[Any], dict[int, str]]:
    """Decode each value by itself; gives the objects (None where bad) and the reasons.

    ``empty``: no bytes are a message, too.
    """
    objects: list[Any] = []
    bad: dict[int, str] = {}
    for row, raw in enumerate(messages.column("value").to_pylist()):
        try:
            if raw is None or not (raw or empty):
                raise Undecodable(NULL_PAYLOAD if raw is None else EMPTY_PAYLOAD)
            objects.append(decode(raw))
        except Undecodable as error:
            objects.append(None)
            bad[row] = str(error)
    return objects, bad


def build_decoded(
    objects: Sequence[Any], bad: Mapping[int, str], paths: tuple[str, ...] | None
) -> Decoded:
    """Build the answer of a decoder from one dictionary a message."""
    if paths is None:
        return Decoded(everything(objects, bad), bad)
    columns = [scalars([first(item, ways) for item in objects]) for ways in map(ways_of, paths)]
    return Decoded(struct_of(columns, paths, len(objects), bad), bad)


def build_apart(
    objects: list[Any], bad: dict[int, str], messages: pa.RecordBatch
) -> list[tuple[Rows, Decoded]]:
    """Build all fields of one dictionary a message, in groups: see ``extent``.

    A message that is ``oversized`` is added to ``bad``.
    """
    sizes = [len(raw or b"") for raw in messages.column("value").to_pylist()]
    for row, item in enumerate(objects):
        reason = oversized(item, sizes[row])
        if reason is not None:
            objects[row], bad[row] = None, reason
    return [(rows, _group(objects, bad, rows, node)) for rows, node in divide(objects, sizes)]


def _group(objects: Sequence[Any], bad: Mapping[int, str], rows: Rows, node: Node) -> Decoded:
    first, last = int(rows[0]) if len(rows) else 0, len(rows)
    own = {row - first: bad[row] for row in sorted(bad) if first <= row < first + last}
    return Decoded(everything(objects[first : first + last], own, node), own)


class ObjectWithNulls(dict[str, Any]):
    """An object whose null members are kept.

    Its column becomes JSON text: in a column of structs a null member is the same as none.
    """


def keep_nulls(objects: Sequence[Any], names: Set[str]) -> list[Any]:
    """Return decoded messages with ``ObjectWithNulls`` in the fields of these names.

    ``names`` are in small letters.  A message without a null member there is returned itself.
    """
    return [_keep_nulls(item, names, keeping=False) for item in objects]


def _keep_nulls(value: Any, names: Set[str], *, keeping: bool) -> Any:
    if type(value) is list:
        items = [_keep_nulls(item, names, keeping=keeping) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if type(value) is not dict:
        return value
    if keeping:
        return ObjectWithNulls(value) if _has_null(value) else value
    members = {
        name: _keep_nulls(item, names, keeping=name.lower() in names)
        for name, item in value.items()
    }
    return value if all(map(operator.is_, members.values(), value.values())) else members


def _has_null(value: Any) -> bool:
    inner = value.values() if type(value) is dict else value
    return any(
        (item is None and type(value) is dict) or (type(item) in (dict, list) and _has_null(item))
        for item in inner
    )


def ways_of(path: str) -> list[tuple[str, ...]]:
    """Return where a dotted path may lead: to a field of that whole name, which comes first, or
    along.
    """
    steps = tuple(path.split("."))
    return [steps] if len(steps) == 1 else [(path,), steps]


def first(value: Any, ways: Sequence[tuple[str, ...]]) -> Any:
    """Return what the first of several ways through nested dictionaries finds."""
    for names in ways:
        inner = lookup(value, names)
        if inner is not None:
            return inner
    return None


def lookup(value: Any, names: Sequence[str]) -> Any:
    """Follow ``names`` through nested dictionaries; None where there is nothing."""
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def struct_of(
    columns: Sequence[pa.Array], names: Sequence[str], rows: int, bad: Mapping[int, str]
) -> pa.StructArray:
    """Put equally long columns together, null where a row is bad."""
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return _mask_bad(columns, fields, rows, bad)


def _mask_bad(
    columns: Sequence[pa.Array], fields: Sequence[pa.Field], rows: int, bad: Mapping[int, str]
) -> pa.StructArray:
    if not columns:
        return pa.array([None if row in bad else {} for row in range(rows)], pa.struct([]))
    mask = pa.array([row in bad for row in range(rows)], pa.bool_()) if bad else None
    return pa.StructArray.from_arrays(columns, fields=list(fields), mask=mask)


def scalars(values: Sequence[Any]) -> pa.Array:
    """One column of string, int64, double, bool or binary.

    Integers among doubles become doubles when every one is exact; integers beyond int64
    and every other mixture become text as ``text_of`` has it: what a path or a filter sees
    depends neither on the kinds of its neighbours nor on the format that is written.
    """
    kinds = set(map(type, values))
    kinds.discard(type(None))
    array = _plain(values, kinds)
    if array is None:
        array = pa.array([text_of(value) for value in values], pa.string())
    return array


def _plain(values: Sequence[Any], kinds: set[type]) -> pa.Array | None:
    """Return the column if its values are of one plain kind, else None."""
    if not kinds or kinds == {str}:
        return pa.array(values, pa.string())
    if kinds == {int}:
        return _integers(values)
    if kinds <= {int, float}:
        # ``type`` and not ``isinstance``: a truth is an int for Python.
        exact = all(type(value) is not int or -EXACT <= value <= EXACT for value in values)
        return pa.array(values, pa.float64()) if exact else None
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    return pa.array(values, pa.binary()) if kinds == {bytes} else None


def _integers(values: Sequence[Any]) -> pa.Array | None:
    try:
        return pa.array(values, pa.int64())
    except (OverflowError, pa.ArrowInvalid):  # beyond int64: as text, digit by digit
        return None


def everything(
    objects: Sequence[Any], bad: Mapping[int, str], node: Node | None = None
) -> pa.StructArray:
    """Infer nested columns from dictionaries; names in the order of their appearance.

    A field of several kinds is its JSON text with the metadata ``MIXED``; a field that
    is always null has the null type.  ``node`` has the objects with too many names in
    the whole chunk; these may be a part of it.
    """
    names = _names(objects)
    columns, fields = [], []
    for name in names:
        below = None if node is None else node.fields.get(name)
        values = [None if item is None else item.get(name) for item in objects]
        column, mixed = infer(values, below)
        columns.append(column)
        fields.append(_field(name, column, mixed))
    return _mask_bad(columns, fields, len(objects), bad)


def _names(objects: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(name for item in objects if item is not None for name in item))


def _field(name: str, column: pa.Array, mixed: bool) -> pa.Field:
    return pa.field(name, column.type, metadata=MIXED if mixed else None)


def infer(values: Sequence[Any], node: Node | None = None) -> tuple[pa.Array, bool]:
    """Return the column of values, and whether it holds JSON text of several kinds."""
    kinds = set(map(type, values))
    kinds.discard(type(None))
    array: pa.Array | None
    if not kinds:
        return pa.nulls(len(values)), False
    if kinds == {dict}:
        array = _build_nested(values, node)
    elif kinds == {list}:
        array = _lists(values, node)
    else:
        array = _plain(values, kinds)
    if array is not None:
        return array, False
    texts = [None if value is None else dumps(value) for value in values]
    return pa.array(texts, pa.string()), True


def _build_nested(values: Sequence[Any], node: Node | None) -> pa.Array | None:
    if (node is not None and node.crowded) or len(_names(values)) > MAX_FIELDS:
        return None
    missing = {row: "" for row, value in enumerate(values) if value is None}
    return everything(values, missing, node)


def _lists(values: Sequence[Any], node: Node | None) -> pa.Array:
    flat = [item for value in values if value is not None for item in value]
    column, mixed = infer(flat, None if node is None else node.item)
    ends, count = [], 0
    for value in values:
        ends.append(None if value is None else count)
        count += len(value or ())
    # A null among the offsets is a null list for Arrow.
    offsets = pa.array([*ends, count], pa.int32())
    return pa.ListArray.from_arrays(offsets, column, type=pa.list_(_field("item", column, mixed)))


def build_typed(objects: list[Any], kind: pa.DataType, bad: dict[int, str]) -> pa.StructArray:
    """Build rows of a known struct type; a message that does not fit is added to ``bad``."""
    try:
        return _with_metadata(pa.array(objects, kind), kind)
    # Arrow says of a whole column that it does not fit, not which row: only then each is tried
    # alone.
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for row, item in enumerate(objects):
            reason = _misfit(item, kind)
            if reason is not None:
                bad[row] = reason
                objects[row] = None
    return _with_metadata(pa.array(objects, kind), kind)


def _with_metadata(rows: pa.StructArray, kind: pa.DataType) -> pa.StructArray:
    """Return rows with all metadata of their type: Arrow's builders lose those in maps."""
    if rows.type.equals(kind, check_metadata=True):
        return rows
    return pa.Array._import_from_c_capsule(kind.__arrow_c_schema__(), rows.__arrow_c_array__()[1])


def build_declared(
    objects: list[Any], kind: pa.StructType, bad: dict[int, str], paths: Sequence[str] | None
) -> Decoded:
    """Build the answer of a decoder that knows its type; of it only what ``paths`` lead to."""
    if paths is None:
        return Decoded(build_typed(objects, kind, bad), dict(sorted(bad.items())))
    wanted = {path.partition(".")[0] for path in paths}
    rows = build_typed(objects, pa.struct([field for field in kind if field.name in wanted]), bad)
    columns = [field_at(rows, path) for path in paths]
    return Decoded(struct_of(columns, paths, len(rows), bad), dict(sorted(bad.items())))


def _misfit(item: Any, kind: pa.DataType) -> str | None:
    try:
        pa.array([item], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        return f"a value does not fit its type: {brief(error)}"
    return None


def depth_of(value: Any) -> int:
    """Return how deep dictionaries and lists nest in a value."""
    levels = 0
    layer = [value]
    while layer := [item for item in layer if type(item) in (dict, list)]:
        levels += 1
        layer = [
            below for item in layer for below in (item.values() if type(item) is dict else item)
        ]
    return levels


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """Exact: the arithmetic of ``Decimal`` would round to the context's precision."""
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


def brief(error: BaseException) -> str:
    """First line of an error, at most 120 characters."""
    lines = str(error).splitlines()
    return (lines[0] if lines else type(error).__name__)[:120]
