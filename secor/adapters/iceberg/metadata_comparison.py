"""Recorded metadata of a table's files compared with the files: promises by which readers prune.

A bound must cover the values and need not be tight.  Counts and partition values must be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import localcontext
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as LibraryTable
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    IcebergType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from secor.adapters.iceberg.correcting import (
    LOWER,
    NANS,
    NULLS,
    ROWS,
    SIZE,
    SPLIT_OFFSETS,
    UPPER,
    VALUES,
    corrections,
)
from secor.adapters.iceberg.data_file_contents import (
    NAN,
    ColumnContents,
    FileContents,
    decode_bound,
    order_key,
    plain,
    read_contents,
    show,
)
from secor.adapters.iceberg.data_file_rows import EXACT, naming_damage
from secor.core.errors import CorruptFile
from secor.tables.catalog import NEWEST_FORMAT
from secor.verify.metadata import REPAIR, ComparedFile, WrongMetadata

Item = TypeVar("Item")
Value = TypeVar("Value")
Parallel = Callable[[Callable[[Item], Value], Sequence[Item]], Iterable[Value]]

UNITS_A_DAY: Mapping[type[IcebergType], int] = {
    TimestampNanoType: 86_400_000_000_000,
    TimestamptzNanoType: 86_400_000_000_000,
    DateType: 1,
}
MICROSECONDS_A_DAY = 86_400_000_000

REWRITE = "let Spark write the file again, by rewrite_data_files with 'rewrite-all' => 'true'"
REWRITE_DELETES = "let Spark write the deletes again: rewrite_position_delete_files"


def compare_files(
    table: LibraryTable, snapshot_id: int, parallel: Parallel[Any, Any]
) -> Iterator[ComparedFile]:
    """Compare all files of a snapshot, those of deletes, too; reads all of their values.

    Gives one result for each file, and for each manifest that is wrong itself.  Errors of the
    store pass, as the library raises them.
    """
    snapshot = table.snapshot_by_id(snapshot_id)
    assert snapshot is not None, "the snapshot was loaded with the table"
    comparison = _Comparison(table)
    for manifest in snapshot.manifests(table.io):
        with localcontext(EXACT):
            entries = manifest.fetch_manifest_entry(table.io)
            wrong = tuple(comparison.manifest_faults(manifest, entries))
        if wrong:
            yield ComparedFile(manifest.manifest_path, wrong=wrong, corrections={})
        # Puffin files are deletion vectors: they have no columns to compare.
        files = [
            entry.data_file for entry in entries if entry.data_file.file_format != FileFormat.PUFFIN
        ]
        yield from parallel(partial(comparison.compare, manifest.partition_spec_id), files)


class _Comparison:
    """One table's schema and partition specs; used by several threads."""

    def __init__(self, table: LibraryTable) -> None:
        self._io: FileIO = table.io
        self._schema: Schema = table.schema()
        self._specs = table.specs()
        self._mapping = table.name_mapping()
        self._is_correctable = table.format_version <= NEWEST_FORMAT

    def compare(self, spec_id: int, file: DataFile) -> ComparedFile:
        """Read one file and compare it."""
        spec = self._specs[spec_id]
        buckets: dict[int, list[int]] = {}
        for field in spec.fields:
            if isinstance(field.transform, BucketTransform):
                buckets.setdefault(field.source_id, []).append(field.transform.num_buckets)
        # Once more: this runs in threads of a pool, which have contexts of their own.
        with localcontext(EXACT):
            try:
                with naming_damage(self._io, file):
                    contents = read_contents(self._io, file, self._mapping, self._schema, buckets)
                    wrong = tuple(file_faults(file, contents, spec))
                    right = corrections(file, contents, wrong)
            except CorruptFile as error:
                return ComparedFile(file.file_path, damage=str(error))
        # A repair writes entries of manifests anew, and would drop what a newer format has in them.
        if not self._is_correctable:
            wrong = tuple(replace(fault, cure=REWRITE) for fault in wrong)
            right = None
        remarks = tuple(
            f"{file.file_path}: the column {name} is not compared: {why}"
            for name, why in contents.left_out.items()
        )
        return ComparedFile(file.file_path, contents.records, wrong, remarks, corrections=right)

    def manifest_faults(
        self, manifest: ManifestFile, entries: Sequence[Any]
    ) -> Iterator[WrongMetadata]:
        """Compare what a manifest list says of a manifest with its entries."""

        def wrong(column: str, what: str, recorded: str, actual: str) -> WrongMetadata:
            path = manifest.manifest_path
            return WrongMetadata(path, column, what, recorded, actual)

        for what, recorded, status in (
            ("number of added files", manifest.added_files_count, ManifestEntryStatus.ADDED),
            (
                "number of existing files",
                manifest.existing_files_count,
                ManifestEntryStatus.EXISTING,
            ),
        ):
            actual = sum(entry.status == status for entry in entries)
            if recorded is not None and recorded != actual:
                yield wrong("", what, f"{recorded:,}", f"{actual:,}")
        spec = self._specs[manifest.partition_spec_id]
        for place, summary in enumerate(manifest.partitions or ()):
            field = spec.fields[place]
            kind = _result_type(field, self._schema)
            values = [plain(entry.data_file.partition[place]) for entry in entries]
            if None in values and not summary.contains_null:
                yield wrong(field.name, "presence of null partitions", "no", "yes")
            # None says that nobody has looked.
            if NAN in values and summary.contains_nan is False:
                yield wrong(field.name, "presence of NaN partitions", "no", "yes")
            known = sorted(
                (value for value in values if value is not None and value != NAN), key=order_key
            )
            if kind is not None and known:
                yield from _bound_faults(
                    partial(wrong, field.name),
                    kind,
                    (known[0], known[-1]),
                    (summary.lower_bound, summary.upper_bound),
                )


def _result_type(field: PartitionField, schema: Schema) -> PrimitiveType | None:
    """Return the type of a partition value; None where its source is no longer a column."""
    if field.source_id not in schema._lazy_id_to_field or isinstance(
        field.transform, UnknownTransform
    ):
        return None
    kind = field.transform.result_type(schema.find_type(field.source_id))
    return kind if isinstance(kind, PrimitiveType) else None


def file_faults(
    file: DataFile, contents: FileContents, spec: PartitionSpec
) -> Iterator[WrongMetadata]:
    """Give what is recorded of a file and is not so."""
    cure = REPAIR if file.content == DataFileContent.DATA else REWRITE_DELETES

    def wrong(
        column: str, what: str, recorded: str, actual: str, cure: str = cure
    ) -> WrongMetadata:
        return WrongMetadata(file.file_path, column, what, recorded, actual, cure)

    if file.record_count != contents.records:
        yield wrong("", ROWS, f"{file.record_count:,}", f"{contents.records:,}")
    if file.file_size_in_bytes != contents.size:
        yield wrong("", SIZE, f"{file.file_size_in_bytes:,}", f"{contents.size:,}")
    groups = contents.row_groups
    if groups is not None and file.split_offsets and tuple(file.split_offsets) != groups:
        actual = ", ".join(map(str, groups))
        yield wrong("", SPLIT_OFFSETS, ", ".join(map(str, file.split_offsets)), actual)
    for field_id, column in contents.columns.items():
        of_column = partial(wrong, column.name)
        yield from _count_faults(of_column, file, field_id, column, contents.records)
        if column.least is not None:
            yield from _bound_faults(
                of_column,
                column.kind,
                (column.least, column.greatest),
                ((file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)),
            )
    for place, field in enumerate(spec.fields):
        source = contents.columns.get(field.source_id)
        if source is not None:
            yield from _partition_faults(wrong, field, source, file.partition[place])


Wrong = Callable[[str, str, str], WrongMetadata]
"""Takes what is wrong, what is recorded and what was found."""


def _count_faults(
    wrong: Wrong, file: DataFile, field_id: int, column: ColumnContents, rows: int
) -> Iterator[WrongMetadata]:
    values = (file.value_counts or {}).get(field_id)
    nulls = (file.null_value_counts or {}).get(field_id)
    nans = (file.nan_value_counts or {}).get(field_id)
    forms = [(rows, column.nulls)]
    if 0 < column.hidden < column.nulls:
        # Avro writers of Java do not count rows in which the struct around the column is null.
        forms.append((rows - column.hidden, column.nulls - column.hidden))
    if not any(values in (None, right) and nulls in (None, null) for right, null in forms):
        if values is not None and values != rows:
            yield wrong(VALUES, f"{values:,}", f"{rows:,}")
        if nulls is not None and nulls != column.nulls:
            yield wrong(NULLS, f"{nulls:,}", f"{column.nulls:,}")
    if nans is not None and nans != column.nans:
        yield wrong(NANS, f"{nans:,}", f"{column.nans:,}")


def _bound_faults(
    wrong: Wrong,
    kind: PrimitiveType,
    ends: tuple[Any, Any],
    bounds: tuple[bytes | None, bytes | None],
) -> Iterator[WrongMetadata]:
    for what, side, end, data in (
        (LOWER, "least", ends[0], bounds[0]),
        (UPPER, "greatest", ends[1], bounds[1]),
    ):
        if data is None:
            continue
        actual = f"{side} value {show(kind, end)}"
        try:
            bound = decode_bound(kind, data)
        except ValueError as error:
            yield wrong(what, f"0x{data[:40].hex()}, no {kind} ({error})", actual)
            continue
        key, end_key = order_key(bound), order_key(end)
        if bound == NAN or (key > end_key if what == LOWER else key < end_key):
            yield wrong(what, show(kind, bound), actual)


def _partition_faults(
    wrong: Callable[[str, str, str, str, str], WrongMetadata],
    field: PartitionField,
    source: ColumnContents,
    value: Any,
) -> Iterator[WrongMetadata]:
    true_values = _partition_values(field, source)
    recorded = plain(value)
    # All rows of a file are of one partition; a file without values has none to be wrong about.
    if true_values is not None and true_values - {recorded}:
        kind = source.kind if isinstance(field.transform, IdentityTransform) else None
        if isinstance(field.transform, TruncateTransform):
            kind = source.kind
        if isinstance(field.transform, DayTransform):
            kind = DateType()
        shown = sorted(show(kind, true_value) for true_value in true_values)
        listed = ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "")
        what = f"partition value {field.name} ({field.transform})"
        yield wrong(source.name, what, show(kind, recorded), listed, REWRITE)


def _partition_values(field: PartitionField, source: ColumnContents) -> set[Any] | None:
    """Return what the transform gives for the values of a file, None if it is not known.

    Of a transform that keeps the order only the least and the greatest value are transformed.
    """
    if isinstance(field.transform, VoidTransform):
        return {None}
    if isinstance(field.transform, BucketTransform):
        return set(source.buckets.get(field.transform.num_buckets, ()))
    transform = _ordered_transform(field, source.kind)
    if transform is None:
        return None
    values: set[Any] = {None} if source.nulls else set()
    if source.nans:
        values.add(NAN)
    ends = () if source.least is None else (source.least, source.greatest)
    return values | {transform(value) for value in ends}


def _ordered_transform(field: PartitionField, kind: PrimitiveType) -> Callable[[Any], Any] | None:
    """Return a transform of plain values (Iceberg specification, partition transforms)."""
    day = UNITS_A_DAY.get(type(kind), MICROSECONDS_A_DAY)
    match field.transform:
        case IdentityTransform():
            return lambda value: value
        case TruncateTransform():
            width = field.transform.width
            if isinstance(kind, StringType):
                # Texts are cut after characters, bytes after bytes.
                return lambda value: value.decode()[:width].encode()
            return lambda value: (
                value[:width] if isinstance(value, bytes) else value - value % width
            )
        # // goes down before 1970, too, as the specification wants, and so does % for truncated
        # numbers.
        case DayTransform():
            return lambda value: value // day
        case HourTransform():
            return lambda value: value // (day // 24)
        case MonthTransform():
            return lambda value: _calendar(value // day, "M")
        case YearTransform():
            return lambda value: _calendar(value // day, "Y")
    return None


def _calendar(days: int, unit: str) -> int:
    return int(np.datetime64(days, "D").astype(f"M8[{unit}]").astype(np.int64))
