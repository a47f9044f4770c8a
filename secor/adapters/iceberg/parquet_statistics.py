"""Statistics of Parquet data files, read from footers: what readers prune files by.

A bound or count is a promise, so it is absent where the footer does not give it for every row
group.  Otherwise these are the numbers of the Iceberg library, which is slower (two milliseconds
for each of hundreds of small files) and takes the bounds of the groups that have them for those
of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

from secor.tables.library import FloatStatistics, ParquetStatistics
from secor.tables.staging.manifest import Statistics

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

_FIRST_SURROGATE, _LAST_SURROGATE, _LAST_CHARACTER = 0xD800, 0xDFFF, 0x10FFFF


@dataclass(frozen=True, slots=True)
class _Column:
    """The reading of one column: ``lower`` and ``upper`` make its bounds, None for no bounds.

    ``ordered`` turns a value of the footer into one that compares as the column's values do.
    """

    field_id: int
    counts: bool = True
    lower: Callable[[Any], bytes] | None = None
    upper: Callable[[Any], bytes | None] | None = None
    ordered: Callable[[Any], Any] | None = None


@dataclass
class _ColumnTotals:
    sizes: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    nans: dict[int, int] = field(default_factory=dict)
    least: dict[int, Any] = field(default_factory=dict)
    greatest: dict[int, Any] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    without_nulls: set[int] = field(default_factory=set)
    without_bounds: set[int] = field(default_factory=set)
    """Columns with values but without bounds in a row group; likewise ``without_nulls``."""


def parquet_statistics(
    plan: Mapping[int, StatisticsCollector], ids: Mapping[str, int]
) -> ParquetStatistics:
    """Return a reader of footers; ``plan`` is by field id, ``ids`` by the columns' paths."""
    columns = {path: _column(plan[field_id]) for path, field_id in ids.items()}
    by_id = {column.field_id: column for column in columns.values()}

    def statistics(footer: pq.FileMetaData, floats: Mapping[int, FloatStatistics]) -> Statistics:
        totals = _read(footer, columns)
        for key, of_file in floats.items():
            if by_id[key].counts:
                _add_floats(totals, by_id[key], of_file)
        return _statistics(totals, by_id)

    return statistics


def _column(collector: StatisticsCollector) -> _Column:
    """Return how to read a column."""
    mode, kind, key = collector.mode, collector.iceberg_type, collector.field_id
    if mode.type is MetricModeTypes.NONE:
        return _Column(key, counts=False)
    if mode.type is MetricModeTypes.COUNTS:
        return _Column(key)
    length = mode.length
    match kind:
        case StringType():
            return _Column(
                key,
                lower=lambda value: value.decode()[:length].encode(),
                upper=lambda value: text_upper_bound(value, length),
            )
        case BinaryType():
            return _Column(
                key,
                lower=lambda value: value[:length],
                upper=lambda value: truncate_upper_bound_binary_string(value, length),
            )
        case DecimalType():
            return _Column(key, lower=_decimal, upper=_decimal, ordered=_unscaled)
        case FixedType():
            return _Column(key, lower=bytes, upper=bytes)
    form = _PACKED.get(type(kind))
    if form is None:
        # A UUID: Java's Iceberg library compares its halves as signed numbers, Parquet and
        # Python's library compare bytes, so there are no bounds that hold for both.
        return _Column(key)
    pack = struct.Struct(form).pack
    return _Column(key, lower=pack, upper=pack)


def text_upper_bound(value: bytes, length: int | None) -> bytes | None:
    """Return a text of at most ``length`` characters above ``value`` and all that begin as it
    does; the value itself if it is not longer, None if there is none.

    Surrogates are numbers between characters and no characters: UTF-8 has no bytes for them.
    """
    text = value.decode()
    cut = text[:length]
    if cut == text:
        return value
    for place in reversed(range(len(cut))):
        following = ord(cut[place]) + 1
        if following == _FIRST_SURROGATE:
            following = _LAST_SURROGATE + 1
        if following <= _LAST_CHARACTER:
            return (cut[:place] + chr(following) + cut[place + 1 :]).encode()
    return None


def _unscaled(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)


def _decimal(unscaled: int) -> bytes:
    """Return the fewest bytes that hold an unscaled value (specification, appendix D)."""
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _read(footer: pq.FileMetaData, columns: Mapping[str, _Column]) -> _ColumnTotals:
    """Read all row groups."""
    totals = _ColumnTotals()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        first = group.column(0)
        start = first.data_page_offset
        if first.has_dictionary_page:
            start = min(start, first.dictionary_page_offset)
        totals.offsets.append(start)
        for position in range(footer.num_columns):
            chunk = group.column(position)
            column = columns[chunk.path_in_schema]
            key = column.field_id
            totals.sizes[key] = totals.sizes.get(key, 0) + chunk.total_compressed_size
            if column.counts:
                totals.values[key] = totals.values.get(key, 0) + chunk.num_values
                _add_statistics(totals, column, chunk)
    return totals


def _add_statistics(totals: _ColumnTotals, column: _Column, chunk: pq.ColumnChunkMetaData) -> None:
    key = column.field_id
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_null_count:
        totals.without_nulls.add(key)
    else:
        totals.nulls[key] = totals.nulls.get(key, 0) + statistics.null_count
    if column.lower is None:
        return
    if statistics is None or not statistics.has_min_max:
        # Arrow leaves out bounds of more than 4,096 bytes, and those of nothing but NaN.
        nulls = statistics.null_count if statistics is not None else None
        if nulls != chunk.num_values:
            # One chunk without bounds is enough: bounds of the others alone would hide its rows
            # from readers.
            totals.without_bounds.add(key)
        return
    least, greatest = statistics.min_raw, statistics.max_raw
    if column.ordered is not None:
        least, greatest = column.ordered(least), column.ordered(greatest)
    totals.least[key] = min(totals.least.get(key, least), least)
    totals.greatest[key] = max(totals.greatest.get(key, greatest), greatest)


def _add_floats(totals: _ColumnTotals, column: _Column, of_file: FloatStatistics) -> None:
    key = column.field_id
    totals.nulls[key] = of_file.nulls
    totals.without_nulls.discard(key)
    if of_file.nans:
        return
    totals.nans[key] = 0
    if column.lower is not None and of_file.least is not None:
        totals.least[key], totals.greatest[key] = of_file.least, of_file.greatest
        totals.without_bounds.discard(key)


def _statistics(totals: _ColumnTotals, columns: Mapping[int, _Column]) -> Statistics:
    lower, upper = {}, {}
    for key, least in totals.least.items():
        if key in totals.without_bounds:
            continue
        column = columns[key]
        assert column.lower is not None
        assert column.upper is not None
        lower[key] = column.lower(least).hex()
        # None where a text is cut and has no greater one of that length: no bound is right, a wrong
        # one hides rows.
        greatest = column.upper(totals.greatest[key])
        if greatest is not None:
            upper[key] = greatest.hex()
    nulls = {key: count for key, count in totals.nulls.items() if key not in totals.without_nulls}
    return Statistics(
        column_sizes=totals.sizes,
        value_counts=totals.values,
        null_value_counts=nulls,
        nan_value_counts=totals.nans,
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=tuple(sorted(totals.offsets)),
    )
