"""Conversion of columns to declared types, with the reasons of rows that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import (
    children,
    entries,
    flatten,
    is_json,
    is_list,
    list_of,
    together,
    unmark,
)
from secor.arrow.scalar_casts import TypeRules
from secor.arrow.to_python import plain, write_out
from secor.core.variant_json import is_mixed
from secor.schema.fitting import (
    MisfitError,
    fit_field,
    fit_singly,
)
from secor.schema.inference import Rows, by_kind, typed_text
from secor.schema.misfit_prefilter import suspects


def find_undeclared(array: pa.Array, kind: pa.DataType, *, marked: bool = False) -> pa.Array | None:
    """Return what ``kind`` has no place for, in the same structure, null where nothing is.

    ``array`` is a column that ``fitting.fitted`` takes as ``kind``.  Of a list or a map with
    something undeclared in an element it is the whole of it.
    """
    if array.null_count == len(array) or is_json(kind):
        return None
    if marked or is_json(array.type):
        array = typed_text(array)
    if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
        return _undeclared_fields(array, kind)
    if pa.types.is_struct(array.type) and pa.types.is_map(kind):
        fields = pa.struct([pa.field(field.name, kind.item_type) for field in array.type.fields])
        return _undeclared_fields(array, fields)
    if is_list(array.type) and is_list(kind):
        mark = is_mixed(array.type.value_field)
        return _undeclared_items(array, flatten(array), kind.value_type, marked=mark)
    if pa.types.is_map(array.type) and pa.types.is_map(kind):
        items = entries(array)[1].field(1)
        return _undeclared_items(
            array, items, kind.item_type, marked=is_mixed(array.type.item_field)
        )
    return None


def _undeclared_fields(array: pa.StructArray, kind: pa.StructType) -> pa.Array | None:
    targets = {field.name: field.type for field in kind.fields}
    names: list[pa.Field] = []
    columns: list[pa.Array] = []
    for field, column in children(array):
        more, mark = column, is_mixed(field)
        if field.name in targets:
            more = find_undeclared(column, targets[field.name], marked=mark)
        else:
            more = unmark(column, field)
        if more is not None and more.null_count < len(more):
            names.append(pa.field(field.name, more.type))
            columns.append(more)
    if not columns:
        return None
    valid = columns[0].is_valid()
    for column in columns[1:]:
        valid = pc.or_(valid, column.is_valid())
    return pa.StructArray.from_arrays(columns, fields=names, mask=pc.invert(valid))


def _undeclared_items(
    array: pa.Array, items: pa.Array, kind: pa.DataType, *, marked: bool
) -> pa.Array | None:
    more = find_undeclared(items, kind, marked=marked)
    if more is None:
        return None
    lists = entries(array)[0] if pa.types.is_map(array.type) else array
    flags = list_of(more.is_valid(), pa.field("item", pa.bool_()), lists)
    has_extra: list[Any] = [
        bool(item_flags) and any(item_flags) for item_flags in flags.to_pylist()
    ]
    rows = np.where(np.array(has_extra, dtype=bool), np.arange(len(array)), -1)
    extra = array.take(pa.array(rows, pa.int64(), mask=rows < 0))
    return unmark(extra, pa.field("found", array.type))


Part = tuple[Rows, pa.Array]


class ColumnFit:
    """The column ``target`` of rows, made of ``column`` if they have it.

    ``bad`` is by row number why a row does not fit; ``left``, if ``extra`` is wanted, what of
    its value is not declared.
    """

    def __init__(
        self,
        field: pa.Field | None,
        column: pa.Array | None,
        target: pa.Field,
        valid: pa.Array,
        *,
        extra: bool,
        rules: TypeRules,
    ) -> None:
        """Take all rows; those that are not ``valid`` are null."""
        self._field = field
        self._column = column
        self._target = target
        self._valid = valid
        self._extra = extra
        self._rules = rules
        self.bad: dict[int, str] = {}
        self.left: dict[int, Any] = {}

    def fit(self) -> pa.Array:
        """Return the column of all rows, null where they do not fit."""
        return self._fit(np.arange(len(self._valid)), self._field, self._column)

    def _fit(self, rows: Rows, field: pa.Field | None, column: pa.Array | None) -> pa.Array:
        """Fit ``rows`` at once or, if that does not do, the culprits apart from the others."""
        try:
            return self._at_once(rows, field, column)
        except MisfitError as misfit:
            if len(rows) == 1:
                self.bad[int(rows[0])] = str(misfit)
                return pa.nulls(1, self._target.type)
        if field is not None and is_mixed(field) and not is_json(self._target.type):
            parts = list(by_kind(column, self._target.type))
            if len(parts) > 1 or not is_json(parts[0][1].type):
                return self._by_kind(rows, parts)
        chosen = pa.array(rows)
        valid = self._valid.take(chosen).to_numpy(zero_copy_only=False)
        suspect = suspects(field, column, self._target, valid, rules=self._rules)
        if not suspect.any():
            suspect = np.arange(len(rows)) < len(rows) // 2
            judged = self._fit
        else:
            judged = self._singly
        converted = [
            (
                places,
                judge(
                    rows[places], field, None if column is None else column.take(pa.array(places))
                ),
            )
            for places, judge in (
                (np.flatnonzero(suspect), judged),
                (np.flatnonzero(~suspect), self._fit),
            )
            if len(places)
        ]
        return together(converted)

    def _by_kind(self, rows: Rows, parts: Sequence[Part]) -> pa.Array:
        converted = []
        for places, part in parts:
            field = pa.field(self._target.name, part.type)
            converted.append((places, self._fit(rows[places], field, part)))
        return together(converted)

    def _at_once(self, rows: Rows, field: pa.Field | None, column: pa.Array | None) -> pa.Array:
        """Fit all or none.  Raises ``MisfitError``."""
        valid = self._valid if len(rows) == len(self._valid) else self._valid.take(pa.array(rows))
        like = pc.if_else(valid, True, None)
        converted = fit_field(field, column, self._target, like, rules=self._rules)
        if self._extra and field is not None:
            more = find_undeclared(column, self._target.type, marked=is_mixed(field))
            if more is not None and more.null_count < len(more):
                values = zip(rows.tolist(), plain(write_out(more)), strict=True)
                self.left.update((row, value) for row, value in values if value is not None)
        return converted

    def _singly(self, rows: Rows, field: pa.Field | None, column: pa.Array | None) -> pa.Array:
        """Fit each row by itself, as it came."""
        if column is None or column.null_count == len(column):
            # Only a field that must be there is suspected where there is nothing.
            self.bad.update(dict.fromkeys(rows.tolist(), f"{self._target.name}: is missing"))
            return pa.nulls(len(rows), self._target.type)
        kinds = (self._target.type, column.type)
        texts = field is not None and is_mixed(field)
        if texts or column.null_count or any(map(pa.types.is_nested, kinds)) or is_json(kinds[0]):
            return pa.concat_arrays([self._single(row) for row in rows.tolist()])
        outcomes = fit_singly(column, self._target.type, self._target.name, rules=self._rules)
        nothing = pa.nulls(1, self._target.type)
        for row, outcome in zip(rows.tolist(), outcomes, strict=True):
            if isinstance(outcome, str):
                self.bad[row] = outcome
        return pa.concat_arrays(
            [nothing if isinstance(outcome, str) else outcome for outcome in outcomes]
        )

    def _single(self, row: int) -> pa.Array:
        piece = None if self._column is None else self._column.slice(row, 1)
        return self._fit(np.array([row]), self._field, piece)
