"""Which names a person may give for a table of a group."""

from __future__ import annotations

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.tables.catalog import NewTable
from secor.tables.overview import require_table
from tests.fakes.table_catalog import FakeCatalog, TableServer


@pytest.fixture
def catalog() -> FakeCatalog:
    catalog = FakeCatalog(TableServer())
    catalog.create_table("db.there", NewTable(pa.schema([pa.field("id", pa.int64())])))
    return catalog


@pytest.mark.parametrize("name", ["db.there", "db.dropped"])
def test_a_table_of_the_group_or_of_the_catalog_is_known(name: str, catalog: FakeCatalog) -> None:
    require_table(name, "lake", ["db.dropped"], catalog)


@pytest.mark.parametrize(
    ("name", "tables", "message"),
    [
        ("db.other", ["db.a", "db.b"], "no such table; the tables of lake: db.a, db.b"),
        ("other", ["db.a"], "other: write namespace.table; the tables of lake: db.a"),
        ("db.", [], "write namespace.table; lake has no tables yet"),
    ],
)
def test_other_names_are_refused_with_those_that_there_are(
    name: str, tables: list[str], message: str, catalog: FakeCatalog
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        require_table(name, "lake", tables, catalog)
