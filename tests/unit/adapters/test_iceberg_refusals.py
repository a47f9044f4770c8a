"""What a table or its catalog refuses at a commit: whose fault it is, and what goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg import exceptions
from pyiceberg.table import Table as LibraryTable

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.adapters.iceberg.failures import translated
from secor.core.errors import ConfigurationError, FilesRefused, SecorError
from secor.tables.catalog import MAIN, CommitResult, NewTable, Outcome, TableCommit
from secor.tables.staging.manifest import DataFile, TableFiles
from tests.unit.adapters.iceberg_tables import EVENTS, ids_of, make_table, sqlite_catalog, stage

MERGING = {
    "commit_manifest-merge_enabled": "true",
    "commit_manifest_min-count-to-merge": "2",
}
DAY, DAY_NUMBER = "2024-10-04", 20_000


@pytest.fixture
def catalog(tmp_path: Path) -> IcebergCatalog:
    return sqlite_catalog(tmp_path)


def library_table(catalog: IcebergCatalog) -> LibraryTable:
    return catalog.library.load_table(EVENTS)


def commit(catalog: IcebergCatalog, *files: TableFiles) -> CommitResult:
    table = catalog.load_table(EVENTS)
    head = table.head()
    base = head.snapshot_id if head is not None else None
    return catalog.commit(table, TableCommit(base, files))


def partitions(catalog: IcebergCatalog) -> list[object]:
    """Return the partition values in the manifests of the present snapshot."""
    table = library_table(catalog)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [
        entry.data_file.partition[0] if len(entry.data_file.partition) else None
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def edit_metadata(catalog: IcebergCatalog, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change a table behind the library's back, as another library or a person might."""
    path = Path(library_table(catalog).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    edit(metadata)
    path.write_text(json.dumps(metadata))


def test_files_are_committed_whose_partition_column_was_dropped_meanwhile(
    catalog: IcebergCatalog,
) -> None:
    table = make_table(catalog, ("day",), **MERGING)
    assert commit(catalog, stage(table, [1], partition=(DAY,))).outcome is Outcome.DONE
    late = stage(table, [2], partition=(DAY,))
    with library_table(catalog).update_spec() as spec:
        spec.remove_field("day")
    with library_table(catalog).update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("day")
    assert commit(catalog, late).outcome is Outcome.DONE
    assert ids_of(catalog) == [1, 2]
    assert partitions(catalog) == [DAY_NUMBER, DAY_NUMBER]
    snapshot = library_table(catalog).current_snapshot()
    assert snapshot is not None
    [merged] = snapshot.manifests(library_table(catalog).io)
    with Path(merged.manifest_path.removeprefix("file://")).open("rb") as manifest:
        entries = [*fastavro.reader(manifest)]  # a reader that is not the library's
    days = [entry["data_file"]["partition"]["day"] for entry in entries]
    assert days == [date(2024, 10, 4)] * 2


def test_a_partition_column_that_became_required_does_not_refuse_earlier_nulls(
    catalog: IcebergCatalog,
) -> None:
    table = make_table(catalog, ("day",), **MERGING)
    assert commit(catalog, stage(table, [1], day=None, partition=(None,))).outcome is Outcome.DONE
    late = stage(table, [2], day=None, partition=(None,))
    with library_table(catalog).update_schema(allow_incompatible_changes=True) as schema:
        schema.update_column("day", required=True)
    assert commit(catalog, late, stage(table, [3], partition=(DAY,))).outcome is Outcome.DONE
    assert sorted(partitions(catalog), key=str) == [DAY_NUMBER, None, None]


@pytest.mark.parametrize("codec", ["uncompressed", "GZIP", "Snappy", "zstd"])
def test_codecs_of_manifests_have_the_names_of_javas_library(
    catalog: IcebergCatalog, codec: str
) -> None:
    table = make_table(catalog, (), **{"write_avro_compression-codec": codec})
    assert commit(catalog, stage(table, [1])).outcome is Outcome.DONE
    assert ids_of(catalog) == [1]


def test_a_total_that_is_no_number_is_left_out(catalog: IcebergCatalog) -> None:
    table = make_table(catalog)
    commit(catalog, stage(table, [1]))
    edit_metadata(
        catalog, lambda it: it["snapshots"][0]["summary"].update({"total-records": "many"})
    )
    result = commit(catalog, stage(table, [2]))
    assert result.table is not None
    head = result.table.head()
    assert head is not None
    assert "total-records" not in head.summary
    assert head.summary["total-data-files"] == "2"


def test_a_partition_value_of_another_type_is_the_files_own_fault(
    catalog: IcebergCatalog,
) -> None:
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    table = catalog.create_table(EVENTS, NewTable(columns, ("name",)))
    file = DataFile(f"{table.location}/data/a.parquet", "parquet", 1, 10, 0, 0, (5,))
    files = TableFiles(EVENTS, table.uuid, 0, table.spec_id, "append", (file,))
    with pytest.raises(FilesRefused, match="AttributeError"):
        commit(catalog, files)
    assert [*catalog.refused_files(table, [files])] == [file.path]
    assert catalog.why_no_commit(table, MAIN) == ""


def _damage_manifest(catalog: IcebergCatalog, content: bytes) -> None:
    table = library_table(catalog)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        Path(manifest.manifest_path.removeprefix("file://")).write_bytes(content)


@pytest.mark.parametrize("content", [b"nonsense", b"", b"Obj\x01"])
def test_a_damaged_manifest_is_the_tables_fault_and_ends_nothing(
    catalog: IcebergCatalog, content: bytes
) -> None:
    """Of a compiled decoder: ``SystemError``, ``EOFError``."""
    table = make_table(catalog, (), **MERGING)
    commit(catalog, stage(table, [1]))
    _damage_manifest(catalog, content)
    late = stage(table, [2])
    with pytest.raises(FilesRefused):
        commit(catalog, late)
    assert catalog.refused_files(catalog.load_table(EVENTS), [late]) == {}
    metadata = Path(table.location.removeprefix("file://")) / "metadata"
    assert len([*metadata.glob("*.avro")]) == 2  # the first commit's: nothing is left behind


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.avro.compression-codec", "nonsense"),
        ("commit.manifest-merge.enabled", "perhaps"),
        ("write.object-storage.enabled", "perhaps"),
        ("write.metadata.path", "nowhere://b/k"),
        ("write.py-location-provider.impl", "no.such.Provider"),
    ],
)
def test_a_property_that_allows_no_commit_is_named_and_goes_on_once_corrected(
    catalog: IcebergCatalog, name: str, value: str
) -> None:
    table = make_table(catalog)
    file = stage(table, [1])
    edit_metadata(catalog, lambda it: it["properties"].update({name: value}))
    with pytest.raises(FilesRefused):
        commit(catalog, file)
    assert catalog.why_no_commit(catalog.load_table(EVENTS), MAIN) != ""
    edit_metadata(catalog, lambda it: it["properties"].pop(name))
    assert catalog.why_no_commit(catalog.load_table(EVENTS), MAIN) == ""
    assert commit(catalog, file).outcome is Outcome.DONE


def test_a_branch_that_names_a_snapshot_which_the_metadata_lack_is_one_tables_fault(
    catalog: IcebergCatalog,
) -> None:
    commit(catalog, stage(make_table(catalog), [1]))
    tag = {"snapshot-id": 5, "type": "tag"}
    edit_metadata(catalog, lambda it: it["refs"].update({"old": tag}))
    assert commit(catalog, stage(catalog.load_table(EVENTS), [2])).outcome is Outcome.DONE
    edit_metadata(catalog, lambda it: it["refs"]["main"].update({"snapshot-id": 5}))
    with pytest.raises(ConfigurationError, match="lack the snapshot 5, which the branch main"):
        catalog.load_table(EVENTS).head()


@pytest.mark.parametrize("kind", [it for it in vars(exceptions).values() if isinstance(it, type)])
def test_no_error_of_the_library_ends_a_process(kind: type[Exception]) -> None:
    with pytest.raises(SecorError), translated("table db.t"):
        raise kind("what it says")


@pytest.mark.parametrize(
    "error",
    [KeyError(5), IndexError("x"), AttributeError("x"), RecursionError(), AssertionError()],
    ids=repr,
)
def test_a_failure_inside_of_the_library_is_one_tables_and_is_named(error: Exception) -> None:
    with pytest.raises(ConfigurationError, match=type(error).__name__), translated("table db.t"):
        raise error


def test_a_commit_that_is_wrong_is_raised_unless_somebody_changed_the_table(
    catalog: IcebergCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server also calls it wrong where a branch beside ours moved: then the next try is right."""
    table = make_table(catalog)
    real = catalog.library.commit_table
    raced: list[bool] = []

    def refuse(*arguments: Any) -> Any:
        if raced:
            with monkeypatch.context() as patch:
                patch.setattr(catalog.library, "commit_table", real)
                library_table(catalog).transaction().set_properties(owner="me").commit_transaction()
        raise exceptions.BadRequestError("ValidationException: sequence number 1 is older")

    monkeypatch.setattr(catalog.library, "commit_table", refuse)
    with pytest.raises(ConfigurationError, match="sequence number"):
        catalog.commit(table, TableCommit(None, (stage(table, [1]),)))
    raced.append(True)
    result = catalog.commit(table, TableCommit(None, (stage(table, [1]),)))
    assert result.outcome is Outcome.REFUSED
