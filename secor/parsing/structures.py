"""Nested rows with one column changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.fields import field_at

Truths = npt.NDArray[np.bool_]


def valid(column: pa.Array) -> Truths:
    """Tell for each row whether it is not null."""
    truths: Truths = column.is_valid().to_numpy(zero_copy_only=False)
    return truths


def _steps(kind: pa.DataType, path: str) -> list[str]:
    return [path] if kind.get_field_index(path) >= 0 else path.split(".")


def exists(kind: pa.DataType, path: str) -> bool:
    """Tell whether there is a field at a dotted path."""
    for step in _steps(kind, path):
        index = kind.get_field_index(step) if pa.types.is_struct(kind) else -1
        if index < 0:
            return False
        kind = kind.field(index).type
    return True


def replaced(
    rows: pa.StructArray, path: str, change: Callable[[pa.Array], pa.Array | None]
) -> pa.StructArray:
    """Return ``rows`` with the column at ``path`` changed (None: left out), if there is one."""
    if not exists(rows.type, path):
        return rows

    def edit(columns: dict[str, tuple[pa.Field, pa.Array]], name: str) -> None:
        # Through the path, not the field's own array: JSON texts of mixed kinds are values.
        changed = change(field_at(rows, path))
        if changed is None:
            del columns[name]
        else:
            columns[name] = pa.field(name, changed.type), changed

    return _edited(rows, _steps(rows.type, path), edit)


def renamed(rows: pa.StructArray, path: str, name: str) -> pa.StructArray:
    """Return ``rows`` with another name for the last step of ``path``, if there is it."""
    if not exists(rows.type, path):
        return rows

    def edit(columns: dict[str, tuple[pa.Field, pa.Array]], old: str) -> None:
        kept = [(name if key == old else key, *it) for key, it in columns.items()]
        columns.clear()
        columns.update({key: (kind.with_name(key), column) for key, kind, column in kept})

    return _edited(rows, _steps(rows.type, path), edit)


def _edited(
    rows: pa.StructArray,
    steps: Sequence[str],
    edit: Callable[[dict[str, tuple[pa.Field, pa.Array]], str], None],
) -> pa.StructArray:
    """Rebuild the structures along ``steps`` with the last one's columns edited."""
    columns = {
        kind.name: (kind, pc.struct_field(rows, [index])) for index, kind in enumerate(rows.type)
    }
    if len(steps) == 1:
        edit(columns, steps[0])
    else:
        kind, inner = columns[steps[0]]
        inner = _edited(inner, steps[1:], edit)
        columns[steps[0]] = kind.with_type(inner.type), inner
    if not columns:
        return pa.array([{} if it else None for it in valid(rows).tolist()], pa.struct([]))
    return pa.StructArray.from_arrays(
        [column for _, column in columns.values()],
        fields=[kind for kind, _ in columns.values()],
        mask=pa.array(~valid(rows)) if rows.null_count else None,
    )
