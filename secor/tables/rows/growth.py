"""Finds the rows for which a table's schema must grow, before any of them is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import children, entries, flatten, is_list
from secor.core.model import TopicPartition
from secor.core.variant_json import is_declared
from secor.schema.dominance import show_path
from secor.schema.inference import observe
from secor.schema.new_columns import Numbers, ObservedRows, is_new, seen_together, show_kinds
from secor.schema.observed_types import first_that_adds, groups
from secor.tables.catalog import AddColumn, SchemaChange, WidenColumn
from secor.tables.rows.column_names import is_uuid
from secor.tables.rows.needs import ColumnNotes
from secor.tables.rows.schema_changes import (
    ELEMENT,
    VALUE,
    Path,
    apply,
    as_declared,
    changes_for,
    still_needed,
    storable,
)
from secor.tables.rows.table_rows import FittedRows, TableRows

_NOTHING: pa.StructType = pa.struct([])


def first_change(
    table: TableRows,
    declined: frozenset[SchemaChange],
    rows: pa.StructArray,
    fitted: FittedRows,
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
    rounded = look.first_rounded(rows, np.flatnonzero(live & ~wrong))
    if rounded is not None:
        row_changes.append(rounded)
    return min(row_changes, key=lambda change: change[0], default=None)


class _Look:
    """One look at rows of a table."""

    def __init__(self, table: TableRows, declined: frozenset[SchemaChange]) -> None:
        self._columns = table.columns
        self._fields = table.fields
        self._declined = declined
        self._taken = table.origin_names
        self._text_types = table.text_types

    def first_with_new(self, rows: pa.StructArray, extra: Sequence[int]) -> int | None:
        """Return the first fitting row that shows new columns."""
        return first_that_adds(
            rows, extra, self._columns, lambda same_rows: bool(self.new_columns(same_rows))
        )

    def new_columns(self, rows: pa.StructArray) -> list[SchemaChange]:
        """Return the columns that rows show and the table lacks."""
        return [change for change in self._changes_for(rows) if isinstance(change, AddColumn)]

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
            changes = self._changes_for(rows.take(pa.array(same_types[:1])))
            if changes:
                # Tried before it is asked for: a row that would not fit the grown schema either
                # must not grow it.
                columns = _with_uuids_as_text(apply(self._columns, changes))
                grown = replace(self._fields, fields=columns, extra_fields="drop")
                _, still_bad = grown.fit(rows.take(pa.array(same_types)))
                row_changes += [
                    (int(row), changes)
                    for index, row in enumerate(same_types)
                    if index not in still_bad
                ]
        return min(row_changes, key=lambda change: change[0], default=None)

    def first_rounded(
        self, rows: pa.StructArray, fitting: npt.NDArray[np.int64]
    ) -> tuple[int, list[SchemaChange]] | None:
        """Return the first fitting row with a double, so declared by the messages' own schema,
        that a column of floats would round, and the columns that become doubles for it.

        Where these may not grow, doubles are rounded, as numbers of JSON are in such a column.
        """
        if not _may_round(self._columns, rows.type):
            return None
        chosen = rows.take(pa.array(fitting))
        if not self._rounded(chosen):
            return None
        low, high = 0, len(chosen)  # the first such row is in [low, high)
        while high - low > 1:
            middle = (low + high) // 2
            if self._rounded(chosen.slice(low, middle - low)):
                high = middle
            else:
                low = middle
        return int(fitting[low]), self._rounded(chosen.slice(low, 1))

    def _rounded(self, rows: pa.StructArray) -> list[SchemaChange]:
        changes = (WidenColumn(path, pa.float64()) for path in _rounded_paths(self._columns, rows))
        return [change for change in changes if change not in self._declined]

    def _changes_for(self, rows: pa.StructArray) -> list[SchemaChange]:
        seen = as_declared(observe(rows).type, [rows.type])
        return self.changes(storable(seen, [rows.type], self._text_types))

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


def _may_round(kept: pa.DataType, shown: pa.DataType, declared: bool = False) -> bool:
    """Return whether declared doubles meet columns of floats, by the types alone."""
    if pa.types.is_struct(kept) and pa.types.is_struct(shown):
        shown_fields = {field.name: field for field in shown.fields}
        return any(
            _may_round(field.type, shown_field.type, is_declared(shown_field))
            for field in kept.fields
            if (shown_field := shown_fields.get(field.name)) is not None
        )
    if is_list(kept) and is_list(shown):
        return _may_round(kept.value_type, shown.value_type, is_declared(shown.value_field))
    if pa.types.is_map(kept) and pa.types.is_map(shown):
        return _may_round(kept.item_type, shown.item_type, is_declared(shown.item_field))
    return bool(declared and kept == pa.float32() and shown == pa.float64())


def _rounded_paths(
    kept: pa.DataType, array: pa.Array, path: Path = (), declared: bool = False
) -> Iterator[Path]:
    """Give the paths of columns of floats that would round declared doubles of these rows."""
    shown = array.type
    if not _may_round(kept, shown, declared):
        return
    if pa.types.is_struct(kept):
        columns = {field.name: (field, column) for field, column in children(array)}
        for field in kept.fields:
            if field.name in columns:
                shown_field, column = columns[field.name]
                inner = (*path, field.name)
                yield from _rounded_paths(field.type, column, inner, is_declared(shown_field))
    elif is_list(kept):
        marked = is_declared(shown.value_field)
        yield from _rounded_paths(kept.value_type, flatten(array), (*path, ELEMENT), marked)
    elif pa.types.is_map(kept):
        marked = is_declared(shown.item_field)
        items = entries(array)[1].field(1)
        yield from _rounded_paths(kept.item_type, items, (*path, VALUE), marked)
    else:
        doubles = array.drop_null()
        floats = doubles.cast(pa.float32(), safe=False).cast(pa.float64())
        same = pc.or_(pc.equal(doubles, floats), pc.is_nan(doubles))
        if not pc.all(same, min_count=0).as_py():
            yield path


def _with_uuids_as_text(columns: pa.StructType) -> pa.StructType:
    """Return columns as rows are before UUIDs are read from their text."""
    return pa.struct([field.with_type(_uuid_as_text(field.type)) for field in columns.fields])


def _uuid_as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return _with_uuids_as_text(kind)
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(_uuid_as_text(kind.value_type)))
    return pa.string() if is_uuid(kind) else kind


def following_columns(
    table: TableRows,
    declined: frozenset[SchemaChange],
    rows: pa.StructArray,
    changes: Sequence[SchemaChange],
    bad: Mapping[int, str],
    numbers: Numbers,
    first: tuple[TopicPartition, int],
) -> tuple[list[SchemaChange], ColumnNotes]:
    """Return ``changes`` with all columns that the good rows show, and what is to say of these.

    So one change of the schema is enough for all new fields of a chunk, and a new column has
    the type of 99 of 100 of its values, not that of the first.
    """
    chosen = [row for row in range(len(rows)) if row not in bad]
    good = [rows.take(pa.array(chosen, pa.int64()))]
    seen = seen_together(good, numbers=numbers, rules=table.fields.rules, known=table.columns)
    declared = as_declared(seen.type, [rows.type]) if numbers == "as seen" else seen.type
    kind = storable(declared, [rows.type], table.text_types)
    wider = [change for change in changes if not isinstance(change, AddColumn)]
    grown = apply(table.columns, wider)
    further = _Look(table, declined).changes(kind, grown)
    voted = [*wider, *(change for change in further if isinstance(change, AddColumn))]
    # Changes that only a misfitting row needs: such a row has no vote.
    alone = still_needed(apply(table.columns, voted), changes)
    columns = table.columns
    notes = ColumnNotes(
        tuple(str(field_name) for field_name in seen.outvoted if is_new(columns, field_name.path)),
        tuple(
            str(mixed_column) for mixed_column in seen.mixed if is_new(columns, mixed_column.path)
        ),
        shown_kinds(seen, columns),
        first,
    )
    return [*voted, *alone], notes


def shown_kinds(
    seen: ObservedRows, columns: pa.StructType = _NOTHING
) -> tuple[tuple[str, str], ...]:
    """Return the kinds of values of each new field, as a record of the table has them."""
    return tuple(
        (show_path(path), show_kinds(dict(Counter(kinds).most_common())))
        for path, kinds in seen.kinds.items()
        if path and is_new(columns, path)
    )
