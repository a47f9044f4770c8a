"""Files of tables that the group's own store keeps, as the Iceberg library asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.store_files import STORE, StoreFiles
from secor.core.errors import AccessDenied, OutcomeUnknown, SecorError, Unavailable
from secor.tables.catalog import NewTable, Outcome, TableCommit
from tests.fakes.store import FakeStore
from tests.unit.adapters.iceberg_tables import EVENTS, SCHEMA

KEY = "gs://lake/t/metadata/a.avro"


def files_in(store: FakeStore) -> StoreFiles:
    return StoreFiles({STORE: store})


def write(files: StoreFiles, content: bytes, *, overwrite: bool = False) -> None:
    with files.new_output(KEY).create(overwrite) as stream:
        stream.write(content[:1])
        stream.write(content[1:])


def test_what_is_written_is_read_back_and_deleted() -> None:
    store = FakeStore()
    files = files_in(store)
    assert not files.new_input(KEY).exists()
    write(files, b"rows")
    file = files.new_output(KEY).to_input_file()
    assert (file.exists(), len(file), file.open().read()) == (True, 4, b"rows")
    files.delete(file)
    files.delete(KEY)
    assert store.objects == {}


def test_local_files_are_left_to_the_library(tmp_path: Path) -> None:
    store = FakeStore()
    files = files_in(store)
    location = f"file://{tmp_path}/a"
    with files.new_output(location).create() as stream:
        stream.write(b"rows")
    assert files.new_input(location).open().read() == b"rows"
    files.delete(location)
    assert (store.objects, list(tmp_path.iterdir())) == ({}, [])


def test_half_of_a_file_is_never_put() -> None:
    store = FakeStore()

    def write_half() -> None:
        with files_in(store).new_output(KEY).create() as stream:
            stream.write(b"ro")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert store.objects == {}


def test_a_file_is_replaced_only_where_that_was_asked_for() -> None:
    store = FakeStore()
    files = files_in(store)
    write(files, b"rows")
    with pytest.raises(FileExistsError):
        write(files, b"others")
    assert store.content(KEY) == b"rows"
    write(files, b"others", overwrite=True)
    assert store.content(KEY) == b"others"


def test_a_rival_who_is_faster_keeps_its_file() -> None:
    store = FakeStore()
    files = files_in(store)
    first, second = files.new_output(KEY).create(), files.new_output(KEY).create()
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert store.content(KEY) == b"first"


def test_an_object_that_is_there_after_a_lost_answer_is_our_own() -> None:
    store = FakeStore()
    files = files_in(store)
    early, late = files.new_output(KEY).create(), files.new_output(KEY).create()
    for stream in (early, late):
        stream.write(b"rows")
        stream.close()
    assert store.content(KEY) == b"rows"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(AccessDenied("no"), PermissionError), (Unavailable("no"), OSError)],
    ids=["denied", "away"],
)
def test_errors_of_the_store_are_those_of_files(
    raised: SecorError, expected: type[Exception]
) -> None:
    def fail(call: str, key: str) -> None:
        raise raised

    files = files_in(FakeStore(before=fail))
    with pytest.raises(expected, match="no"):
        files.new_input(KEY).exists()
    with pytest.raises(expected, match="no"):
        write(files, b"rows", overwrite=True)


def test_a_missing_file_is_told_as_one() -> None:
    with pytest.raises(FileNotFoundError):
        files_in(FakeStore()).new_input(KEY).open()


def test_a_commit_writes_all_of_its_metadata_into_the_store(tmp_path: Path) -> None:
    store = FakeStore()
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": "abfss://lake@acme.dfs.core.windows.net/warehouse",
    }
    catalog = IcebergCatalog(open_catalog("clouds", properties, store))
    table = catalog.create_table(EVENTS, NewTable(SCHEMA))
    assert catalog.commit(table, TableCommit(None, ())).outcome is Outcome.DONE
    beginning = "abfss://lake@acme.dfs.core.windows.net/warehouse/lake/events/metadata/"
    assert all(key.startswith(beginning) for key in store.objects)
    assert [*tmp_path.iterdir()] == [tmp_path / "catalog.db"]


def test_an_answer_of_the_store_that_is_lost_in_a_commit_leaves_the_outcome_open(
    tmp_path: Path,
) -> None:
    store = FakeStore()
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    catalog = IcebergCatalog(
        open_catalog("lost", {**properties, "warehouse": "gs://lake/warehouse"}, store)
    )
    table = catalog.create_table(EVENTS, NewTable(SCHEMA))

    def lose(call: str, key: str) -> None:
        if call == "put" and key.endswith(".metadata.json"):
            raise OutcomeUnknown("no answer")

    store.after = lose
    assert catalog.commit(table, TableCommit(None, ())).outcome is Outcome.UNKNOWN
