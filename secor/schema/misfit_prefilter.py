"""Which rows of a column that does not fit are likely the culprits, by vector operations.

A guess, for speed alone: a row that is suspected may fit, one that is not may not.  What
fits is decided in ``fitting``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.iso_times import DAY, clock, moment
from secor.arrow.nested_arrays import children, entries, flatten, is_json, is_list
from secor.arrow.scalar_casts import NUMBER, TypeRules, is_bytes, is_text, takes
from secor.arrow.time_limits import count_type, is_limited, readable
from secor.arrow.to_python import EXACT
from secor.core.variant_json import is_mixed
from secor.schema.descriptions import DEFAULT
from secor.schema.inference import by_kind

Truths = npt.NDArray[np.bool_]


def suspects(
    field: pa.Field | None,
    column: pa.Array | None,
    target: pa.Field,
    valid: Truths,
    *,
    rules: TypeRules,
) -> Truths:
    """Return which rows of a struct's column likely do not fit; ``valid`` are the structs."""
    if field is None or column is None:
        return valid & _is_needed(target)
    rows = _suspects(column, target.type, is_mixed(field), rules)
    if _is_needed(target):
        rows |= valid & column.is_null().to_numpy(zero_copy_only=False)
    return rows


def _is_needed(target: pa.Field) -> bool:
    return not target.nullable and DEFAULT not in (target.metadata or {})


def _suspects(array: pa.Array, kind: pa.DataType, marked: bool, rules: TypeRules) -> Truths:
    present: Truths = array.is_valid().to_numpy(zero_copy_only=False)
    nobody = np.zeros(len(array), dtype=bool)
    if is_json(kind) or not present.any():
        return nobody
    if rules.any_text and is_text(kind) and (marked or not is_bytes(array.type)):
        return nobody
    if marked or is_json(array.type):
        for rows, part in by_kind(array, kind):
            plain = not is_json(part.type)
            nobody[rows] = _suspects(part, kind, False, rules) if plain else present[rows]
        return nobody
    if array.type == kind and not pa.types.is_nested(kind) and not is_limited(kind):
        return nobody
    if pa.types.is_nested(kind) or pa.types.is_nested(array.type):
        within = _find_nested(array, kind, rules)
        return present if within is None else within
    return present & _scalars(array, kind, rules)


def _find_nested(array: pa.Array, kind: pa.DataType, rules: TypeRules) -> Truths | None:
    """Return the suspects of nested columns; None if one is no such thing as the other."""
    if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
        columns = {field.name: (field, column) for field, column in children(array)}
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        parts = [
            suspects(*columns.get(target.name, (None, None)), target, valid, rules=rules)
            for target in kind.fields
        ]
        return np.logical_or.reduce(parts) if parts else np.zeros(len(array), dtype=bool)
    if pa.types.is_struct(array.type) and pa.types.is_map(kind):
        parts = [
            _suspects(column, kind.item_type, is_mixed(field), rules)
            for field, column in children(array)
        ]
        return np.logical_or.reduce(parts) if parts else np.zeros(len(array), dtype=bool)
    if is_list(array.type) and is_list(kind):
        items, marked = flatten(array), is_mixed(array.type.value_field)
        return holders(array, _suspects(items, kind.value_type, marked, rules))
    if pa.types.is_map(array.type) and pa.types.is_map(kind):
        lists, flat = entries(array)
        marked = is_mixed(array.type.item_field)
        return holders(lists, _suspects(flat.field(1), kind.item_type, marked, rules))
    return None


def holders(lists: pa.Array, items: Truths) -> Truths:
    """Return which lists have something of what was found in their values."""
    holding = np.zeros(len(lists), dtype=bool)
    holding[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[items]] = True
    return holding


def _scalars(array: pa.Array, kind: pa.DataType, rules: TypeRules) -> Truths:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    source = array.type
    if source == kind:
        return ~_truths(readable(array)) if is_limited(kind) else np.zeros(len(array), bool)
    if not takes(kind, source, exact=rules.exact):
        return np.ones(len(array), dtype=bool)
    if pa.types.is_integer(source) or pa.types.is_floating(source) or pa.types.is_temporal(source):
        return _lossy(array, kind)
    if pa.types.is_decimal(source) and not pa.types.is_floating(kind):
        return _lossy_decimals(array, kind)
    expression = None
    if pa.types.is_string(source) or pa.types.is_large_string(source):
        expression = _expression(kind)
    if expression is None:
        return np.zeros(len(array), dtype=bool)
    return ~_truths(pc.match_substring_regex(array, expression))


def _expression(kind: pa.DataType) -> str | None:
    """Return what texts match that are read as ``kind``, unusual ones left out."""
    if pa.types.is_integer(kind):
        sign = "-?" if pa.types.is_signed_integer(kind) else ""
        # One digit less than the largest number has: longer ones may be too large, and are looked
        # at singly.
        return rf"\A{sign}[0-9]{{1,{kind.bit_width * 3 // 10 - 1}}}\z"
    if pa.types.is_decimal(kind):
        fraction = rf"(\.[0-9]{{1,{kind.scale}}})?" if kind.scale > 0 else ""
        return rf"\A-?[0-9]{{1,{max(kind.precision - kind.scale, 1)}}}{fraction}\z"
    if pa.types.is_floating(kind):
        return NUMBER
    if pa.types.is_date(kind):
        return rf"\A{DAY}\z"
    if pa.types.is_time(kind):
        return rf"\A{clock(kind.unit)}\z"
    if pa.types.is_timestamp(kind):
        return rf"\A{DAY}{moment(kind) if kind.tz else f'({moment(kind)})?'}\z"
    return None


def _lossy(array: pa.Array, kind: pa.DataType) -> Truths:
    """Return which numbers or times are not the same when they have been ``kind``."""
    source = array.type
    if pa.types.is_temporal(kind) and not pa.types.is_temporal(source):
        counts = count_type(kind)
        lost = _lossy(array, counts)
        return lost | ~_truths(readable(array.cast(counts, safe=False).view(kind)))
    if pa.types.is_decimal(kind):  # these have no unsafe casts
        digits = 10.0 ** (kind.precision - kind.scale)
        numbers = array.cast(pa.float64(), safe=False)
        lost = ~_truths(pc.less(pc.abs(numbers), digits))
        if pa.types.is_floating(source):
            # Rounding the largest numbers there are is an error of Arrow's.
            numbers = pc.if_else(pa.array(lost), 0.0, numbers)
            lost |= ~_truths(pc.equal(pc.round(numbers, kind.scale), numbers))
        return lost
    there = array.cast(kind, safe=False)
    lost = ~_truths(pc.equal(there.cast(source, safe=False), array))
    if pa.types.is_integer(source) and pa.types.is_floating(kind):
        numbers = array.cast(pa.float64(), safe=False)
        lost |= ~_truths(pc.less_equal(pc.abs(numbers), float(EXACT)))
    return lost


def _lossy_decimals(array: pa.Array, kind: pa.DataType) -> Truths:
    """Return which decimals are too large for decimals or integers, or have more digits."""
    if pa.types.is_decimal(kind):
        most, scale = 10.0 ** (kind.precision - kind.scale), kind.scale
    else:
        most, scale = 2.0 ** (kind.bit_width - pa.types.is_signed_integer(kind)), 0
    small = _truths(pc.less(pc.abs(array.cast(pa.float64())), most))
    if array.type.scale <= scale:
        return ~small
    return ~small | ~_truths(pc.equal(pc.round(array, scale, round_mode="towards_zero"), array))


def _truths(array: pa.Array) -> Truths:
    """Return booleans, true for null."""
    truths: Truths = pc.fill_null(array, True).to_numpy(zero_copy_only=False)
    return truths
