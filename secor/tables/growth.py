"""Finds the rows for which a table's schema must grow, before any of them is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.formats.typed.dominance import seen_together
from secor.formats.typed.growth import is_new
from secor.formats.typed.inference import observe
from secor.formats.typed.observed_types import first_that_adds, groups
from secor.formats.typed.schema import RowSchema
from secor.tables.catalog import AddColumn, SchemaChange
from secor.tables.schema_changes import apply, changes_for, still_needed
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
        """Return the first fitting row that shows new columns."""
        return first_that_adds(rows, extra, self._columns, lambda it: bool(self.new_columns(it)))

    def new_columns(self, rows: pa.StructArray) -> list[SchemaChange]:
        """Return the columns that rows show beside the table's."""
        return [it for it in self.changes(observe(rows).type) if isinstance(it, AddColumn)]

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
            same_types = wrong[alike]
            changes = self.changes(observe(rows.take(pa.array(same_types[:1]))).type)
            if changes:
                grown = RowSchema(apply(self._columns, changes))
                _, still_bad = grown.fit(rows.take(pa.array(same_types)))
                row_changes += [
                    (int(row), changes) for at, row in enumerate(same_types) if at not in still_bad
                ]
        return min(row_changes, key=lambda change: change[0], default=None)

    def changes(
        self, seen: pa.DataType, columns: pa.StructType | None = None
    ) -> list[SchemaChange]:
        """Return what ``columns``, the table's by default, lack for rows of the type ``seen``."""
        if not pa.types.is_struct(seen):
            return []
        return [
            change
            for change in changes_for(self._columns if columns is None else columns, seen)
            if change not in self._declined
            and (len(change.path) > 1 or change.path[0].lower() not in self._taken)
        ]


def following_columns(
    table: TableRows,
    declined: frozenset[SchemaChange],
    rows: pa.StructArray,
    changes: Sequence[SchemaChange],
    bad: Mapping[int, str],
) -> tuple[list[SchemaChange], list[str]]:
    """Return ``changes`` with all columns that the good rows show, and what was outvoted.

    So one change of the schema is enough for all new fields of a chunk, and a new column has
    the type of 99 of 100 of its values, not that of the first.
    """
    chosen = [row for row in range(len(rows)) if row not in bad]
    seen, outvoted = seen_together([rows.take(pa.array(chosen, pa.int64()))])
    wider = [change for change in changes if not isinstance(change, AddColumn)]
    grown = apply(table.columns, wider)
    further = _Look(table, declined).changes(seen, grown)
    voted = [*wider, *(change for change in further if isinstance(change, AddColumn))]
    # Changes that only a misfitting row needs: such a row has no vote.
    alone = still_needed(apply(table.columns, voted), changes)
    new = [str(field) for field in outvoted if is_new(table.columns, field.path)]
    return [*voted, *alone], new
