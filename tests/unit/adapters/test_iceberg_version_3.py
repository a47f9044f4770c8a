"""Tables of format version 3: what goes through a publisher, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from secor.adapters.iceberg.merges import MergingCatalog
from secor.core.errors import UnsupportedTable
from secor.tables.catalog import (
    MAIN,
    NEWEST_MERGED_FORMAT,
    CommitResult,
    NewTable,
    Outcome,
    Table,
    TableCommit,
    require_format,
)
from secor.tables.commit.merging import BranchMerge, MergeResult
from secor.tables.staging.manifest import Operation, TableFiles
from tests.unit.adapters.iceberg_tables import sqlite_catalog

EVENTS = "db.events"
COLUMNS = pa.schema([pa.field("id", pa.int64())])


class Engine:
    """Stages nothing; publishes as it is told, and remembers for what it was asked."""

    def __init__(self, outcome: Outcome = Outcome.DONE) -> None:
        self.outcome = outcome
        self.asked: list[str] = []

    def stage(self, merge: BranchMerge) -> MergeResult:
        self.asked.append("stage")
        return MergeResult()

    def allow_staging(self, table: Table, branch: str) -> None:
        self.asked.append(f"allow {branch}")

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        self.asked.append(f"publish {staged}")
        return CommitResult(self.outcome, why="as told")


def catalog_of(folder: Path, engine: Engine | None, version: int = 3) -> MergingCatalog:
    """Return a catalog with one table, put on a version as another engine would."""
    tables = sqlite_catalog(folder)
    tables.create_table(EVENTS, NewTable(COLUMNS))
    metadata = Path(tables.library.load_table(EVENTS).metadata_location.removeprefix("file://"))
    changed = {**json.loads(metadata.read_text()), "format-version": version, "next-row-id": 0}
    metadata.write_text(json.dumps(changed))
    return MergingCatalog(tables, engine or Engine(), engine)


def files_of(table: Table, operation: Operation) -> TableFiles:
    return TableFiles(EVENTS, table.uuid, 0, 0, operation, (), (1,))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_the_publisher_decides_and_the_table_is_loaded_after_it(
    tmp_path: Path, outcome: Outcome
) -> None:
    engine = Engine(outcome)
    catalog = catalog_of(tmp_path, engine)
    table = catalog.load_table(EVENTS)
    result = catalog.publish(table, TableCommit(None, (), {"v": "1"}), 7)
    assert engine.asked == ["publish 7"]
    assert result.outcome is outcome
    assert (result.table is not None) == (outcome is Outcome.DONE)


def test_a_commit_without_files_is_staged_too(tmp_path: Path) -> None:
    """The library would write the snapshot's metadata by itself, and cannot."""
    engine = Engine()
    catalog = catalog_of(tmp_path, engine)
    table = catalog.load_table(EVENTS)
    commit = TableCommit(None, (), {"v": "1"}, {"secor.commit": "first"})
    result = catalog.commit(table, commit)
    assert engine.asked == [f"allow {MAIN}", "stage"]
    assert (result.outcome, result.why) == (
        Outcome.REFUSED,
        "rows were merged on another snapshot",
    )


def test_appended_files_are_refused_before_anything_is_published(tmp_path: Path) -> None:
    engine = Engine()
    catalog = catalog_of(tmp_path, engine)
    table = catalog.load_table(EVENTS)
    both = (files_of(table, "changes"), files_of(table, "append"))
    with pytest.raises(UnsupportedTable, match="appended to version 2 at most"):
        catalog.publish(table, TableCommit(None, both), 7)
    assert engine.asked == []


def test_without_a_publisher_and_beyond_version_3_nothing_is_committed(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, None)
    table = catalog.load_table(EVENTS)
    with pytest.raises(UnsupportedTable):
        catalog.publish(table, TableCommit(None, ()), 7)
    require_format(table, NEWEST_MERGED_FORMAT)
    with pytest.raises(UnsupportedTable, match="has format version 3"):
        require_format(table, NEWEST_MERGED_FORMAT - 1)
