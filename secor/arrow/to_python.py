"""Arrow values as Python objects and as JSON text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    children,
    entries,
    flatten,
    is_json,
    is_list,
    offsets_of,
    rebuild,
)
from secor.core.variant_json import LongNumber, loads

EXACT = 1 << 53
"""Doubles below it hold every integer."""

SIXTY_FOUR_BITS = range(-(1 << 63), 1 << 64)

ENCODER = msgspec.json.Encoder(order="sorted")


class MapEntries(dict[str, Any]):
    """The entries of a map: unlike members of a struct, those that are null are some, too."""


def plain(array: pa.Array, *, integral: bool = False, nulls: bool = False) -> list[Any]:
    """Return Python values: structs as dictionaries without their null members, maps with all.

    JSON text is parsed and made canonical, decimals are ``Decimal``; dates and times must
    be other things by now (``write_out``, or integers).  ``integral`` makes integers of
    doubles that are, ``nulls`` keeps the null members of JSON text.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        return _dictionaries(array, integral, nulls)
    if is_list(kind):
        return _pieces(plain(flatten(array), integral=integral, nulls=nulls), array)
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        keys, items = flat.flatten()
        if not pa.types.is_string(keys.type) and not pa.types.is_binary(keys.type):
            keys = keys.cast(pa.string())  # JSON has no other names
        values = plain(items, integral=integral, nulls=nulls)
        pairs = list(zip(plain(keys), values, strict=True))
        return [
            None if pairs_of_map is None else MapEntries(pairs_of_map)
            for pairs_of_map in _pieces(pairs, lists)
        ]
    return _scalars(array, integral, nulls)


def _scalars(array: pa.Array, integral: bool, nulls: bool) -> list[Any]:
    kind = array.type
    if is_json(kind):
        texts = array.storage.to_pylist()
        return [None if text is None else canonical(loads(text), nulls=nulls) for text in texts]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        zero = pa.scalar(False if pa.types.is_boolean(kind) else 0, kind)
        # numpy makes doubles of integers with nulls, and large ones would be rounded.
        whole = pc.fill_null(array, zero) if array.null_count else array
        numbers = whole.to_numpy(zero_copy_only=False)
        values: list[Any] = numbers.tolist()
        if integral and pa.types.is_floating(kind):
            values = _integral(values, numbers)
        if array.null_count:
            for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)):
                values[row] = None
        return values
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = array.to_numpy(zero_copy_only=False).tolist()
        return list(texts)
    return list(array.to_pylist())


def _dictionaries(
    array: pa.StructArray, integral: bool, nulls: bool
) -> list[dict[str, Any] | None]:
    parts = [(field.name, column) for field, column in children(array)]
    names = [name for name, _ in parts]
    columns = [plain(column, integral=integral, nulls=nulls) for _, column in parts]
    objects: list[dict[str, Any] | None]
    if not parts:
        objects = [{} for _ in range(len(array))]
    elif any(column.null_count for _, column in parts):
        objects = [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in zip(*columns, strict=True)
        ]
    else:
        objects = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)):
            objects[row] = None
    return objects


def _pieces(values: Sequence[Any], like: pa.Array) -> list[list[Any] | None]:
    """Cut flattened values into lists as those of ``like``."""
    # A null list has no bounds of its own: the next one's make it empty.
    bounds = pc.fill_null_backward(offsets_of(like)).to_pylist()
    valid = like.is_valid().to_pylist()
    return [
        list(values[start:end]) if there else None
        for (start, end), there in zip(pairwise(bounds), valid, strict=True)
    ]


def write_out(array: pa.Array) -> pa.Array:
    """Return ``array`` with dates, times and timestamps as ISO 8601 text."""
    return rebuild(array, _write_leaf)


def _write_leaf(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _write_leaf(array.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        form = "%Y-%m-%dT%H:%M:%S"
        if kind.tz is None:
            return pc.strftime(array, format=form)
        return pc.strftime(array.cast(pa.timestamp(kind.unit, "UTC")), format=form + "Z")
    if pa.types.is_temporal(kind):
        # A duration has no text that everybody reads: its count stays.
        return array.cast(pa.int64() if pa.types.is_duration(kind) else pa.string())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return array.cast(pa.binary())
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return array.cast(pa.float64())
    return array


def json_texts(array: pa.Array, *, nulls: bool = False) -> pa.Array:
    """Return the canonical JSON text of every value, null for null; see ``json_text``."""
    values = plain(write_out(array), nulls=nulls)
    texts = [None if value is None else json_text(value, nulls=nulls) for value in values]
    return pa.array(texts, pa.string())


def any_texts(array: pa.Array) -> pa.Array:
    """Return every value as text: text as it is, of others the canonical JSON, null for null.

    Equal values have equal texts, however they were typed.  Raises ``UnicodeDecodeError``.
    """
    values = plain(write_out(array))
    return pa.array([None if value is None else _any_text(value) for value in values], pa.string())


def _any_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json_text(value)


def json_text(value: Any, *, nulls: bool = False) -> str:
    """Return canonical JSON: equal values have equal texts, however they were typed.

    Names are sorted, null members left out unless they are entries of maps or ``nulls`` are
    kept, doubles without fraction written as integers, bytes in base64, decimals as strings;
    what is no finite number is null.
    """
    return ENCODER.encode(canonical(value, nulls=nulls)).decode()


def canonical(value: Any, *, nulls: bool = False) -> Any:
    """Return ``value`` with integral doubles as integers and, unless ``nulls`` are kept, without
    null members.
    """
    if isinstance(value, LongNumber):
        return msgspec.Raw(value.text.encode())
    if isinstance(value, float):
        return int(value) if is_integral(value) else value
    if isinstance(value, dict):
        kept = nulls or isinstance(value, MapEntries)
        return {
            name: canonical(item, nulls=nulls)
            for name, item in value.items()
            if kept or item is not None
        }
    if isinstance(value, list):
        return [canonical(item, nulls=nulls) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value not in SIXTY_FOUR_BITS:
        return msgspec.Raw(str(value).encode())  # the encoder knows no greater ones
    return value


def is_integral(value: float) -> bool:
    """Return whether the double is an integer that it holds exactly (and not minus zero)."""
    whole = value.is_integer() and abs(value) <= EXACT
    return whole and not (value == 0 and str(value)[0] == "-")


def _integral(values: list[Any], doubles: np.ndarray[Any, Any]) -> list[Any]:
    """Replace doubles by the integers that they are."""
    with np.errstate(invalid="ignore"):
        whole = (np.trunc(doubles) == doubles) & (np.abs(doubles) <= EXACT)
    # Minus zero is no integer: as 0 it would come back as another double.
    whole &= ~(np.signbit(doubles) & (doubles == 0))
    for row in np.flatnonzero(whole).tolist():
        values[row] = int(values[row])
    return values
