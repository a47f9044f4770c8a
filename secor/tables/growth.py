"""The rows for which a table's schema has to grow, found before anything of them is written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.formats.typed.inference import observed
from secor.formats.typed.schema import RowSchema
from secor.tables.catalog import AddColumn, SchemaChange
from secor.tables.schema_changes import apply, changes_for
from secor.tables.table_rows import Fitted, TableRows


def first_change(
    table: TableRows, rows: pa.StructArray, fitted: Fitted, live: npt.NDArray[np.bool_]
) -> tuple[int, list[SchemaChange]] | None:
    """Return the first of the ``live`` rows that the schema has to grow for, and how.

    ``rows`` are the renamed rows and ``fitted`` what the table made of them.  A row that does
    not even fit the grown schema asks for nothing: it is bad.
    """
    found = []
    wrong = np.zeros(len(rows), dtype=bool)
    wrong[list(fitted.bad)] = True
    for row in np.flatnonzero(wrong & live).tolist():
        changes = _changes_for_misfit(table, rows.slice(row, 1))
        if changes:
            found.append((row, changes))
            break
    if fitted.extra is not None:
        extra = fitted.extra.to_numpy(zero_copy_only=False) & live & ~wrong
        first = _first_with_new(table, rows, np.flatnonzero(extra).tolist())
        if first is not None:
            found.append((first, _new_columns(table.columns, rows.slice(first, 1))))
    return min(found, key=lambda change: change[0], default=None)


def _first_with_new(table: TableRows, rows: pa.StructArray, extra: Sequence[int]) -> int | None:
    """Of rows that fit: more of them show the columns of fewer, so the first can be halved."""

    def adds(count: int) -> bool:
        return bool(_new_columns(table.columns, rows.take(pa.array(extra[:count], pa.int64()))))

    if not extra or not adds(len(extra)):
        return None
    return extra[bisect_left(range(1, len(extra) + 1), True, key=adds)]


def _new_columns(columns: pa.StructType, rows: pa.StructArray) -> list[SchemaChange]:
    seen = observed(rows)
    if not pa.types.is_struct(seen.type):
        return []
    return [it for it in changes_for(columns, seen.type) if isinstance(it, AddColumn)]


def _changes_for_misfit(table: TableRows, row: pa.StructArray) -> list[SchemaChange]:
    seen = observed(row)
    changes = changes_for(table.columns, seen.type) if pa.types.is_struct(seen.type) else []
    if not changes:
        return []
    _, still_bad = RowSchema(apply(table.columns, changes)).fit(row)
    return [] if still_bad else changes


def following_columns(
    table: TableRows, rows: pa.StructArray, changes: Sequence[SchemaChange], bad: Mapping[int, str]
) -> list[SchemaChange]:
    """Return ``changes`` with the further columns that good rows after it show.

    So one change of the schema is enough for all new fields of a chunk.
    """
    grown = apply(table.columns, changes)
    chosen = [row for row in range(len(rows)) if row not in bad]
    return [*changes, *_new_columns(grown, rows.take(pa.array(chosen, pa.int64())))]
