"""The port ``tables.catalog.Catalog`` on a SQLite file, Iceberg's REST server and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.core.errors import (
    AlreadyExists,
    ConfigurationError,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from secor.sandbox.process import Server
from secor.tables.catalog import (
    AddColumn,
    NewTable,
    Outcome,
    SchemaChange,
    TableCommit,
    WidenColumn,
)
from tests.contracts.table_catalogs import KINDS, CatalogWorld, catalog_server, properties_of
from tests.unit.adapters.iceberg_tables import SCHEMA, stage
from tests.unit.adapters.test_iceberg_catalog import EVERY_TYPE

NUMBERS = count(1)


@pytest.fixture(scope="module", params=KINDS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server | None, dict[str, str]]]:
    """One server of each kind for the tests of this file."""
    folder = tmp_path_factory.mktemp(request.param)
    server = catalog_server(request.param, folder)
    try:
        yield server, properties_of(request.param, folder, server)
    finally:
        if server is not None:
            server.stop()


@pytest.fixture
def world(running: tuple[Server | None, dict[str, str]]) -> CatalogWorld:
    return CatalogWorld(running[1], f"lake{next(NUMBERS)}")


def test_a_table_of_every_type_and_transform_comes_back_as_it_was_made(
    world: CatalogWorld,
) -> None:
    terms = ("day(ts)", "bucket(16, id)", "truncate(4, text)", "yes", "hours(local)", "void(big)")
    made = world.open().create_table(world.events, NewTable(EVERY_TYPE, terms, {"owner": "me"}))
    loaded = world.open().load_table(world.events)
    assert loaded == made
    assert loaded.schema.equals(EVERY_TYPE)
    assert loaded.properties["owner"] == "me"
    assert (loaded.format_version, loaded.refs) == (2, {})
    assert world.open().list_tables(world.namespace) == [world.events]


def test_what_is_not_there_is_not_found_and_what_is_there_is_not_made_again(
    world: CatalogWorld,
) -> None:
    catalog = world.open()
    assert catalog.list_tables(world.namespace) == []
    with pytest.raises(NotFound):
        catalog.load_table(world.events)
    world.make(catalog)
    with pytest.raises(AlreadyExists):
        world.make(world.open())


def test_a_location_of_its_own(world: CatalogWorld, tmp_path: Path) -> None:
    elsewhere = tmp_path.as_uri()
    made = world.open().create_table(world.events, NewTable(SCHEMA, location=elsewhere))
    assert made.location == elsewhere


def test_files_properties_and_summary_are_committed_together(world: CatalogWorld) -> None:
    catalog = world.open()
    table = world.make(catalog, "day")
    files = (
        stage(table, [1, 2], partition=("2024-10-04",)),
        stage(table, [3], partition=("2024-10-04",)),
    )
    commit = TableCommit(None, files, {"secor.g.vector": "{}"}, {"secor.commit": "c1"})
    result = catalog.commit(table, commit)
    assert result.outcome is Outcome.DONE
    seen = world.open().load_table(world.events)
    assert result.table == seen
    head = seen.head()
    assert head is not None
    assert (head.summary["secor.commit"], head.summary["added-records"]) == ("c1", "3")
    assert seen.properties["secor.g.vector"] == "{}"
    assert world.ids() == [1, 2, 3]


def test_a_vector_of_a_thousand_partitions_fits(world: CatalogWorld) -> None:
    catalog = world.open()
    table = world.make(catalog)
    vector = ",".join(f'"{number}":{10**15 + number}' for number in range(1000))
    assert catalog.commit(table, TableCommit(None, (), {"v": vector})).outcome is Outcome.DONE
    assert world.open().load_table(world.events).properties["v"] == vector


def test_of_many_who_commit_upon_one_snapshot_one_is_done(world: CatalogWorld) -> None:
    table = world.make(world.open())
    rivals = [world.open() for _ in range(4)]
    looks = [rival.load_table(world.events) for rival in rivals]
    staged = [stage(table, [number]) for number in range(4)]
    outcomes: list[Outcome] = []
    barrier = threading.Barrier(4)

    def commit(number: int) -> None:
        barrier.wait()
        commit = TableCommit(None, (staged[number],), {"winner": str(number)})
        outcomes.append(rivals[number].commit(looks[number], commit).outcome)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(Outcome.DONE) == 1
    assert world.ids() == [int(world.open().load_table(world.events).properties["winner"])]


def test_who_looked_before_another_commit_is_refused_and_changes_nothing(
    world: CatalogWorld,
) -> None:
    catalog = world.open()
    old = world.make(catalog)
    first = catalog.commit(old, TableCommit(None, (stage(old, [1]),), {"v": "1"})).table
    assert first is not None
    late = world.open().commit(old, TableCommit(None, (stage(old, [2]),), {"v": "2"}))
    assert late.outcome is Outcome.REFUSED
    head = first.head()
    assert head is not None
    settled = catalog.commit(first, TableCommit(head.snapshot_id, (), {"v": "3"}))
    assert settled.outcome is Outcome.DONE  # no files, and a snapshot all the same
    late = catalog.commit(first, TableCommit(head.snapshot_id, (stage(old, [4]),), {"v": "4"}))
    assert late.outcome is Outcome.REFUSED
    assert world.ids() == [1]
    assert world.open().load_table(world.events).properties["v"] == "3"


def test_a_commit_whose_answer_is_lost_is_unknown_and_seen_at_the_next_look(
    world: CatalogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = world.open()
    table = world.make(catalog)
    real: Any = catalog.library.commit_table

    def commit_table(*arguments: Any) -> Any:
        real(*arguments)
        raise OSError("reset by peer")

    monkeypatch.setattr(catalog.library, "commit_table", commit_table)
    commit = TableCommit(None, (stage(table, [1]),), {}, {"secor.commit": "c1"})
    assert catalog.commit(table, commit).outcome is Outcome.UNKNOWN
    head = world.open().load_table(world.events).head()
    assert head is not None
    assert head.summary["secor.commit"] == "c1"
    again = world.open().commit(table, commit)
    assert again.outcome is Outcome.REFUSED
    assert world.ids() == [1]


def test_a_branch_is_apart_from_main(world: CatalogWorld) -> None:
    catalog = world.open()
    table = world.make(catalog)
    files = (stage(table, [1]),)
    first = catalog.commit(table, TableCommit(None, files, branch="audit"))
    assert first.outcome is Outcome.REFUSED  # it made the snapshot that a branch begins at
    table = catalog.load_table(world.events)
    done = catalog.commit(table, TableCommit(None, files, branch="audit"))
    assert done.outcome is Outcome.DONE
    assert (world.ids(), world.ids("audit")) == ([], [1])
    again = catalog.commit(table, TableCommit(None, files, branch="audit"))
    assert again.outcome is Outcome.REFUSED


def test_a_table_that_was_dropped_or_made_again_is_not_committed_to(world: CatalogWorld) -> None:
    catalog = world.open()
    table = world.make(catalog)
    files = (stage(table, [1]),)
    catalog.library.drop_table(world.events)
    assert catalog.commit(table, TableCommit(None, files)).outcome is Outcome.REFUSED
    world.make(world.open())
    assert catalog.commit(table, TableCommit(None, files)).outcome is Outcome.REFUSED
    assert world.ids() == []
    with pytest.raises(Refused):
        catalog.update_schema(table, [AddColumn(("new",), pa.string())])


def test_a_renamed_table_is_the_same_under_its_new_name(world: CatalogWorld) -> None:
    catalog = world.open()
    table = world.make(catalog)
    catalog.library.rename_table(world.events, f"{world.namespace}.moved")
    with pytest.raises(NotFound):
        world.open().load_table(world.events)
    assert world.open().load_table(f"{world.namespace}.moved").uuid == table.uuid
    late = catalog.commit(table, TableCommit(None, (stage(table, [1]),)))
    assert late.outcome is Outcome.REFUSED


def test_of_two_changes_of_one_schema_the_second_is_refused(world: CatalogWorld) -> None:
    table = world.open().create_table(world.events, NewTable(EVERY_TYPE))
    changes: list[SchemaChange] = [
        AddColumn(("inner", "c"), pa.float64()),
        WidenColumn(("id",), pa.int64()),
    ]
    grown = world.open().update_schema(table, changes)
    assert grown.schema.field("id").type == pa.int64()
    assert grown == world.open().load_table(world.events)
    with pytest.raises(Refused):
        world.open().update_schema(table, [AddColumn(("second",), pa.string())])
    with pytest.raises(ConfigurationError):
        world.open().update_schema(grown, [WidenColumn(("text",), pa.int64())])


def test_a_spec_that_somebody_changed_is_seen_and_both_can_be_committed(
    world: CatalogWorld,
) -> None:
    catalog = world.open()
    table = world.make(catalog, "day")
    staged = stage(table, [1], partition=("2024-10-04",))
    with world.open().library.load_table(world.events).update_spec() as update:
        update.remove_field("day")
        update.add_identity("id")
    changed = catalog.load_table(world.events)
    assert changed.spec_id != table.spec_id
    files = (staged, stage(changed, [7], partition=(7,)))
    assert catalog.commit(changed, TableCommit(None, files)).outcome is Outcome.DONE
    assert world.ids() == [1, 7]


def test_a_server_that_is_out_is_unavailable_and_no_commit_is_taken_for_done(
    running: tuple[Server | None, dict[str, str]], world: CatalogWorld
) -> None:
    """Last of the file: its server is killed and started again."""
    server, _ = running
    catalog = world.open()
    table = world.make(catalog)
    if server is None:
        return  # a file is always there
    server.kill()
    commit = TableCommit(None, (stage(table, [1]),))
    with pytest.raises(Unavailable):
        catalog.load_table(world.events)
    with pytest.raises(Unavailable):
        catalog.list_tables(world.namespace)
    assert catalog.commit(table, commit).outcome is Outcome.UNKNOWN
    with pytest.raises((OutcomeUnknown, Unavailable)):
        catalog.update_schema(table, [AddColumn(("new",), pa.string())])
    server.start()
    assert catalog.load_table(world.events) == table  # the same connection goes on
    assert catalog.commit(table, commit).outcome is Outcome.DONE
    assert world.ids() == [1]
