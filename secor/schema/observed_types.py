"""Rows grouped by the types that they show by themselves, see ``inference.observed``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    children,
    entries,
    flatten,
    is_json,
    is_list,
    offsets_of,
    text_of,
)
from secor.arrow.to_python import EXACT, is_integral
from secor.core.variant_json import is_mixed, loads
from secor.schema.inference import INT64

Codes = npt.NDArray[np.int64]


def groups(rows: pa.StructArray, kept: pa.StructType) -> list[Codes]:
    """Return the rows in groups, by first row; those of a group would grow ``kept`` alike.

    A column of ``kept`` that is not nested takes over nothing nested: all of that is one.
    """
    flat = {field.name for field in kept.fields if not pa.types.is_nested(field.type)}
    columns = [
        _codes(column, is_mixed(field), nested=field.name not in flat)
        for field, column in children(rows)
    ]
    codes = _number(zip(*columns, strict=True)) if columns else np.zeros(len(rows), np.int64)
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    return np.split(order, ends)


def first_that_adds(
    rows: pa.StructArray,
    chosen: Sequence[int],
    kept: pa.StructType,
    adds: Callable[[pa.StructArray], bool],
) -> int | None:
    """Return the first of the ``chosen`` rows that by itself adds a field to ``kept``, if one does.

    More rows show the fields of fewer, so they can be halved.  But ``{}`` and ``[]``, which show no
    type, show text together: then each kind of row is looked at by itself.
    """

    def of(those: Sequence[int]) -> pa.StructArray:
        return rows.take(pa.array(those, pa.int64()))

    if not chosen or not adds(of(chosen)):
        return None
    counts = range(1, len(chosen) + 1)
    rest = chosen[bisect_left(counts, True, key=lambda count: adds(of(chosen[:count]))) :]
    if adds(of(rest[:1])):
        return rest[0]
    firsts = sorted(rest[alike[0]] for alike in groups(of(rest), kept))
    return next((row for row in firsts if adds(of([row]))), None)


def _codes(array: pa.Array, marked: bool, *, nested: bool = True) -> Codes:
    """Return a number for each value: equal ones show equal types, and null is 0."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    kind = array.type
    if marked or is_json(kind):
        texts = text_of(array).to_pylist()
        return _number(None if text is None else _shape(loads(text), nested) for text in texts)
    codes: Codes = present.astype(np.int64)
    if not nested or not codes.any():
        return _fractions(array, codes)
    if pa.types.is_struct(kind):
        columns = [_codes(column, is_mixed(field)) for field, column in children(array)]
        return _number(
            zip(
                codes.tolist(),
                *(codes_of_column.tolist() for codes_of_column in columns),
                strict=True,
            )
        )
    if is_list(kind):
        return _codes_of_lists(array, _codes(flatten(array), is_mixed(kind.value_field)))
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        return _codes_of_lists(lists, _codes(flat.field(1), is_mixed(kind.item_field)))
    return _fractions(array, codes)


def _fractions(array: pa.Array, codes: Codes) -> Codes:
    """Doubles that are integers show those."""
    if pa.types.is_floating(array.type):
        values = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        whole = (np.trunc(values) == values) & (np.abs(values) <= EXACT)
        codes[~whole | (np.signbit(values) & (values == 0))] = 2
    return codes


def _codes_of_lists(lists: pa.Array, items: Codes) -> Codes:
    """Lists show what their items show together."""
    bounds = pc.fill_null_backward(offsets_of(lists)).to_pylist()
    observed_items = items.tolist()
    valid = lists.is_valid().to_pylist()
    return _number(
        frozenset(observed_items[start:end]) if present else None
        for (start, end), present in zip(pairwise(bounds), valid, strict=True)
    )


def _number(shapes: Iterable[Hashable]) -> Codes:
    numbers: dict[Hashable, int] = {None: 0}
    return np.array([numbers.setdefault(shape, len(numbers)) for shape in shapes], dtype=np.int64)


def _shape(value: Any, nested: bool = True) -> Hashable:
    if isinstance(value, dict):
        return frozenset((item, _shape(value[item])) for item in value) if nested else "nested"
    if isinstance(value, list):
        return ("list", frozenset(map(_shape, value))) if nested else "nested"
    if isinstance(value, float):  # to seek one in a range takes for ever
        return "int" if is_integral(value) else "float"
    if type(value) is int:
        return "int" if value in INT64 else "big"
    return None if value is None else type(value).__name__
