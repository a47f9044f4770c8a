"""Columns of decoded JSON brought to the types that a JSON Schema gives them.

A value that is not as the schema says makes its message bad.  What the schema leaves open, and
fields that it does not name, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.variant_json import is_mixed, schema_field
from secor.parsing.decoders.columns import EXACT, INT64, infer
from secor.parsing.decoders.json_schema import ListShape, ObjectShape, ScalarShape, Shape
from secor.parsing.fields import parse_mixed, show_value
from secor.parsing.rows import Decoded
from secor.parsing.timestamps import TimeReader

Typed = tuple[pa.Field, pa.Array, Mapping[int, str]]
"""A column with its field, and by row why a value is not as the schema says."""

_ISO_8601 = TimeReader("iso8601", accept_zero=True)

_WORDS: Mapping[type, str] = {ListShape: "a list", ObjectShape: "an object"}


def fit_rows(decoded: Decoded, shape: Shape) -> Decoded:
    """Return rows in the types of the shape; those that are not as it says are bad."""
    if not isinstance(shape, ObjectShape):
        return decoded
    _, rows, reasons = _fit(pa.field("", decoded.rows.type), decoded.rows, shape)
    bad = dict(decoded.bad)
    for row, why in reasons.items():
        bad.setdefault(row, why)
    if reasons:
        good = np.ones(len(rows), dtype=bool)
        good[list(bad)] = False
        rows = pa.StructArray.from_arrays(
            rows.flatten(), fields=list(rows.type), mask=pa.array(~good)
        )
    return Decoded(rows, dict(sorted(bad.items())))


def _fit(field: pa.Field, column: pa.Array, shape: Shape) -> Typed:
    if shape is None:
        return field, column, {}
    if pa.types.is_null(column.type):
        kind = _type_of(shape)
        return pa.field(field.name, kind), pa.nulls(len(column), kind), {}
    if is_mixed(field):
        return _fit_mixed(field, column, shape)
    if isinstance(shape, ScalarShape):
        return _fit_scalar(field, column, shape)
    if isinstance(shape, ListShape) and pa.types.is_list(column.type):
        return _fit_list(field, column, shape)
    if isinstance(shape, ObjectShape) and pa.types.is_struct(column.type):
        return _fit_struct(field, column, shape)
    kind = _type_of(shape)
    return pa.field(field.name, kind), pa.nulls(len(column), kind), _all_bad(column, shape)


def _type_of(shape: Shape) -> pa.DataType:
    """Return the type of a column without values."""
    if isinstance(shape, ScalarShape):
        return shape.type
    if isinstance(shape, ListShape):
        return pa.list_(_type_of(shape.item))
    if isinstance(shape, ObjectShape):
        return pa.struct([pa.field(name, _type_of(inner)) for name, inner in shape.fields])
    return pa.null()


def _all_bad(column: pa.Array, shape: Shape) -> dict[int, str]:
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return {row: _is_not(column[row].as_py(), shape) for row in rows.tolist()}


def _is_not(value: Any, shape: Shape) -> str:
    word = (
        _WORDS.get(type(shape)) or f"of type {shape.type if isinstance(shape, ScalarShape) else ''}"
    )
    return f"{show_value(value)} is not {word}, as the schema says"


def _fit_mixed(field: pa.Field, column: pa.Array, shape: Shape) -> Typed:
    """Fit values of several kinds: those that are as the schema says make a column of one kind."""
    values = parse_mixed(column)
    bad: dict[int, str] = {}
    for row, value in enumerate(values):
        if value is not None and not _is_of(value, shape):
            bad[row] = _is_not(value, shape)
            values[row] = None
        elif isinstance(value, float) and _takes_integers(shape):
            values[row] = int(value)
    if isinstance(shape, ObjectShape) and not shape.fields:
        return field, column, bad  # nothing is said of its members: null ones are kept
    inferred, mixed = infer(values)
    if mixed:
        return field, column if not bad else inferred, bad
    again, fitted, more = _fit(pa.field(field.name, inferred.type), inferred, shape)
    return again, fitted, {**more, **bad}


def _is_of(value: Any, shape: Shape) -> bool:
    """Return whether a value is of the kind that a shape can take."""
    if isinstance(shape, ObjectShape):
        return isinstance(value, dict)
    if isinstance(shape, ListShape):
        return isinstance(value, list)
    assert shape is not None
    if shape.text:
        return isinstance(value, str)
    if pa.types.is_boolean(shape.type) or isinstance(value, bool):
        return pa.types.is_boolean(shape.type) and isinstance(value, bool)
    if not _takes_integers(shape):
        return isinstance(value, int | float)
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= EXACT
    return isinstance(value, int) and value in INT64


def _takes_integers(shape: Shape) -> bool:
    return (
        isinstance(shape, ScalarShape) and not shape.text and not pa.types.is_floating(shape.type)
    )


def _fit_struct(field: pa.Field, column: pa.StructArray, shape: ObjectShape) -> Typed:
    if not shape.fields:
        return field, column, {}
    columns = dict(zip(column.type.names, column.flatten(), strict=True))
    fields = dict(zip(column.type.names, column.type, strict=True))
    bad: dict[int, str] = {}
    for name, inner in shape.fields:
        if name not in columns and inner is None:
            continue
        present = columns.get(name, pa.nulls(len(column)))
        fields[name], columns[name], why = _fit(
            fields.get(name, pa.field(name, pa.null())), present, inner
        )
        for row, reason in why.items():
            bad.setdefault(row, f"{name[:40]}: {reason}")
    rows = pa.StructArray.from_arrays(
        [columns[name] for name in fields], fields=list(fields.values()), mask=column.is_null()
    )
    return pa.field(field.name, rows.type), rows, bad


def _fit_list(field: pa.Field, column: pa.ListArray, shape: ListShape) -> Typed:
    item, items, why = _fit(column.type.value_field, column.flatten(), shape.item)
    parents = pc.list_parent_indices(column)
    bad: dict[int, str] = {}
    for place, reason in why.items():
        bad.setdefault(parents[place].as_py(), f"item: {reason}")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    # Counted anew: ``flatten`` leaves out what is behind null lists, which the old offsets may
    # count.
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    kind = pa.list_(item)
    lists = pa.ListArray.from_arrays(offsets, items, type=kind, mask=column.is_null())
    return pa.field(field.name, kind), lists, bad


def _fit_scalar(field: pa.Field, column: pa.Array, shape: ScalarShape) -> Typed:
    kind = shape.type
    if column.type == kind:
        return schema_field(field.name, kind), column, {}
    if pa.types.is_floating(kind) and pa.types.is_int64(column.type):
        return _doubles(field, column)
    read = _READERS.get((column.type, kind))
    if read is None or pa.types.is_string(column.type) != shape.text:
        nothing = pa.nulls(len(column), kind)
        return pa.field(field.name, kind), nothing, _all_bad(column, shape)
    values, good = read(column, kind)
    rows = np.flatnonzero(~good & column.is_valid().to_numpy(zero_copy_only=False))
    bad = {row: _is_not(column[row].as_py(), shape) for row in rows.tolist()}
    return pa.field(field.name, kind), values, bad


def _doubles(field: pa.Field, column: pa.Array) -> Typed:
    """Return integers as doubles, if all are exact: the others keep their digits."""
    bounds = pc.min_max(column).as_py()
    # min_max of a column without values gives None for both.
    if max(-(bounds["min"] or 0), bounds["max"] or 0) > EXACT:
        return field, column, {}
    return schema_field(field.name, pa.float64()), column.cast(pa.float64()), {}


Values = tuple[pa.Array, npt.NDArray[np.bool_]]
"""A converted column, null where a value cannot be converted, and which can."""


def _integers(column: pa.Array, kind: pa.DataType) -> Values:
    """Return doubles without a fraction, such as 1.0, as the integers that JSON Schema has them."""
    # A fraction for nulls: they are not good, and the cast to integers never sees them.
    numbers = pc.fill_null(column, 0.5).to_numpy(zero_copy_only=False)
    good = (np.floor(numbers) == numbers) & (np.abs(numbers) <= EXACT)
    # NumPy's cast of a double that is no integer of 64 bits is undefined, so these are taken out
    # first.
    return _masked(np.where(good, numbers, 0).astype(np.int64), good, pa.int64()).cast(kind), good


def _from_integers(column: pa.Array, kind: pa.DataType) -> Values:
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    most = np.iinfo(np.int32 if kind.bit_width == 32 else np.int64)
    good = (numbers >= most.min) & (numbers <= most.max)
    narrow = pa.int32() if kind.bit_width == 32 else pa.int64()
    good &= column.is_valid().to_numpy(zero_copy_only=False)
    return _masked(np.where(good, numbers, 0), good, narrow).cast(kind), good


def _instants(column: pa.Array, kind: pa.DataType) -> Values:
    times = _ISO_8601.read(column, "")
    good = np.ones(len(column), dtype=bool)
    good[list(times.bad)] = False
    return _masked(times.micros, good, pa.int64()).cast(kind), good


def _dates(column: pa.Array, kind: pa.DataType) -> Values:
    dates = list(_read_dates(column.to_pylist()))
    return pa.array(dates, kind), np.array([day is not None for day in dates], dtype=bool)


def _read_dates(texts: Sequence[str | None]) -> Iterator[date | None]:
    for text in texts:
        try:
            yield date.fromisoformat(text) if text is not None and len(text) == 10 else None
        except ValueError:
            yield None


def _masked(values: npt.NDArray[Any], good: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~good).cast(kind)


_READERS: Mapping[tuple[pa.DataType, pa.DataType], Callable[[pa.Array, pa.DataType], Values]] = {
    (pa.float64(), pa.int64()): _integers,
    (pa.int64(), pa.date32()): _from_integers,
    (pa.int64(), pa.time32("ms")): _from_integers,
    (pa.int64(), pa.time64("us")): _from_integers,
    (pa.int64(), pa.time64("ns")): _from_integers,
    (pa.int64(), pa.timestamp("ms", "UTC")): _from_integers,
    (pa.int64(), pa.timestamp("ms")): _from_integers,
    (pa.int64(), pa.timestamp("us")): _from_integers,
    (pa.int64(), pa.timestamp("ns")): _from_integers,
    (pa.string(), pa.timestamp("us", "UTC")): _instants,
    (pa.string(), pa.date32()): _dates,
}
"""Conversions by the type that the JSON decoder gives and the one that the schema says."""
