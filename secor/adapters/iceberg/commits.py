"""One attempt of one commit: files, vector and snapshot together, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.table import Table as LibraryTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as LibrarySnapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from secor.adapters.iceberg.appending import AppendedSnapshot
from secor.adapters.iceberg.catalog import IcebergTables, describe, library_table_of
from secor.adapters.iceberg.correcting import CorrectedSnapshot, Corrections
from secor.adapters.iceberg.data_file_rows import scan_rows
from secor.adapters.iceberg.failures import translated
from secor.adapters.iceberg.manifest_trials import refused_files, try_empty_snapshot
from secor.adapters.iceberg.metadata_comparison import Parallel, compare_files
from secor.core.errors import (
    ConfigurationError,
    CorruptFile,
    FilesRefused,
    NotFound,
    OutcomeUnknown,
    Refused,
    SecorError,
)
from secor.tables.catalog import MAIN, NEWEST_FORMAT, CommitResult, Outcome, Table, TableCommit
from secor.tables.staging.manifest import TableFiles
from secor.verify.metadata import ComparedFile

NewSnapshot = TypeVar("NewSnapshot", bound=AppendedSnapshot)


class Publication:
    """One attempt: ``head`` is the snapshot that the branch is to have (None: none yet)."""

    def __init__(self, table: LibraryTable, commit: TableCommit, head: int | None) -> None:
        self.table = table
        self.commit = commit
        self.written: list[str] = []
        self._head = head
        self._added: list[LibrarySnapshot] = []

    def append(self, files: Sequence[TableFiles]) -> None:
        """Put a snapshot with these data files on top of the head.

        Raises ``Unavailable``, ``AccessDenied``, ``FilesRefused``: nothing is left behind.
        """
        try:
            self._put_on_top(
                AppendedSnapshot, lambda snapshot: snapshot.write(files, dict(self.commit.summary))
            )
        except ConfigurationError as error:
            raise FilesRefused(str(error)) from error

    def correct(self, corrections: Corrections) -> bool:
        """Put a snapshot with corrected metadata on top of the head; False where all is right.

        Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``: nothing is left behind.
        """
        return self._put_on_top(CorrectedSnapshot, lambda snapshot: snapshot.correct(corrections))

    def _put_on_top(
        self,
        begin: Callable[[LibraryTable, int | None], NewSnapshot],
        write: Callable[[NewSnapshot], LibrarySnapshot | None],
    ) -> bool:
        where = ".".join(self.table.name())
        try:
            with translated(f"table {where}: its manifests cannot be written"):
                snapshot = begin(self.table, self._head)
                try:
                    added = write(snapshot)
                finally:
                    self.written += snapshot.written
        except SecorError:
            self.discard()
            raise
        if added is None:
            return False
        self._added.append(added)
        self._head = added.snapshot_id
        return True

    def discard(self) -> None:
        """Delete what this attempt wrote, as far as that is possible."""
        for location in self.written:
            # What stays is an orphan, which the table's own maintenance removes.
            with suppress(SecorError), translated(location):
                self.table.io.delete(location)

    @property
    def added(self) -> list[int]:
        """The ids of the snapshots that this attempt has written."""
        return [snapshot.snapshot_id for snapshot in self._added]

    def updates(self) -> tuple[TableUpdate, ...]:
        """Return what changes."""
        commit = self.commit
        assert self._head is not None, "a commit has a snapshot"
        ref = self.table.metadata.refs.get(commit.branch)
        return (
            *(AddSnapshotUpdate(snapshot=added) for added in self._added),
            SetSnapshotRefUpdate(
                ref_name=commit.branch,
                type=SnapshotRefType.BRANCH,
                snapshot_id=self._head,
                # Repeated, or the branch would lose them: the update replaces the whole reference.
                max_ref_age_ms=ref.max_ref_age_ms if ref else None,
                max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
                min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
            ),
            *([SetPropertiesUpdate(updates=dict(commit.properties))] if commit.properties else []),
        )

    def requirements(self) -> tuple[TableRequirement, ...]:
        """Return what must be as it was seen."""
        return (
            # A table that was dropped and made again has the same name, and perhaps a branch
            # without snapshots, too.
            AssertTableUUID(uuid=self.table.metadata.table_uuid),
            # The compare-and-set on which everything rests: the branch is where the vector was
            # read.
            AssertRefSnapshotId(ref=self.commit.branch, snapshot_id=self.commit.base),
        )


class IcebergCatalog(IcebergTables):
    """The whole of ``tables.catalog.Catalog``."""

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        """Try one commit, once; see ``Catalog``.

        What the catalog calls wrong while nobody changes the table is raised.
        """
        library_table = library_table_of(table)
        if commit.branch != MAIN and not table.snapshots:
            return self._begin_table(table)
        base = commit.base
        if base is None and commit.branch != MAIN:
            base = table.refs.get(MAIN)  # a new branch begins where main is
        publication = Publication(library_table, commit, base)
        # Written before the request: until the catalog moves the branch, nothing refers to these
        # files.
        publication.append(commit.files)
        return self._publish(publication)

    def _publish(self, publication: Publication) -> CommitResult:
        """Try to move a branch, and the properties with it."""
        library_table = publication.table
        identifier = ".".join(library_table.name())
        try:
            with translated(f"table {identifier}: its commit", writes=True):
                answer = self.library.commit_table(
                    library_table, publication.requirements(), publication.updates()
                )
        except OutcomeUnknown as error:
            return CommitResult(Outcome.UNKNOWN, why=str(error))
        except (Refused, NotFound, ConfigurationError) as error:
            # Looked at before anything is deleted: if the first of two requests was carried out,
            # the manifests are the table's now.
            if self._may_be_there(publication):
                return CommitResult(Outcome.UNKNOWN, why=str(error))
            publication.discard()
            if isinstance(error, ConfigurationError) and self._is_unchanged(library_table):
                raise  # no race: the same commit would be refused again
            return CommitResult(Outcome.REFUSED, why=str(error))
        committed = LibraryTable(
            library_table.name(),
            answer.metadata,
            answer.metadata_location,
            library_table.io,
            self.library,
        )
        return CommitResult(Outcome.DONE, describe(identifier, committed))

    def refused_files(self, table: Table, files: Sequence[TableFiles]) -> Mapping[str, str]:
        """Return which of these no commit can append; see ``Catalog``."""
        appended = [of_table for of_table in files if of_table.operation == "append"]
        with translated(f"table {table.identifier}: its manifests cannot be written"):
            return refused_files(library_table_of(table), appended)

    def why_no_commit(self, table: Table, branch: str) -> str:
        """Return why nothing can be appended to a table; see ``Catalog``."""
        if table.format_version > NEWEST_FORMAT:
            return ""  # Java writes its manifests
        head = table.head(branch)
        try:
            with translated(f"table {table.identifier}: its manifests cannot be written"):
                try_empty_snapshot(library_table_of(table), head.snapshot_id if head else None)
        except SecorError as error:
            return str(error)
        return ""

    def scan(self, table: Table, branch: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give some columns of all rows that a reader of a branch sees.

        Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError`` for what cannot be read,
        ``CorruptFile`` for a file that is missing or damaged.
        """
        library_table = library_table_of(table)
        head = table.head(branch)
        if head is None:
            return
        with _reading(table):
            yield from scan_rows(library_table, head.snapshot_id, columns)

    def compare_files(
        self, table: Table, branch: str, parallel: Parallel[Any, Any]
    ) -> Iterator[ComparedFile]:
        """Compare the recorded metadata of all files of a branch with the files.

        Reads all values, several files side by side as ``parallel`` maps them.  Raises as ``scan``.
        """
        head = table.head(branch)
        if head is None:
            return
        with _reading(table):
            yield from compare_files(library_table_of(table), head.snapshot_id, parallel)

    def correct(self, table: Table, branch: str, corrections: Corrections) -> CommitResult | None:
        """Try once to record anew what ``compare_files`` found wrong; None where all is right.

        Files that the branch no longer has are passed over.  Raises ``Unavailable``,
        ``AccessDenied``, ``ConfigurationError``.
        """
        head = table.head(branch)
        if head is None:
            return None
        commit = TableCommit(base=head.snapshot_id, files=(), branch=branch)
        publication = Publication(library_table_of(table), commit, head.snapshot_id)
        if not publication.correct(corrections):
            return None
        return self._publish(publication)

    def data_files(self, table: Table) -> Iterator[str]:
        """Give the paths of the data files in all snapshots that a table still has.

        Reads every manifest.  Raises ``Unavailable``, ``AccessDenied``.
        """
        library_table = library_table_of(table)
        read_manifests: set[str] = set()
        with translated(f"table {table.identifier}: its manifests cannot be read"):
            for snapshot in library_table.metadata.snapshots:
                for manifest in snapshot.manifests(library_table.io):
                    if manifest.manifest_path in read_manifests:
                        continue
                    read_manifests.add(manifest.manifest_path)
                    for entry in manifest.fetch_manifest_entry(library_table.io):
                        yield entry.data_file.file_path

    def _begin_table(self, table: Table) -> CommitResult:
        """Commit an empty snapshot to a table without any: a branch needs one."""
        first = self.commit(table, TableCommit(base=None, files=()))
        if first.outcome is Outcome.UNKNOWN:
            return first
        why = f"table {table.identifier}: had no snapshot that a branch could begin at"
        return CommitResult(Outcome.REFUSED, why=first.why or why)

    def _is_unchanged(self, library_table: LibraryTable) -> bool:
        """Return whether nobody has changed a table since it was loaded."""
        name = library_table.name()
        with suppress(SecorError), translated(f"table {'.'.join(name)}"):
            return self.library.load_table(name).metadata == library_table.metadata
        return False

    def _may_be_there(self, publication: Publication) -> bool:
        """Return whether the table may have the snapshots of a refused attempt nevertheless.

        A proxy or the server itself may repeat a request whose answer was lost.  The second
        request is refused because of the first, but the files are the table's.
        """
        if not publication.added:
            return False
        name = publication.table.name()
        try:
            with translated(f"table {'.'.join(name)}"):
                present = self.library.load_table(name)
        except NotFound:
            return False
        except SecorError:
            return True
        return any(
            present.metadata.snapshot_by_id(snapshot_id) is not None
            for snapshot_id in publication.added
        )


@contextmanager
def _reading(table: Table) -> Iterator[None]:
    where = f"table {table.identifier}: it cannot be read"
    with translated(where):
        try:
            yield
        except (FileNotFoundError, CorruptFile) as error:
            raise CorruptFile(f"{where}: {error}") from error
