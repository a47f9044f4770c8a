"""Each row of a table is found by filters on its value, whatever files and partitions say of it.

The Iceberg library for Python is the judge.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyiceberg.table import Table as LibraryTable

from tests.found_rows import TRANSFORMS, VALUES, EdgeTable, edge_table, filters
from tests.unit.adapters.iceberg_tables import sqlite_catalog


def not_planned(table: EdgeTable) -> list[str]:
    """Return the rows that filters on their values pass over, as messages."""
    library: LibraryTable = table.library
    file_of = {row: path for path, rows in table.files.items() for row in rows}
    lost = []
    for row, path in file_of.items():
        for condition in filters(table.kind, table.values[row]):
            planned = {task.file.file_path for task in library.scan(condition).plan_files()}
            if path not in planned:
                lost.append(f"{table.values[row]!r} by {condition}"[:200])
    return lost


@pytest.mark.parametrize(
    ("file_format", "group_rows"),
    [("parquet", 1), ("parquet", 2), ("parquet", 100), ("orc", 2), ("avro", 2)],
)
@pytest.mark.parametrize("kind", VALUES)
def test_a_row_is_found_by_the_metadata_of_its_file(
    kind: str, file_format: str, group_rows: int, tmp_path: Path
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = edge_table(catalog, kind, file_format=file_format, group_rows=group_rows)
    assert not table.refused
    assert not_planned(table) == []


@pytest.mark.parametrize(
    ("term", "kind"), [(term, kind) for term, kinds in TRANSFORMS.items() for kind in kinds]
)
def test_a_row_is_found_by_the_values_of_its_partition(
    term: str, kind: str, tmp_path: Path
) -> None:
    table = edge_table(sqlite_catalog(tmp_path), kind, partition_by=(term,))
    assert not_planned(table) == []
    if term.startswith(("bucket", "void")):
        assert not table.refused


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["string", "binary", "double"])
def test_a_row_is_found_whatever_few_rows_are_beside_it(
    kind: str, seed: int, tmp_path: Path
) -> None:
    """Among all edges the bounds of other rows would cover one whose own are wrong."""
    edges = VALUES[kind][1]
    values = random.Random(seed).sample(edges, 2)
    table = edge_table(sqlite_catalog(tmp_path), kind, group_rows=1, values=values)
    assert not_planned(table) == []
