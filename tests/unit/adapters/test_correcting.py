"""Metadata that was wrong is recorded anew; files, sequence numbers and rows stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.expressions import EqualTo, IsNaN, IsNull
from pyiceberg.table import Table as LibraryTable
from pyiceberg.transforms import IdentityTransform

from secor.adapters.duckdb_tables import duckdb_tables
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.tables.catalog import Outcome
from secor.verify.engine_filters import FilterCheck
from tests.found_rows import TABLE, edge_table
from tests.unit.adapters.iceberg_tables import sqlite_catalog
from tests.unit.adapters.positional_deletes import delete_rows
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


def corrections(catalog: IcebergCatalog) -> dict[str, Mapping[str, Any]]:
    return {it.path: it.corrections for it in compared(catalog) if it.corrections is not None}


def entries(table: LibraryTable) -> list[tuple[str, int | None, int | None, int | None]]:
    """Return what deletes and readers of changes need to know of files."""
    head = table.current_snapshot()
    assert head is not None
    return sorted(
        (it.data_file.file_path, it.snapshot_id, it.sequence_number, it.file_sequence_number)
        for manifest in head.manifests(table.io)
        for it in manifest.fetch_manifest_entry(table.io)
    )


def totals(table: LibraryTable) -> dict[str, str]:
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    lines = head.summary.additional_properties.items()
    return {name: text for name, text in lines if name.startswith("total-")}


def test_what_was_wrong_is_right_and_each_row_is_found(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES)
    append(table, ROWS, *(change for change, _ in TAMPERED.values()))
    table.append(rows_of(table, [{"id": 9, "s": "other"}]))
    before = entries(catalog.library.load_table(TABLE))
    result = catalog.correct(catalog.load_table(TABLE), "main", corrections(catalog))
    assert result is not None
    assert result.outcome is Outcome.DONE
    assert list(wrong(catalog)) == []
    table = catalog.library.load_table(TABLE)
    assert entries(table) == before
    head = table.current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary.operation.value == "replace"
    files = len(TAMPERED)
    assert totals(table)["total-records"] == str(3 * files + 1)
    assert totals(table)["total-data-files"] == str(files + 1)
    for condition in (
        *(EqualTo("id", 3), EqualTo("id", 1), EqualTo("s", "z" * 40), IsNull("s"), IsNaN("d")),
        *(EqualTo("f", -0.0), EqualTo("point.inner.name", "n"), IsNull("point.x")),
    ):
        assert len(table.scan(condition).to_arrow()) >= files, condition
    assert corrections(catalog) == {}


def test_who_was_slower_is_refused_and_corrects_what_is_there_then(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES)
    append(table, ROWS, lambda file: file.upper_bounds.update({1: long_bytes(1)}))
    right, outdated = corrections(catalog), catalog.load_table(TABLE)
    table.append(rows_of(table, [{"id": 9}]))
    result = catalog.correct(outdated, "main", right)
    assert result is not None
    assert result.outcome is Outcome.REFUSED
    result = catalog.correct(catalog.load_table(TABLE), "main", right)
    assert result is not None
    assert result.outcome is Outcome.DONE
    assert list(wrong(catalog)) == []
    assert catalog.correct(catalog.load_table(TABLE), "main", right) is None
    ids = catalog.library.load_table(TABLE).scan().to_arrow().column("id").to_pylist()
    assert sorted(ids) == [1, 2, 3, 9]


def test_a_partition_value_is_left_and_a_manifest_that_is_wrong_is_written_again(
    tmp_path: Path,
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make(catalog, ALL_TYPES, IdentityTransform())
    append(table, ROWS[:1], lambda file: file.partition.__setitem__(0, 5))
    assert [what for _, what, *_ in wrong(catalog)] == ["partition value part (identity)"]
    assert corrections(catalog) == {}
    head = catalog.library.load_table(TABLE).current_snapshot()
    assert head is not None
    (manifest,) = head.manifests(table.io)
    result = catalog.correct(catalog.load_table(TABLE), "main", {manifest.manifest_path: {}})
    assert result is not None
    head = catalog.library.load_table(TABLE).current_snapshot()
    assert head is not None
    (again,) = head.manifests(table.io)
    assert again.manifest_path != manifest.manifest_path
    assert again.existing_files_count == 1


def test_deletes_stay_with_their_rows_and_are_compared_too(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    edges = edge_table(catalog, "long")
    (path,) = edges.files
    deletes = tmp_path / "deletes.parquet"
    delete_rows(catalog, deletes, path, [1, 4], "parquet", records=3)
    wrongly = {path: {"upper_bounds": {1: long_bytes(0)}, "record_count": 2}}
    assert catalog.correct(catalog.load_table(TABLE), "main", wrongly) is not None
    assert {what for _, what, *_ in wrong(catalog)} == {"upper bound", "number of rows"}
    assert set(corrections(catalog)) == {path}
    assert catalog.correct(catalog.load_table(TABLE), "main", corrections(catalog)) is not None
    (left,) = (it for file in compared(catalog) for it in file.wrong)
    assert (left.path, left.recorded, left.found) == (f"file://{deletes}", "3", "2")
    assert "rewrite_position_delete_files" in str(left)
    ids = edges.library.scan("id > 1").to_arrow().column("id").to_pylist()
    assert sorted(ids) == [number for number in sorted(edges.values) if number not in (0, 1, 4)]


def test_duckdb_finds_the_rows_again(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    (path,) = edge_table(catalog, "long").files
    narrow = {path: {"upper_bounds": {1: long_bytes(1)}}}
    assert catalog.correct(catalog.load_table(TABLE), "main", narrow) is not None
    with duckdb_tables() as reader:
        before, after = FilterCheck(reader.name), FilterCheck(reader.name)
        before.check(reader, catalog.load_table(TABLE), "main")
        assert catalog.correct(catalog.load_table(TABLE), "main", corrections(catalog)) is not None
        after.check(reader, catalog.load_table(TABLE), "main")
    assert before.unfound
    assert not after.unfound
