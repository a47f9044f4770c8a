"""Counts and bounds of data files that their own footers do not have.

NaN is no part of bounds, by the specifications of Iceberg and Parquet.  For DuckDB and Spark it is
a value above all others, so bounds would hide it: a column has none in a file with NaN.
Nor is NaN counted there: from a file of nothing but NaN readers would expect nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from secor.tables.catalog import FIELD_ID
from secor.tables.library import FloatStatistics
from secor.tables.staging.manifest import Statistics


class FloatCounts:
    """Statistics of all floating-point columns that are in no list and no map, by field id."""

    def __init__(self, columns: pa.Schema) -> None:
        self._paths = {
            int(field.metadata[FIELD_ID]): path
            for field, path in _outside_of_lists(pa.struct(list(columns)))
            if pa.types.is_floating(field.type)
        }
        self.by_id = {field_id: FloatStatistics() for field_id in self._paths}

    def add(self, rows: pa.Table) -> None:
        """Take rows in."""
        for field_id, (first, *inner) in self._paths.items():
            column = rows.column(first)
            values = pc.struct_field(column, inner) if inner else column
            of_file = self.by_id[field_id]
            of_file.nulls += values.null_count
            of_file.nans += pc.sum(pc.is_nan(values)).as_py() or 0
            span = pc.min_max(values)
            least, greatest = span["min"].as_py(), span["max"].as_py()
            # A column of nothing but NaN has NaN as both ends for Arrow, which is no bound.
            if least is not None and least == least:
                of_file.least = _least(of_file.least, least)
                of_file.greatest = -_least(_negative(of_file.greatest), -greatest)


def _outside_of_lists(
    kind: pa.StructType, above: tuple[int, ...] = ()
) -> Iterator[tuple[pa.Field, tuple[int, ...]]]:
    for place, field in enumerate(kind.fields):
        yield field, (*above, place)
        if pa.types.is_struct(field.type):
            yield from _outside_of_lists(field.type, (*above, place))


def _least(known: float | None, value: float) -> float:
    """Return the lesser number; -0.0 for zeros, which are equal and have two forms."""
    lesser = value if known is None else min(known, value)
    return -0.0 if lesser == 0 else lesser


def _negative(known: float | None) -> float | None:
    return None if known is None else -known


class ColumnCounts:
    """Counted over the columns that are not nested."""

    def __init__(self, columns: pa.Schema) -> None:
        self._ids = {
            field.name: int(field.metadata[FIELD_ID])
            for field in columns
            if not pa.types.is_nested(field.type)
        }
        self._floats = FloatCounts(columns)
        self._values = dict.fromkeys(self._ids.values(), 0)
        self._nulls = dict.fromkeys(self._ids.values(), 0)

    def add(self, rows: pa.Table) -> None:
        """Count rows."""
        self._floats.add(rows)
        for name, field_id in self._ids.items():
            column = rows.column(name)
            self._values[field_id] += len(column)
            self._nulls[field_id] += column.null_count

    def statistics(self) -> Statistics:
        """Return what was counted."""
        nans = {
            key: 0
            for key, of_file in self._floats.by_id.items()
            if key in self._values and not of_file.nans
        }
        return Statistics(
            value_counts=dict(self._values),
            null_value_counts=dict(self._nulls),
            nan_value_counts=nans,
        )
