"""Commits to a real catalog (SQLite), with files that are really read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from secor.adapters.iceberg.commits import IcebergCatalog
from secor.core.errors import ConfigurationError, Unavailable
from secor.tables.catalog import Outcome, TableCommit
from tests.unit.adapters.iceberg_tables import (
    EVENTS,
    ids_of,
    make_table,
    sqlite_catalog,
    stage,
)


def test_files_properties_and_summary_are_committed_together(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    files = (stage(table, [1, 2]), stage(table, [3]))
    commit = TableCommit(None, files, {"secor.g.vector": "{}"}, {"secor.commit": "c1"})
    result = catalog.commit(table, commit)
    assert result.outcome is Outcome.DONE
    assert result.table is not None
    seen = catalog.load_table(EVENTS)
    assert seen == result.table
    assert seen.properties["secor.g.vector"] == "{}"
    head = seen.head()
    assert head is not None
    assert head.summary["secor.commit"] == "c1"
    assert head.summary["added-records"] == "3"
    assert ids_of(catalog) == [1, 2, 3]


def test_statistics_reach_the_readers_without_the_file_being_opened(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    catalog.commit(table, TableCommit(None, (stage(table, [5, 9]),)))
    library_table = catalog.library.load_table(EVENTS)
    assert [*library_table.scan("id > 9").plan_files()] == []
    (task,) = library_table.scan("id = 9").plan_files()
    assert task.file.value_counts == {1: 2}
    assert task.file.upper_bounds == {1: (9).to_bytes(8, "little")}


def test_another_engine_reads_the_same_rows(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    catalog.commit(table, TableCommit(None, (stage(table, [1, 2]),)))
    files = catalog.library.load_table(EVENTS).inspect.data_files()
    paths = files.column("file_path").to_pylist()
    query = "SELECT id FROM read_parquet(?) ORDER BY id"
    with duckdb.connect() as connection:
        assert connection.execute(query, [paths]).fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("base", ["an older snapshot", "no snapshot"])
def test_a_commit_upon_what_is_no_longer_the_head_is_refused(tmp_path: Path, base: str) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    if base == "an older snapshot":
        first = catalog.commit(table, TableCommit(None, (stage(table, [1]),))).table
        assert first is not None
        table = first
    head = table.head()
    read_at = None if head is None else head.snapshot_id
    winner = catalog.commit(table, TableCommit(read_at, (stage(table, [2]),)))
    assert winner.outcome is Outcome.DONE
    before = ids_of(catalog)
    loser = catalog.commit(table, TableCommit(read_at, (stage(table, [3]),), {"v": "lost"}))
    assert loser.outcome is Outcome.REFUSED
    assert ids_of(catalog) == before
    assert "v" not in catalog.load_table(EVENTS).properties
    fresh = sqlite_catalog(tmp_path).commit(
        sqlite_catalog(tmp_path).load_table(EVENTS), TableCommit(read_at, (stage(table, [3]),))
    )
    assert fresh.outcome is Outcome.REFUSED
    assert ids_of(catalog) == before


def test_a_refused_attempt_leaves_no_metadata_files_behind(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    catalog.commit(table, TableCommit(None, (stage(table, [1]),)))
    avro = set(tmp_path.rglob("*.avro"))
    assert catalog.commit(table, TableCommit(None, (stage(table, [2]),))).outcome == "refused"
    assert set(tmp_path.rglob("*.avro")) == avro


def test_an_attempt_that_was_done_and_refused_when_it_came_again_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a proxy sends a request again whose answer was lost."""
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    commit_once = catalog.library.commit_table

    def commit_twice(*given: Any) -> Any:
        commit_once(*given)
        return commit_once(*given)

    monkeypatch.setattr(catalog.library, "commit_table", commit_twice)
    result = catalog.commit(table, TableCommit(None, (stage(table, [1]),)))
    assert result.outcome is Outcome.UNKNOWN
    assert ids_of(catalog) == [1]  # its manifests are there


def test_a_commit_without_files_makes_a_snapshot_all_the_same(tmp_path: Path) -> None:
    """Else somebody who read the older vector before could still commit."""
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    first = catalog.commit(table, TableCommit(None, (stage(table, [1]),))).table
    assert first is not None
    head = first.head()
    assert head is not None
    settled = catalog.commit(first, TableCommit(head.snapshot_id, (), {"v": "2"})).table
    assert settled is not None
    assert settled.head() != head
    assert ids_of(catalog) == [1]
    late = catalog.commit(first, TableCommit(head.snapshot_id, (stage(first, [2]),), {"v": "1"}))
    assert late.outcome is Outcome.REFUSED
    assert catalog.load_table(EVENTS).properties["v"] == "2"


def answer_with(
    monkeypatch: pytest.MonkeyPatch, catalog: IcebergCatalog, error: Exception, *, done: bool
) -> None:
    real: Callable[..., Any] = catalog.library.commit_table

    def commit_table(*arguments: Any) -> Any:
        if done:
            real(*arguments)
        raise error

    monkeypatch.setattr(catalog.library, "commit_table", commit_table)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("error", [CommitStateUnknownException("502"), OSError("reset by peer")])
def test_a_commit_without_an_answer_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, done: bool
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    answer_with(monkeypatch, catalog, error, done=done)
    commit = TableCommit(None, (stage(table, [1]),), {}, {"secor.commit": "c1"})
    assert catalog.commit(table, commit).outcome is Outcome.UNKNOWN
    # What it wrote must stay: it may be the table's.
    assert ids_of(sqlite_catalog(tmp_path)) == ([1] if done else [])


def test_manifests_that_cannot_be_written_have_no_effect(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    files = stage(table, [1])
    folder = Path(table.location.removeprefix("file://")) / "metadata"
    moved = folder.rename(folder.with_name("metadata-away"))
    folder.write_bytes(b"a file where the directory was")
    try:
        with pytest.raises(Unavailable, match="manifests cannot be written"):
            catalog.commit(table, TableCommit(None, (files,)))
    finally:
        folder.unlink()
        moved.rename(folder)
    assert ids_of(catalog) == []


@pytest.mark.parametrize(
    ("term", "value"), [("day", "2024-10-04"), ("bucket(4, id)", 3), ("truncate(10, id)", 20)]
)
def test_partition_values_are_those_of_the_manifest(
    tmp_path: Path, term: str, value: object
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog, (term,))
    files = stage(table, [21], partition=(value,))
    assert catalog.commit(table, TableCommit(None, (files,))).outcome is Outcome.DONE
    assert ids_of(catalog) == [21]
    partitions = catalog.library.load_table(EVENTS).inspect.partitions()
    (found,) = partitions.column("partition").to_pylist()
    assert str(next(iter(found.values()))) == str(value)


@pytest.mark.parametrize("value", [2**40, -(2**40), "x", 1.5, [1], {"a": 1}])
def test_a_partition_value_of_another_type_stops_the_table_alone(
    tmp_path: Path, value: object
) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog, ("bucket(4, id)",))
    with pytest.raises(ConfigurationError, match="its manifests cannot be written"):
        catalog.commit(table, TableCommit(None, (stage(table, [1], partition=(value,)),)))


def test_null_partition_values(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog, ("day",))
    files = stage(table, [21], day=None, partition=(None,))
    assert catalog.commit(table, TableCommit(None, (files,))).outcome is Outcome.DONE
    assert ids_of(catalog) == [21]


def test_files_of_an_older_partition_spec_keep_it(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog, ("day",))
    staged = stage(table, [1], partition=("2024-10-04",))
    with catalog.library.load_table(EVENTS).update_spec() as update:
        update.remove_field("day")
        update.add_identity("id")
    changed = catalog.load_table(EVENTS)
    assert changed.spec_id != table.spec_id
    files = (staged, stage(changed, [7], partition=(7,)))
    assert catalog.commit(changed, TableCommit(None, files)).outcome is Outcome.DONE
    assert ids_of(catalog) == [1, 7]
    entries = catalog.library.load_table(EVENTS).inspect.files()
    assert sorted(entries.column("spec_id").to_pylist()) == [table.spec_id, changed.spec_id]


def test_a_partition_spec_that_the_table_does_not_have_is_named(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    with pytest.raises(ConfigurationError, match="partition spec 17"):
        catalog.commit(table, TableCommit(None, (stage(table, [1], spec_id=17),)))


def test_a_branch_is_committed_apart_from_main(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    files = (stage(table, [1]),)
    first = catalog.commit(table, TableCommit(None, files, branch="audit"))
    assert first.outcome is Outcome.REFUSED  # it made the snapshot that a branch begins at
    table = catalog.load_table(EVENTS)
    assert catalog.commit(table, TableCommit(None, files, branch="audit")).outcome == "done"
    assert ids_of(catalog) == []
    assert ids_of(catalog, "audit") == [1]
    again = catalog.commit(table, TableCommit(None, files, branch="audit"))
    assert again.outcome is Outcome.REFUSED


def test_small_manifests_are_merged_where_the_table_says_so(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    with catalog.library.load_table(EVENTS).transaction() as transaction:
        transaction.set_properties(
            {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}
        )
    table = catalog.load_table(EVENTS)
    for number in range(1, 8):
        head = table.head()
        base = None if head is None else head.snapshot_id
        done = catalog.commit(table, TableCommit(base, (stage(table, [number]),))).table
        assert done is not None
        table = done
    library_table = catalog.library.load_table(EVENTS)
    snapshot = library_table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(library_table.io)) < 4
    assert ids_of(catalog) == list(range(1, 8))


def test_rows_of_others_and_their_deletes_stay(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    done = catalog.commit(table, TableCommit(None, (stage(table, [1, 2, 3]),)))
    assert done.outcome is Outcome.DONE
    catalog.library.load_table(EVENTS).delete("id = 2")
    table = catalog.load_table(EVENTS)
    head = table.head()
    assert head is not None
    files = (stage(table, [4]),)
    assert catalog.commit(table, TableCommit(head.snapshot_id, files)).outcome is Outcome.DONE
    assert ids_of(catalog) == [1, 3, 4]


def test_the_dropped_table_of_the_same_name_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    table = make_table(catalog)
    files = (stage(table, [1]),)
    catalog.library.drop_table(EVENTS)
    assert catalog.commit(table, TableCommit(None, files)).outcome is Outcome.REFUSED
    make_table(catalog)
    assert catalog.commit(table, TableCommit(None, files)).outcome is Outcome.REFUSED
    assert ids_of(catalog) == []
