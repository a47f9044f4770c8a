"""A catalog whose commits may have changes of rows: an engine stages them, Python publishes."""

from __future__ import annotations

from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from secor.adapters.iceberg.catalog import library_table_of
from secor.adapters.iceberg.commits import IcebergCatalog, Publication
from secor.adapters.iceberg.failures import translated
from secor.tables.catalog import STAGED_WRITES, CommitResult, Table, TableCommit
from secor.tables.merging import MergeEngine, has_changes, merge_commit


class MergingCatalog(IcebergCatalog):
    """``tables.catalog.Catalog`` and ``tables.merging.StagingCatalog``."""

    def __init__(self, tables: IcebergCatalog, engine: MergeEngine) -> None:
        super().__init__(tables.library)
        self._engine = engine

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        """Try one commit, once; see ``Catalog``."""
        if has_changes(commit):
            return merge_commit(self, self._engine, table, commit)
        return super().commit(table, commit)

    def allow_staging(self, table: Table) -> Table:
        """Return the table with the property that staging needs; see ``StagingCatalog``."""
        if table.properties.get(STAGED_WRITES, "false").lower() == "true":
            return table
        library_table = library_table_of(table)
        with translated(f"table {table.identifier}: {STAGED_WRITES} cannot be set", writes=True):
            self.library.commit_table(
                library_table,
                (AssertTableUUID(uuid=library_table.metadata.table_uuid),),
                (SetPropertiesUpdate(updates={STAGED_WRITES: "true"}),),
            )
        return self.load_table(table.identifier)

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch to a staged snapshot, once; see ``StagingCatalog``."""
        publication = Publication(library_table_of(table), commit, staged)
        appended = tuple(files for files in commit.files if files.operation == "append")
        if appended:
            publication.append(appended)
        return self._publish(publication)
