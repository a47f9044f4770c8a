"""The types of new fields in one look at messages: the kind that 99 of 100 values have.

A field whose values are of several kinds would be JSON text for good because of a few wrong
messages.  So where one kind has 99 of 100 values of a field, the others are outvoted: they do
not count for the schema, and are in quarantine as what does not fit it.

A field of text where the first ``FIRST_VALUES`` values are ISO 8601 times is one of times; of
a field that is known to hold times fewer are enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from secor.arrow.iso_times import FIRST_VALUES, time_type
from secor.arrow.nested_arrays import (
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
from secor.core.variant_json import dumps, is_mixed, loads
from secor.schema.inference import INT64

Path = tuple[str, ...]
Tally = dict[Path, Counter[str]]

MAJORITY = 0.99
"""The share of a field's values by which their kind wins."""

NUMBERS, BIG_INTEGERS = "numbers", "integers beyond 64 bits"

ITEM, ENTRY = "[]", "{}"
"""Steps of paths into lists and maps."""


@dataclass(frozen=True, slots=True)
class OutvotedValues:
    """Values of a field that are of another kind than 99 of 100."""

    path: Path
    kind: str
    others: str
    count: int
    total: int

    def __str__(self) -> str:
        """Return it as a log line shows it."""
        share = f"{self.count:,} of {self.total:,}"
        return f"{show_path(self.path)} ({share} are {self.others}, not {self.kind})"


def show_path(path: Path) -> str:
    """Return a path as a log line shows it."""
    return ".".join(path).replace(f".{ITEM}", ITEM).replace(f".{ENTRY}", ENTRY)


def tally_of(groups: Sequence[pa.StructArray]) -> tuple[Tally, set[Path]]:
    """Count the kinds of values at each path; return them, and the paths of fractions.

    A decoder makes doubles of a column of JSON numbers only if one is written as a fraction.
    """
    tally: Tally = {}
    fractions: set[Path] = set()
    for rows in groups:
        _count(rows, False, (), tally, fractions)
    return tally, fractions


def find_outvoted(path: Path, kinds: Counter[str]) -> OutvotedValues | None:
    """Return which values of a field do not count; None if none or all do."""
    total = kinds.total()
    (kind, count), *others = kinds.most_common()
    # Of one kind nothing is outvoted; without a winner the field becomes JSON text, which takes
    # all.
    if not others or count < total * MAJORITY:
        return None
    names = " and ".join(name for name, _ in others)
    return OutvotedValues(path, kind, names, total - count, total)


def _count(array: pa.Array, marked: bool, path: Path, tally: Tally, fractions: set[Path]) -> None:
    """Count the kinds of values at each path."""
    kind = array.type
    present = len(array) - array.null_count
    if not present:
        return
    if marked or is_json(kind):
        # Each value by itself: a column of JSON text is one of several kinds, and they are what is
        # counted.
        for text in text_of(array).drop_null().to_pylist():
            _count_value(loads(text), path, tally, fractions)
        return
    tally.setdefault(path, Counter())[_kind(kind)] += present
    if pa.types.is_floating(kind):
        fractions.add(path)
    for step, below, mixed in _below(array):
        _count(below, mixed, (*path, step), tally, fractions)


def _below(array: pa.Array) -> Iterator[tuple[str, pa.Array, bool]]:
    """Yield the columns within a nested one."""
    kind = array.type
    if pa.types.is_struct(kind):
        for field, column in children(array):
            yield field.name, column, is_mixed(field)
    elif is_list(kind):
        yield ITEM, flatten(array), is_mixed(kind.value_field)
    elif pa.types.is_map(kind):
        yield ENTRY, entries(array)[1].field(1), is_mixed(kind.item_field)


def _count_value(value: Any, path: Path, tally: Tally, fractions: set[Path]) -> None:
    if value is None:
        return
    # What is within a value counts at its own path, so a field may win in objects that lose above
    # it.
    tally.setdefault(path, Counter())[_kind_of_value(value)] += 1
    if isinstance(value, float):
        fractions.add(path)
    if isinstance(value, dict):
        for name, below in value.items():
            _count_value(below, (*path, name), tally, fractions)
    elif isinstance(value, list):
        for item in value:
            _count_value(item, (*path, ITEM), tally, fractions)


def _kind(kind: pa.DataType) -> str:
    """Return what a log line calls a type; types of one kind have one that holds both."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "objects"
    if is_list(kind):
        return "lists"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return NUMBERS
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "texts"
    if pa.types.is_boolean(kind):
        return "booleans"
    if pa.types.is_timestamp(kind):
        return "instants" if kind.tz else "local times"
    return "bytes" if pa.types.is_binary(kind) else str(kind)


_OF_VALUES = {dict: "objects", list: "lists", str: "texts", bool: "booleans", bytes: "bytes"}


def _kind_of_value(value: Any) -> str:
    if type(value) is int and value not in INT64:
        return BIG_INTEGERS
    return _OF_VALUES.get(type(value), NUMBERS)


def prune(rows: pa.StructArray, winners: Mapping[Path, str]) -> pa.StructArray:
    """Return the rows with null for what was outvoted."""
    return _prune(rows, False, (), winners)


def _prune(array: pa.Array, marked: bool, path: Path, winners: Mapping[Path, str]) -> pa.Array:
    """Return the column with null for what was outvoted."""
    kind = array.type
    if array.null_count == len(array):
        return array
    if marked or is_json(kind):
        values = [None if text is None else loads(text) for text in text_of(array).to_pylist()]
        pruned = [_prune_value(value, path, winners) for value in values]
        texts = pa.array([None if field is None else dumps(field) for field in pruned], pa.string())
        return texts if not is_json(kind) else pa.ExtensionArray.from_storage(kind, texts)
    if winners.get(path, _kind(kind)) != _kind(kind):
        return pa.nulls(len(array), kind)
    columns = [_prune(below, mixed, (*path, step), winners) for step, below, mixed in _below(array)]
    if pa.types.is_struct(kind):
        return struct_of(columns, kind.fields, array)
    if is_list(kind):
        return list_of(columns[0], kind.value_field, array)
    if pa.types.is_map(kind):
        lists, flat = entries(array)
        return map_of(flat.field(0), columns[0], lists)
    return array


def _prune_value(value: Any, path: Path, winners: Mapping[Path, str]) -> Any:
    if value is None or winners.get(path, (kind := _kind_of_value(value))) != kind:
        return None
    if isinstance(value, dict):
        return {name: _prune_value(inner, (*path, name), winners) for name, inner in value.items()}
    if isinstance(value, list):
        return [_prune_value(item, (*path, ITEM), winners) for item in value]
    return value


def with_times(kind: pa.DataType, columns: Sequence[pa.Array], times: Collection[str]) -> Any:
    """Return the type with times for text that begins with times in all ``columns``.

    A name in ``times`` that is empty is that of the columns themselves.
    """
    if pa.types.is_struct(kind):
        fields = []
        columns_by_name = _fields(columns)
        for field in kind.fields:
            within = [
                "" if name == field.name else name.removeprefix(f"{field.name}.")
                for name in times
                if name == field.name or name.startswith(f"{field.name}.")
            ]
            narrower = with_times(field.type, columns_by_name.get(field.name, ()), within)
            fields.append(field.with_type(narrower))
        return pa.struct(fields)
    if is_list(kind):
        items = [flatten(column) for column in columns if is_list(column.type)]
        return pa.list_(with_times(kind.value_type, items, ()))
    if not pa.types.is_string(kind):
        return kind
    texts = [column.drop_null() for column in columns if pa.types.is_string(column.type)]
    # An empty array in front: concat_arrays refuses to join none.
    first = pa.concat_arrays([pa.nulls(0, pa.string()), *texts])[:FIRST_VALUES]
    needed = 1 if "" in times else FIRST_VALUES
    narrower = time_type(first) if len(first) >= needed else None
    return kind if narrower is None else narrower


def _fields(columns: Sequence[pa.Array]) -> dict[str, list[pa.Array]]:
    """Return the columns of all structs by name: asked for one by one, they take n² time."""
    by_name: dict[str, list[pa.Array]] = {}
    for struct in columns:
        if pa.types.is_struct(struct.type):
            for field, column in children(struct):
                by_name.setdefault(field.name, []).append(column)
    return by_name
