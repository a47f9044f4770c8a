"""Tables by DuckDB's own reader, and values that its filters do not find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from secor.adapters import duckdb_tables as adapter
from secor.adapters.duckdb_tables import DuckDBTables, duckdb_tables
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.core.errors import ConfigurationError, Unavailable
from secor.tables.catalog import MAIN, Table, TableCommit
from secor.tables.staging.manifest import TableFiles
from secor.verify.engine_filters import FilterCheck
from tests.found_rows import TABLE, edge_table
from tests.unit.adapters.iceberg_tables import EVENTS, make_table, sqlite_catalog, stage


@pytest.fixture(scope="module")
def reader() -> Iterator[DuckDBTables]:
    with duckdb_tables() as tables:
        yield tables


@pytest.fixture
def catalog(tmp_path: Path) -> IcebergCatalog:
    return sqlite_catalog(tmp_path)


def commit(catalog: IcebergCatalog, table: Table, *staged: TableFiles) -> Table:
    result = catalog.commit(table, TableCommit(None, staged))
    assert result.table is not None, result.why
    return result.table


def checked(reader: DuckDBTables, table: Table, most: int = 100) -> FilterCheck:
    check = FilterCheck(reader.name, most)
    check.check(reader, table, MAIN)
    return check


def with_bounds(staged: TableFiles, least: int, greatest: int) -> TableFiles:
    (file,) = staged.files
    bounds = [{1: number.to_bytes(8, "little", signed=True).hex()} for number in (least, greatest)]
    statistics = replace(file.statistics, lower_bounds=bounds[0], upper_bounds=bounds[1])
    return replace(staged, files=(replace(file, statistics=statistics),))


def test_rows_that_wrong_bounds_hide_are_named(
    catalog: IcebergCatalog, reader: DuckDBTables
) -> None:
    made = make_table(catalog)
    wrong = with_bounds(stage(made, [1, 2, 3]), 1, 2)
    table = commit(catalog, made, stage(made, [7, 8, 9]), wrong)
    check = checked(reader, table)
    assert check.summary == (
        "DuckDB read 2 data files, and by filters 6 of their least and greatest values and nulls:"
        " 1 not found"
    )
    (unfound,) = check.unfound
    assert str(unfound).startswith(
        f"{EVENTS}: DuckDB does not find the row with id = 3 that {wrong.files[0].path} holds"
    )
    assert check.as_json()["not_found"] == [str(unfound)]


def test_values_are_looked_up_evenly_where_there_are_many(
    catalog: IcebergCatalog, reader: DuckDBTables
) -> None:
    made = make_table(catalog)
    table = commit(catalog, made, *(stage(made, [at, at + 1]) for at in range(0, 20, 2)))
    check = checked(reader, table, most=10)
    assert (check.files, check.values, check.looked_up, check.unfound) == (10, 30, 10, [])
    assert "10 of 30 of their least and greatest values" in check.summary


def test_a_column_of_duckdbs_own_name_is_left_out(
    catalog: IcebergCatalog, reader: DuckDBTables
) -> None:
    made = edge_table(catalog, "string", values=["a", "b"])
    with made.library.update_schema() as update:
        update.rename_column("x", "filename")
    check = checked(reader, catalog.load_table(TABLE))
    assert (check.files, check.looked_up, check.unfound) == (1, 2, [])


def test_rows_are_read_as_duckdb_reads_them(catalog: IcebergCatalog, reader: DuckDBTables) -> None:
    made = make_table(catalog)
    assert list(reader.scan(made, MAIN, ["id"])) == []
    assert (checked(reader, made).files, checked(reader, made).looked_up) == (0, 0)
    table = commit(catalog, made, stage(made, [2, 1]))
    rows = pa.Table.from_batches(list(reader.scan(table, MAIN, ["id"])))
    assert sorted(rows.column("id").to_pylist()) == [1, 2]


def test_a_table_that_duckdb_cannot_read_is_named(
    catalog: IcebergCatalog, reader: DuckDBTables
) -> None:
    edge_table(catalog, "string", file_format="orc")
    with pytest.raises(Unavailable, match=f"table {TABLE}: DuckDB cannot read it: "):
        checked(reader, catalog.load_table(TABLE))


def test_an_extension_that_is_not_there_is_an_error_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(adapter, "_packaged", lambda name, version: None)
    with (
        pytest.raises(ConfigurationError, match=r"no extension 'avro': run pip .*\[duckdb\]"),
        duckdb_tables(),
    ):
        pass


def test_a_place_that_duckdb_does_not_read_is_an_error(reader: DuckDBTables) -> None:
    with pytest.raises(ConfigurationError, match=r"not gs://: use --by spark"):
        adapter.require_readable("db.events", "gs://bucket/metadata.json")


def test_no_bar_is_drawn_while_extensions_load(monkeypatch: pytest.MonkeyPatch) -> None:
    statements = []

    class Recorded:
        def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
            self._connection = connection

        def execute(self, sql: str) -> object:
            statements.append(sql)
            return self._connection.execute(sql)

    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda **options: Recorded(connect(**options)))
    adapter.open_connection()
    assert statements[0] == "SET enable_progress_bar = false"
    assert any(sql.startswith("LOAD") for sql in statements[1:])
