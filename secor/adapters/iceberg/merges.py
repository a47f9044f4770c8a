"""A catalog that also commits changes of rows: an engine stages them, Python publishes."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from secor.adapters.iceberg.catalog import library_table_of
from secor.adapters.iceberg.commits import IcebergCatalog, Publication
from secor.adapters.iceberg.failures import translated
from secor.core.errors import Refused
from secor.tables.catalog import (
    MAIN,
    NEWEST_FORMAT,
    STAGED_WRITES,
    CommitResult,
    Outcome,
    Table,
    TableCommit,
    require_format,
)
from secor.tables.commit.merging import BranchPublisher, MergeEngine, has_changes, merge_commit


class MergingCatalog(IcebergCatalog):
    """``tables.catalog.Catalog`` and ``tables.merging.StagingCatalog``."""

    def __init__(
        self, tables: IcebergCatalog, engine: MergeEngine, publisher: BranchPublisher | None = None
    ) -> None:
        """Without a ``publisher`` nothing is committed to tables of format version 3."""
        super().__init__(tables.library)
        self._engine = engine
        self._publisher = publisher

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        """Try one commit, once; see ``Catalog``."""
        if has_changes(commit) or _needs_publisher(table):
            return merge_commit(self, self._engine, table, commit)
        return super().commit(table, commit)

    def allow_staging(self, table: Table, branch: str) -> Table:
        """Return the table with the property and branch that staging needs; see
        ``StagingCatalog``.
        """
        if _needs_publisher(table):
            self._publisher_of(table).allow_staging(table, branch)
            return self.load_table(table.identifier)
        # Without the property Spark's MERGE is visible at once, before anybody has compared the
        # base.
        if table.properties.get(STAGED_WRITES, "false").lower() != "true":
            update = SetPropertiesUpdate(updates={STAGED_WRITES: "true"})
            table = self._change(table, f"{STAGED_WRITES} cannot be set", update)
        if branch == MAIN or branch in table.refs:
            return table
        if MAIN not in table.refs:
            super().commit(table, TableCommit(base=None, files=()))  # a branch needs a snapshot
            table = self.load_table(table.identifier)
            if MAIN not in table.refs:
                raise Refused(f"table {table.identifier}: has no snapshot that a branch begins at")
        begin = SetSnapshotRefUpdate(
            ref_name=branch, type=SnapshotRefType.BRANCH, snapshot_id=table.refs[MAIN]
        )
        # Only if nobody else has made it: it might be elsewhere by now.
        missing = AssertRefSnapshotId(ref=branch, snapshot_id=None)
        return self._change(table, f"branch {branch} cannot be made", begin, missing)

    def _change(
        self, table: Table, failure: str, update: TableUpdate, *requirements: TableRequirement
    ) -> Table:
        """Change only metadata; return the changed table."""
        library_table = library_table_of(table)
        same_table = AssertTableUUID(uuid=library_table.metadata.table_uuid)
        with translated(f"table {table.identifier}: {failure}", writes=True):
            self.library.commit_table(library_table, (same_table, *requirements), (update,))
        return self.load_table(table.identifier)

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch to a staged snapshot, once; see ``StagingCatalog``."""
        appended = tuple(files for files in commit.files if files.operation == "append")
        if _needs_publisher(table):
            if appended:
                require_format(table, NEWEST_FORMAT)
            published = self._publisher_of(table).publish(table, commit, staged)
            if published.outcome is not Outcome.DONE:
                return published
            return replace(published, table=self.load_table(table.identifier))
        # The staged snapshot is the new head; what is appended goes on top of it, and one update
        # moves the branch over both.
        publication = Publication(library_table_of(table), commit, staged)
        if appended:
            publication.append(appended)
        return self._publish(publication)

    def _publisher_of(self, table: Table) -> BranchPublisher:
        if self._publisher is None:
            require_format(table, NEWEST_FORMAT)
        assert self._publisher is not None
        return self._publisher


def _needs_publisher(table: Table) -> bool:
    return table.format_version > NEWEST_FORMAT
