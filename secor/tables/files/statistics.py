"""Counts of values and nulls of files whose own footers tell none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from secor.tables.catalog import FIELD_ID
from secor.tables.manifest import Statistics


class ColumnCounts:
    """Counted over the columns that are not nested."""

    def __init__(self, columns: pa.Schema) -> None:
        self._ids = {
            field.name: int(field.metadata[FIELD_ID])
            for field in columns
            if not pa.types.is_nested(field.type)
        }
        self._floating = {field.name for field in columns if pa.types.is_floating(field.type)}
        self._values = dict.fromkeys(self._ids.values(), 0)
        self._nulls = dict.fromkeys(self._ids.values(), 0)
        self._nans = {self._ids[name]: 0 for name in self._floating}

    def add(self, rows: pa.Table) -> None:
        """Count rows."""
        for name, field_id in self._ids.items():
            column = rows.column(name)
            self._values[field_id] += len(column)
            self._nulls[field_id] += column.null_count
            if name in self._floating:
                self._nans[field_id] += pc.sum(pc.is_nan(column)).as_py() or 0

    def statistics(self) -> Statistics:
        """Return what was counted."""
        return Statistics(
            value_counts=dict(self._values),
            null_value_counts=dict(self._nulls),
            nan_value_counts=dict(self._nans),
        )
