"""Which names a person may give for a table of a group, and what the table's state is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.tables.catalog import NewTable
from secor.tables.overview import look_at, require_table
from tests.fakes.table_catalog import FakeCatalog, TableServer
from tests.unit.tables.world import EVENTS, TableWorld


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


@pytest.mark.parametrize(
    ("auto_create", "state", "words"),
    [(True, "absent", "it is made with its first messages"), (False, "stopped", "create it")],
)
def test_a_table_without_messages_need_not_exist_where_they_make_it(
    auto_create: bool, state: str, words: str
) -> None:
    world = TableWorld()
    overview = look_at(world.committer, EVENTS, world.staged(), auto_create=auto_create)
    assert (overview.state, overview.uuid) == (state, None)
    assert words in overview.why
    assert "dropped" not in overview.why


def test_a_table_that_is_gone_is_stopped_while_files_wait_for_it() -> None:
    world = TableWorld()
    world.server.make(EVENTS)
    world.stage(world.manifest(0, 5))
    del world.server.tables[EVENTS]
    overview = look_at(world.committer, EVENTS, world.staged(), auto_create=True)
    assert overview.state == "stopped"
    assert "dropped or renamed" in overview.why


def test_a_table_without_the_metadata_columns_is_stopped_where_nobody_adds_them() -> None:
    world = TableWorld()
    world.server.make(EVENTS)
    overview = look_at(world.committer, EVENTS, world.staged(), metadata_columns=["_offset"])
    assert overview.state == "stopped"
    assert "no column _offset: add it (int64), set evolve = true" in overview.why
