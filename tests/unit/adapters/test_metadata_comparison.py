"""What a table records of its files is compared with the files, whoever has written them."""

from __future__ import annotations

import struct
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from tests.found_rows import TABLE, TRANSFORMS, VALUES, edge_table
from tests.unit.adapters.iceberg_tables import sqlite_catalog
from tests.unit.adapters.tampered_tables import (
    ALL_TYPES,
    ROWS,
    TAMPERED,
    append,
    compared,
    long_bytes,
    make,
    rows_of,
    wrong,
)


def test_all_types_as_the_library_writes_them_are_right(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES)
    table.append(rows_of(table, ROWS))
    table.append(rows_of(table, [{}]))
    assert list(wrong(catalog)) == []
    assert sum(file.records for file in compared(catalog)) == 4


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_all_edges_as_secor_writes_them_are_right(file_format: str, tmp_path: Path) -> None:
    for kind in VALUES:
        directory = tmp_path / kind.replace(" ", "")
        directory.mkdir()
        catalog = sqlite_catalog(directory)
        edge_table(catalog, kind, file_format=file_format)
        assert list(wrong(catalog)) == [], kind


@pytest.mark.parametrize("term", TRANSFORMS)
def test_all_partitions_as_secor_writes_them_are_right(term: str, tmp_path: Path) -> None:
    for kind in TRANSFORMS[term]:
        directory = tmp_path / kind.replace(" ", "")
        directory.mkdir()
        catalog = sqlite_catalog(directory)
        table = edge_table(catalog, kind, partition_by=(term,))
        assert list(wrong(catalog)) == [], kind
        assert len(compared(catalog)) == len(table.files)


def test_what_is_wrong_is_a_finding(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES)
    append(table, ROWS, *(change for change, _ in TAMPERED.values()))
    table.append(rows_of(table, ROWS))
    expected = sorted(finding for _, finding in TAMPERED.values())
    assert sorted(wrong(catalog)) == expected
    for file in compared(catalog):
        assert len(file.wrong) <= 1
        for it in file.wrong:
            assert str(it).startswith(f"{file.path}: ")
            assert "'secor tables repair'" in str(it)


def test_bounds_of_the_first_row_group_alone_are_a_finding(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, Schema(NestedField(1, "id", LongType())))
    with table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "2"})
    first_group = {1: long_bytes(1)}
    append(table, [{"id": n} for n in range(4)], lambda file: file.upper_bounds.update(first_group))
    assert list(wrong(catalog)) == [("id", "upper bound", "1", "greatest value 3")]


def test_a_wide_bound_and_one_from_before_a_column_became_wider_are_right(tmp_path: Path) -> None:
    def change(file: DataFile) -> None:
        file.lower_bounds.update({1: struct.pack("<i", -7)})
        file.upper_bounds.update({1: long_bytes(1 << 60)})

    catalog = sqlite_catalog(tmp_path)
    append(make(catalog, Schema(NestedField(1, "id", LongType()))), [{"id": 5}], change)
    assert list(wrong(catalog)) == []


@pytest.mark.parametrize(
    ("transform", "kind", "value", "recorded", "expected"),
    [
        (IdentityTransform(), LongType(), 7, 8, ("part (identity)", "8", "7")),
        (IdentityTransform(), LongType(), 7, None, ("part (identity)", "null", "7")),
        (IdentityTransform(), StringType(), None, "a", ("part (identity)", "'a'", "null")),
        (BucketTransform(4), LongType(), 7, 2, ("part (bucket[4])", "2", "3")),
        (TruncateTransform(10), LongType(), -7, 0, ("part (truncate[10])", "0", "-10")),
        (TruncateTransform(2), StringType(), "abc", "ac", ("part (truncate[2])", "'ac'", "'ab'")),
        (
            DayTransform(),
            TimestampType(),
            datetime(1969, 12, 31, 23),  # noqa: DTZ001  # a timestamp without a zone
            0,
            ("part (day)", "1970-01-01", "1969-12-31"),
        ),
        (VoidTransform(), LongType(), 7, 7, ("part (void)", "7", "null")),
    ],
)
def test_a_partition_that_is_not_that_of_its_rows_is_a_finding(
    transform: Transform[Any, Any],
    kind: Any,
    value: Any,
    recorded: Any,
    expected: tuple[str, str, str],
    tmp_path: Path,
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, Schema(NestedField(1, "x", kind)), transform)
    append(table, [{"x": value}], lambda file: file.partition.__setitem__(0, recorded))
    what, was, found = expected
    assert list(wrong(catalog)) == [("x", f"partition value {what}", was, found)]


def test_rows_of_two_partitions_in_one_file_are_a_finding(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, Schema(NestedField(1, "x", LongType())))
    table.append(rows_of(table, [{"x": 1}, {"x": 7}]))
    (task,) = table.scan().plan_files()
    with table.update_spec() as update:
        update.add_field("x", BucketTransform(4), "part")
    table = catalog.library.load_table(TABLE)
    with (
        table.transaction() as transaction,
        transaction.update_snapshot().fast_append() as snapshot,
    ):
        one = DataFile.from_args(
            **{
                name: getattr(task.file, name)
                for name in ("content", "file_format", "record_count", "file_size_in_bytes")
            },
            file_path=task.file.file_path,
            partition=Record(0),
        )
        one.spec_id = table.spec().spec_id
        snapshot.append_data_file(one)
    assert [found for *_, found in wrong(catalog)] == ["0, 3"]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES)
    append(table, ROWS, lambda file: file.null_value_counts.update({12: 0}))
    table.append(rows_of(table, ROWS))
    files = {task.file.file_path: task.file for task in table.scan().plan_files()}
    right = next(path for path, file in files.items() if file.null_value_counts[12])
    Path(right.removeprefix("file://")).write_bytes(b"PAR1 and no more")
    results = compared(catalog)
    damaged = [it for it in results if it.damage]
    assert [it.path for it in damaged] == [right]
    assert [len(it.wrong) for it in results if not it.damage] == [1]
