"""The rows for which a table's schema has to grow, found before anything of them is written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.formats.typed.inference import observe
from secor.formats.typed.observed_types import groups
from secor.formats.typed.schema import RowSchema
from secor.tables.catalog import AddColumn, SchemaChange
from secor.tables.schema_changes import apply, changes_for
from secor.tables.table_rows import Fitted, TableRows


def first_change(
    table: TableRows,
    declined: frozenset[SchemaChange],
    rows: pa.StructArray,
    fitted: Fitted,
    live: npt.NDArray[np.bool_],
) -> tuple[int, list[SchemaChange]] | None:
    """Return the first of the ``live`` rows that the schema has to grow for, and how.

    ``rows`` are the renamed rows and ``fitted`` what the table made of them.  A row that does
    not even fit the grown schema asks for nothing: it is bad.  What was ``declined`` is not
    asked for.
    """
    look = _Look(table, declined)
    row_changes = []
    wrong = np.zeros(len(rows), dtype=bool)
    wrong[list(fitted.bad)] = True
    misfit = look.first_misfit_that_grows(rows, np.flatnonzero(wrong & live))
    if misfit is not None:
        row_changes.append(misfit)
    if fitted.extra is not None:
        extra = fitted.extra.to_numpy(zero_copy_only=False) & live & ~wrong
        first = look.first_with_new(rows, np.flatnonzero(extra).tolist())
        if first is not None:
            row_changes.append((first, look.new_columns(rows.slice(first, 1))))
    return min(row_changes, key=lambda change: change[0], default=None)


class _Look:
    """One look at rows of a table."""

    def __init__(self, table: TableRows, declined: frozenset[SchemaChange]) -> None:
        self._columns = table.columns
        self._declined = declined
        self._taken = table.origin_names

    def first_with_new(self, rows: pa.StructArray, extra: Sequence[int]) -> int | None:
        """Of rows that fit: more of them show the columns of fewer, so the first can be halved."""

        def adds(count: int) -> bool:
            return bool(self.new_columns(rows.take(pa.array(extra[:count], pa.int64()))))

        if not extra or not adds(len(extra)):
            return None
        return extra[bisect_left(range(1, len(extra) + 1), True, key=adds)]

    def new_columns(
        self, rows: pa.StructArray, columns: pa.StructType | None = None
    ) -> list[SchemaChange]:
        """Return the columns that rows show beside ``columns``, the table's without it."""
        changes = self._changes(rows, self._columns if columns is None else columns)
        return [change for change in changes if isinstance(change, AddColumn)]

    def first_misfit_that_grows(
        self, rows: pa.StructArray, wrong: npt.NDArray[np.int64]
    ) -> tuple[int, list[SchemaChange]] | None:
        """Return the first bad row that fits after changes, and these.

        Rows that show the same types are looked at together: there may be thousands.
        """
        if not len(wrong):
            return None
        row_changes = []
        for alike in groups(rows.take(pa.array(wrong)), self._columns):
            same = wrong[alike]
            changes = self._changes(rows.take(pa.array(same[:1])), self._columns)
            if changes:
                grown = RowSchema(apply(self._columns, changes))
                _, still_bad = grown.fit(rows.take(pa.array(same)))
                row_changes += [
                    (int(row), changes) for at, row in enumerate(same) if at not in still_bad
                ]
        return min(row_changes, key=lambda change: change[0], default=None)

    def _changes(self, rows: pa.StructArray, columns: pa.StructType) -> list[SchemaChange]:
        seen = observe(rows)
        if not pa.types.is_struct(seen.type):
            return []
        changes = changes_for(columns, seen.type)
        return [
            change
            for change in changes
            if change not in self._declined
            and (len(change.path) > 1 or change.path[0].lower() not in self._taken)
        ]


def following_columns(
    table: TableRows,
    declined: frozenset[SchemaChange],
    rows: pa.StructArray,
    changes: Sequence[SchemaChange],
    bad: Mapping[int, str],
) -> list[SchemaChange]:
    """Return ``changes`` with the further columns that good rows after it show.

    So one change of the schema is enough for all new fields of a chunk.
    """
    grown = apply(table.columns, changes)
    chosen = [row for row in range(len(rows)) if row not in bad]
    more = _Look(table, declined).new_columns(rows.take(pa.array(chosen, pa.int64())), grown)
    return [*changes, *more]
