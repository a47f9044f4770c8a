"""Fields of decoded rows by dotted path, and values as text.

Text must depend on the value alone: the same number may be in a column of integers or,
in another chunk, among fractions in a column of doubles, and has to name the same path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.variant_json import is_mixed, loads

EXACT_INTEGERS = 2.0**63
LONGEST_SHOWN = 80
"""Characters of a value in a reason."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A column as text: for each row an index into ``distinct``, -1 where it is null."""

    codes: npt.NDArray[np.int64]
    distinct: list[str]

    def at(self, row: int) -> str | None:
        """Return the text of one row."""
        code = int(self.codes[row])
        return None if code < 0 else self.distinct[code]

    def lookup(self, table: npt.NDArray[np.bool_], null: bool) -> npt.NDArray[np.bool_]:
        """Return ``table`` (one truth for each distinct text) by row; ``null`` for nulls."""
        # Null has the code -1, which is the last place.
        return np.append(table, null)[self.codes].astype(bool)


def field_at(rows: pa.StructArray, path: str) -> pa.Array:
    """Return the column at a dotted path, nulls where any step of it is null.

    In a row that has a field of that whole name, that comes first; one that does not exist
    is all null.
    """
    every = [along(rows, steps) for steps in routes(rows.type, path)]
    columns = [column for column in every if not pa.types.is_null(column.type)]
    if not columns:
        return pa.nulls(len(rows))
    # Two ways lead there, with values of two types: coalesce takes one type only.
    if len({column.type for column in columns}) > 1:
        columns = [_as_text(column) for column in columns]
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)


def routes(kind: pa.StructType, path: str) -> list[list[str]]:
    """Return the steps of a dotted path; first the whole name, if it is one.

    Which of them a row has is not known: one of its neighbours may have the other.
    """
    whole = [[path]] if kind.get_field_index(path) >= 0 else []
    steps = path.split(".")
    return [*whole, steps] if len(steps) > 1 and kind.get_field_index(steps[0]) >= 0 else whole


def _as_text(column: pa.Array) -> pa.Array:
    distinct_texts = texts(column)
    return pa.array([distinct_texts.at(row) for row in range(len(column))], pa.string())


def along(rows: pa.StructArray, steps: Sequence[str]) -> pa.Array:
    """Return the column that ``steps`` lead to, all null if it does not exist."""
    here: pa.Array = rows
    for level, step in enumerate(steps):
        kind = here.type
        index = kind.get_field_index(step) if pa.types.is_struct(kind) else -1
        if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            mixed = is_mixed(kind.item_field)
            here = pc.map_lookup(here, step, "first")
        elif index >= 0:
            mixed = is_mixed(kind.field(index))
            here = pc.struct_field(here, [index])
        else:
            return pa.nulls(len(rows))
        if mixed:
            return _parse_along(here, steps[level + 1 :])
    return here


def parse_mixed(column: pa.Array) -> list[Any]:
    """Return the values of a column of JSON text."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return [None if text is None else loads(text) for text in column.to_pylist()]


def _parse_along(column: pa.Array, steps: Sequence[str]) -> pa.Array:
    """Return the texts of the values at ``steps`` in a column of several kinds."""
    values = parse_mixed(column)
    for step in steps:
        values = [value.get(step) if isinstance(value, dict) else None for value in values]
    return pa.array([text_of(value) for value in values], pa.string())


def text_of(value: object) -> str | None:
    """Return a value as text, the same for equal values of any type; None for null."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return _text_of_double(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping() | list():
            return json.dumps(
                _present(value),
                default=text_of,
                ensure_ascii=False,
                separators=(",", ":"),
                sort_keys=True,
            )
        case _:
            return str(value)


def _present(value: object) -> object:
    """Leave out what is null: whether a missing name has a column depends on the chunk.

    Whether an integer is a double does, too.
    """
    if isinstance(value, Mapping):
        return {name: _present(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, float) and _is_short(value):
        return int(value)
    return [_present(inner) for inner in value] if isinstance(value, list) else value


def _text_of_double(value: float) -> str:
    return str(int(value)) if _is_short(value) else repr(value)


def _is_short(value: float) -> bool:
    return value.is_integer() and abs(value) < EXACT_INTEGERS


def readable(column: pa.Array) -> pa.Array:
    """Return the column with null for each value that Python cannot hold.

    Strings as bytes, since they may be no UTF-8; times as Arrow writes them, since they may
    be finer than microseconds or beyond the years 1 to 9999.
    """
    kind = column.type
    if pa.types.is_string(kind):
        return column.view(pa.binary())
    if pa.types.is_temporal(kind):
        return column.cast(pa.int64() if pa.types.is_duration(kind) else pa.string())
    return column


def texts(column: pa.Array) -> Texts:
    """Return a column as text; only its distinct values are looked at in Python."""
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return _texts_one_by_one(column)
    if not pa.types.is_dictionary(column.type):
        column = readable(column).dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = [text_of(value) for value in readable(column.dictionary).to_pylist()]
    return _merge_equal(codes, values)


def _texts_one_by_one(column: pa.Array) -> Texts:
    values = [text_of(value) for value in values_of(column)]
    return _merge_equal(np.arange(len(values), dtype=np.int64), values)


def values_of(column: pa.Array) -> list[Any]:
    """Return nested values, their leaves as ``readable`` has them, JSON text parsed."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [child.name for child in kind]
        inner = [
            _values_of(pc.struct_field(column, [index]), inner_field)
            for index, inner_field in enumerate(kind)
        ]
        return [
            dict(zip(names, (child[row] for child in inner), strict=True)) if present else None
            for row, present in enumerate(column.is_valid().to_pylist())
        ]
    if pa.types.is_list(kind):
        items = iter(_values_of(column.flatten(), kind.value_field))
        counts = pc.list_value_length(column).to_pylist()
        return [None if count is None else list(islice(items, count)) for count in counts]
    if pa.types.is_map(kind):
        return _maps(column)
    return list(readable(column).to_pylist())


def _values_of(column: pa.Array, field: pa.Field) -> list[Any]:
    return parse_mixed(column) if is_mixed(field) else values_of(column)


def _maps(column: pa.MapArray) -> list[dict[str, Any] | None]:
    """Return maps as objects, which they are in JSON text."""
    keys = [str(text_of(key)) for key in values_of(column.keys)]
    pairs = list(zip(keys, _values_of(column.items, column.type.item_field), strict=True))
    valid = column.is_valid().to_pylist()
    return [
        dict(pairs[start:end]) if present else None
        for (start, end), present in zip(pairwise(column.offsets.to_pylist()), valid, strict=True)
    ]


def _merge_equal(codes: npt.NDArray[np.int64], values: list[str | None]) -> Texts:
    """Return the texts with one code for equal ones."""
    places: dict[str, int] = {}
    table = [-1 if value is None else places.setdefault(value, len(places)) for value in values]
    if table != list(range(len(values))):
        # The -1 at the end is what the code -1, of null, finds there.
        codes = np.array([*table, -1], dtype=np.int64)[codes]
    return Texts(codes, list(places))


def show_value(value: object) -> str:
    """Return a value for a reason: quoted, short, and without control characters."""
    text = text_of(value) or ""
    text = text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
    return ascii(text) if not text.isprintable() else f"'{text}'"
