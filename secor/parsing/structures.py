"""Replacing, renaming and dropping one field within nested decoded rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.variant_json import dumps, is_mixed
from secor.parsing.fields import along, parse_mixed, routes, values_of

Truths = npt.NDArray[np.bool_]
Columns = dict[str, tuple[pa.Field, pa.Array]]

Edit = Callable[[Columns, str], None]
"""Changes the named one of a structure's columns."""

EditObject = Callable[[dict[str, Any], str, int], None]
"""Changes the named member of an object of a row that is JSON text."""


def valid(column: pa.Array) -> Truths:
    """Return for each row whether it is not null."""
    truths: Truths = column.is_valid().to_numpy(zero_copy_only=False)
    return truths


def _columns_along(kind: pa.DataType, steps: Sequence[str]) -> int | None:
    """Return how many of the steps are columns: the rest is within JSON text.

    None if there is no column where one would have to be.
    """
    for count, step in enumerate(steps, 1):
        index = kind.get_field_index(step) if pa.types.is_struct(kind) else -1
        if index < 0:
            return None
        if is_mixed(kind.field(index)):
            return count
        kind = kind.field(index).type
    return len(steps)


def routes_of(kind: pa.StructType, path: str) -> list[list[str]]:
    """Return the steps to every place where there may be a field of a dotted path."""
    return [steps for steps in routes(kind, path) if _columns_along(kind, steps) is not None]


def beyond(rows: pa.StructArray, path: str) -> Truths:
    """Return in which rows there is something at a dotted path, but within a list or a map."""
    differing = np.zeros(len(rows), dtype=bool)
    for steps in routes(rows.type, path):
        differing |= _beyond(rows, steps)
    return differing


def _beyond(here: pa.Array, steps: Sequence[str]) -> Truths:
    for level, step in enumerate(steps):
        kind = here.type
        if pa.types.is_list(kind) or pa.types.is_map(kind):
            return np.array(
                [_leads(value, steps[level:], True) for value in values_of(here)], dtype=bool
            )
        index = kind.get_field_index(step) if pa.types.is_struct(kind) else -1
        if index < 0:
            break
        mixed = is_mixed(kind.field(index))
        here = pc.struct_field(here, [index])
        if mixed:
            left = steps[level + 1 :]
            return np.array(
                [_leads(parsed, left, False) for parsed in parse_mixed(here)], dtype=bool
            )
    return np.zeros(len(here), dtype=bool)


def _leads(value: Any, steps: Sequence[str], within: bool) -> bool:
    """Return whether a path leads to something in a value, ``within`` a list or through one."""
    if not steps:
        return within and value is not None
    if isinstance(value, list):
        return any(_leads(item, steps, True) for item in value)
    return isinstance(value, dict) and _leads(value.get(steps[0]), steps[1:], within)


def replace_field(
    rows: pa.StructArray, path: str, change: Callable[[pa.Array], pa.Array | None]
) -> pa.StructArray:
    """Return ``rows`` with the column at ``path`` changed (None: left out), if there is one."""
    for steps in routes_of(rows.type, path):
        rows = _replace(rows, steps, change)
    return rows


def _replace(
    rows: pa.StructArray, steps: Sequence[str], change: Callable[[pa.Array], pa.Array | None]
) -> pa.StructArray:
    # Through the path, not the field's own array: JSON texts of mixed kinds are values.
    changed = change(along(rows, steps))
    in_text = _columns_along(rows.type, steps) not in (None, len(steps))
    values = None if changed is None else changed.to_pylist() if in_text else []

    def edit(columns: Columns, name: str) -> None:
        if changed is None:
            del columns[name]
        else:
            columns[name] = pa.field(name, changed.type), changed

    def edit_object(item: dict[str, Any], name: str, row: int) -> None:
        if values is None:
            item.pop(name, None)
        elif item.get(name) is not None:
            item[name] = values[row]

    return _edit(rows, steps, edit, edit_object)


def rename_field(rows: pa.StructArray, steps: Sequence[str], name: str) -> pa.StructArray:
    """Return ``rows`` with another name for the last of ``steps``.

    What has both names keeps one of them.  Where a column of the new name has another type,
    either there is nothing in it or nothing in the other, see ``alike``.
    """

    def edit(columns: Columns, old: str) -> None:
        kind, column = columns.pop(old)
        taken = columns.get(name)
        if taken is None or taken[1].null_count == len(taken[1]):
            columns[name] = kind.with_name(name), column
        elif (valid(column) & ~valid(taken[1])).any():
            columns[name] = taken[0], pc.coalesce(taken[1], column)

    def edit_object(item: dict[str, Any], old: str, _row: int) -> None:
        if old in item:
            value = item.pop(old)
            if value is not None or name not in item:
                item[name] = value

    return _edit(rows, steps, edit, edit_object)


def alike(kind: pa.StructType, path: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether the columns at two places of one structure can be one, if both exist."""
    fields = _field_at(kind, path), _field_at(kind, other)
    if fields[0] is None or fields[1] is None:
        return True
    return bool(fields[0].with_name("").equals(fields[1].with_name(""), check_metadata=True))


def _field_at(kind: pa.DataType, steps: Sequence[str]) -> pa.Field | None:
    """Return a field; None if there is none, or if it is in JSON text."""
    field = None
    for step in steps:
        index = kind.get_field_index(step) if pa.types.is_struct(kind) else -1
        if index < 0 or (field is not None and is_mixed(field)):
            return None
        field = kind.field(index)
        kind = field.type
    return field


def _edit(
    rows: pa.StructArray,
    steps: Sequence[str],
    edit: Edit,
    edit_object: EditObject,
) -> pa.StructArray:
    """Rebuild the structures along ``steps`` with the last one's columns edited."""
    columns = {
        kind.name: (kind, pc.struct_field(rows, [index])) for index, kind in enumerate(rows.type)
    }
    if len(steps) == 1:
        edit(columns, steps[0])
    else:
        kind, inner = columns[steps[0]]
        if is_mixed(kind):
            inner = _edit_text(inner, steps[1:], edit_object)
        else:
            inner = _edit(inner, steps[1:], edit, edit_object)
        columns[steps[0]] = kind.with_type(inner.type), inner
    if not columns:
        return pa.array(
            [{} if is_valid else None for is_valid in valid(rows).tolist()], pa.struct([])
        )
    return pa.StructArray.from_arrays(
        [column for _, column in columns.values()],
        fields=[kind for kind, _ in columns.values()],
        # Arrow forgets which structures are null where it is given columns alone.
        mask=pa.array(~valid(rows)) if rows.null_count else None,
    )


def _edit_text(column: pa.Array, steps: Sequence[str], edit: EditObject) -> pa.Array:
    """Return JSON text with the objects at ``steps`` edited, where there are some."""
    values = parse_mixed(column)
    for row, item in enumerate(values):
        for step in steps[:-1]:
            item = item.get(step) if isinstance(item, dict) else None
        if isinstance(item, dict):
            edit(item, steps[-1], row)
    texts = [None if value is None else dumps(value) for value in values]
    return pa.array(texts, pa.string()).cast(column.type)
