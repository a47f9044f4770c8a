"""Each row of a table is found by filters on its value, whatever files and partitions say of it.

The judges are the Iceberg library for Python, which chooses files, and DuckDB, which reads them.
``tests/spark/test_rows_are_found.py`` has Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from secor.adapters.duckdb_tables import DuckDBTables, duckdb_tables
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.verify.engine_filters import BELOW, EQUAL
from tests.found_rows import (
    TRANSFORMS,
    VALUES,
    edge_table,
    not_planned,
    not_read,
)
from tests.unit.adapters.iceberg_tables import sqlite_catalog

numbers = count()

PASSED_OVER_BY_DUCKDB = frozenset(
    {
        ("bucket(16, x)", "uuid"),
        ("truncate(7, x)", "decimal(9, 2)"),
        ("truncate(7, x)", "decimal(38, 0)"),
        ("truncate(7, x)", "decimal(38, 38)"),
        *((term, kind) for term in ("month(x)", "day(x)") for kind in ("timestamp", "timestamptz")),
    }
)
"""Partitions whose rows DuckDB 1.5 does not find by some filters, and Spark and the library for
Python do; docs/tables.md lists them.
"""


def _partitions_for_duckdb() -> Iterator[Any]:
    defect = pytest.mark.xfail(reason="a defect of DuckDB", strict=True)
    for term, kinds in TRANSFORMS.items():
        for kind in kinds:
            marks = [defect] if (term, kind) in PASSED_OVER_BY_DUCKDB else []
            yield pytest.param(term, kind, marks=marks)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    return sqlite_catalog(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def duckdb() -> Iterator[DuckDBTables]:
    with duckdb_tables() as tables:
        yield tables


def new_name() -> str:
    return f"db.edges_{next(numbers)}"


@pytest.mark.parametrize(
    ("file_format", "group_rows"),
    [("parquet", 1), ("parquet", 2), ("parquet", 100), ("orc", 2), ("avro", 2)],
)
@pytest.mark.parametrize("kind", VALUES)
def test_a_row_is_found_by_the_metadata_of_its_file(
    catalog: IcebergCatalog, kind: str, file_format: str, group_rows: int
) -> None:
    table = edge_table(
        catalog, kind, file_format=file_format, group_rows=group_rows, name=new_name()
    )
    if file_format != "orc" or not kind.startswith("timestamp"):
        assert not table.refused
    assert not_planned(table) == []


@pytest.mark.parametrize(
    ("term", "kind"), [(term, kind) for term, kinds in TRANSFORMS.items() for kind in kinds]
)
def test_a_row_is_found_by_the_values_of_its_partition(
    catalog: IcebergCatalog, term: str, kind: str
) -> None:
    table = edge_table(catalog, kind, partition_by=(term,), name=new_name())
    assert not_planned(table) == []
    if term.startswith(("bucket", "void")):
        assert not table.refused


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["string", "binary", "double"])
def test_a_row_is_found_whatever_few_rows_are_beside_it(
    catalog: IcebergCatalog, kind: str, seed: int
) -> None:
    """Among all edges the bounds of other rows would cover one whose own are wrong."""
    edges = VALUES[kind][1]
    values = random.Random(seed).sample(edges, 2)
    table = edge_table(catalog, kind, group_rows=1, values=values, name=new_name())
    assert not_planned(table) == []


@pytest.mark.parametrize("group_rows", [1, 3])
@pytest.mark.parametrize("kind", ["string", "double", "decimal(38, 0)", "timestamptz", "uuid"])
def test_duckdb_finds_a_row_by_its_value(
    catalog: IcebergCatalog, duckdb: DuckDBTables, kind: str, group_rows: int
) -> None:
    table = edge_table(catalog, kind, group_rows=group_rows, name=new_name())
    assert not_read(table, duckdb, (EQUAL, BELOW)) == []


@pytest.mark.long
@pytest.mark.parametrize("group_rows", [1, 2, 100])
@pytest.mark.parametrize("kind", VALUES)
def test_duckdb_finds_a_row_of_any_type(
    catalog: IcebergCatalog, duckdb: DuckDBTables, kind: str, group_rows: int
) -> None:
    table = edge_table(catalog, kind, group_rows=group_rows, name=new_name())
    assert not_read(table, duckdb) == []


@pytest.mark.long
@pytest.mark.parametrize(("term", "kind"), [*_partitions_for_duckdb()])
def test_duckdb_finds_a_row_of_any_partition(
    catalog: IcebergCatalog, duckdb: DuckDBTables, term: str, kind: str
) -> None:
    table = edge_table(catalog, kind, partition_by=(term,), name=new_name())
    assert not_read(table, duckdb) == []
