"""Statistics of Parquet data files, as the Iceberg library computes them.

For common types this module reads them itself, with the same result: a batch may have hundreds
of small files, and the library takes two milliseconds for each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    data_file_statistics_from_parquet_metadata,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from secor.tables.library import ParquetStatistics
from secor.tables.manifest import Statistics

_PACKED: Mapping[type[PrimitiveType], str] = {
    BooleanType: "<?",
    IntegerType: "<i",
    DateType: "<i",
    LongType: "<q",
    TimeType: "<q",
    TimestampType: "<q",
    TimestamptzType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
}
"""Types whose physical value is packed as it is (Iceberg specification, appendix D)."""


@dataclass(frozen=True, slots=True)
class _Column:
    """How to read one column: ``lower`` and ``upper`` make its bounds, None for no bounds."""

    field_id: int
    counts: bool = True
    lower: Callable[[Any], str] | None = None
    upper: Callable[[Any], str | None] | None = None


@dataclass
class _ColumnTotals:
    sizes: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    least: dict[int, Any] = field(default_factory=dict)
    greatest: dict[int, Any] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)


def parquet_statistics(
    plan: Mapping[int, StatisticsCollector], ids: Mapping[str, int]
) -> ParquetStatistics:
    """Return a reader of footers; ``plan`` is by field id, ``ids`` by the columns' paths."""
    columns = {path: _column(plan[field_id]) for path, field_id in ids.items()}
    known = {path: column for path, column in columns.items() if column is not None}

    def statistics(footer: pq.FileMetaData) -> Statistics:
        if len(known) == len(columns):
            totals = _read(footer, known)
            if totals is not None:
                return _statistics(totals, {it.field_id: it for it in known.values()})
        return _by_library(footer, plan, ids)

    return statistics


def _column(collector: StatisticsCollector) -> _Column | None:
    """Return how to read a column, None if the library must do it."""
    mode, kind = collector.mode, collector.iceberg_type
    if mode.type is MetricModeTypes.NONE:
        return _Column(collector.field_id, counts=False)
    if mode.type is MetricModeTypes.COUNTS:
        return _Column(collector.field_id)
    if isinstance(kind, StringType):
        length = mode.length

        def upper(value: bytes) -> str | None:
            text = truncate_upper_bound_text_string(value.decode(), length)
            return None if text is None else text.encode().hex()

        def lower(value: bytes) -> str:
            return value.decode()[:length].encode().hex()

        return _Column(collector.field_id, lower=lower, upper=upper)
    form = _PACKED.get(type(kind))
    if form is None or mode.length is not None:
        return None
    packed = struct.Struct(form)

    def pack(value: Any) -> str:
        return packed.pack(value).hex()

    return _Column(collector.field_id, lower=pack, upper=pack)


def _read(footer: pq.FileMetaData, columns: Mapping[str, _Column]) -> _ColumnTotals | None:
    """Read all row groups; None where a column has no statistics."""
    totals = _ColumnTotals()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        first = group.column(0)
        start = first.data_page_offset
        if first.has_dictionary_page:
            start = min(start, first.dictionary_page_offset)
        totals.offsets.append(start)
        for at in range(footer.num_columns):
            chunk = group.column(at)
            column = columns[chunk.path_in_schema]
            key = column.field_id
            totals.sizes[key] = totals.sizes.get(key, 0) + chunk.total_compressed_size
            if not column.counts:
                continue
            totals.values[key] = totals.values.get(key, 0) + chunk.num_values
            if not chunk.is_stats_set:
                return None
            statistics = chunk.statistics
            if statistics.has_null_count:
                totals.nulls[key] = totals.nulls.get(key, 0) + statistics.null_count
            if column.lower is not None and statistics.has_min_max:
                least, greatest = statistics.min_raw, statistics.max_raw
                totals.least[key] = min(totals.least.get(key, least), least)
                totals.greatest[key] = max(totals.greatest.get(key, greatest), greatest)
    return totals


def _statistics(totals: _ColumnTotals, columns: Mapping[int, _Column]) -> Statistics:
    lower, upper = {}, {}
    for key, least in totals.least.items():
        column = columns[key]
        assert column.lower is not None
        assert column.upper is not None
        lower[key] = column.lower(least)
        greatest = column.upper(totals.greatest[key])
        if greatest is not None:
            upper[key] = greatest
    return Statistics(
        column_sizes=totals.sizes,
        value_counts=totals.values,
        null_value_counts=totals.nulls,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=tuple(sorted(totals.offsets)),
    )


def _by_library(
    footer: pq.FileMetaData, plan: Mapping[int, StatisticsCollector], ids: Mapping[str, int]
) -> Statistics:
    file_statistics = data_file_statistics_from_parquet_metadata(footer, dict(plan), dict(ids))
    columns = file_statistics.to_serialized_dict()
    return Statistics(
        column_sizes=columns["column_sizes"],
        value_counts=columns["value_counts"],
        null_value_counts=columns["null_value_counts"],
        nan_value_counts=columns["nan_value_counts"],
        lower_bounds={key: it.hex() for key, it in columns["lower_bounds"].items()},
        upper_bounds={key: it.hex() for key, it in columns["upper_bounds"].items()},
        split_offsets=tuple(columns["split_offsets"]),
    )
