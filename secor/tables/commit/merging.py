"""The port to an engine that merges changes of rows into a table.

The engine only stages: it writes a snapshot that no reader sees.  The catalog's ``commit``
publishes that snapshot, with the same requirement as for appended files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from secor.core.errors import NotFound, OutcomeUnknown, Refused, Unavailable
from secor.tables.catalog import CommitResult, Outcome, Snapshot, Table, TableCommit
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_PART
from secor.tables.staging.manifest import TableFiles

STAGED_AS = "wap.id"
"""In the summary of a staged snapshot: the id under which it was asked for."""


@dataclass(frozen=True, slots=True)
class BranchMerge:
    """Changes to be merged on top of a branch's head.

    ``id`` is of this attempt alone; ``files`` are staged changes, all of the same identifier
    columns; ``summary`` belongs into the snapshot's.
    """

    id: str
    table: Table
    branch: str
    files: tuple[TableFiles, ...]
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """``unordered`` keys were changed in several topic partitions, in an order that nobody knows.

    ``unknown`` values were left out by updates of rows that the table did not have.
    """

    unordered: int = 0
    unknown: int = 0


class MergeEngine(Protocol):
    """Merges for several tables side by side."""

    def stage(self, merge: BranchMerge) -> MergeResult:
        """Stage a snapshot that has ``merge.id`` as ``STAGED_AS`` in its summary; an empty one
        without files.

        Of each key the last change counts: by offset inside of a topic partition; between
        partitions by timestamp, then topic, partition and offset.  A column that it leaves out
        (``staged_rows.KEPT``) has the last known value since the key was last deleted, else that
        of the table's row.

        Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``; a reader sees nothing
        of it in any case.
        """


class BranchPublisher(Protocol):
    """Commits to tables that are beyond the library for Python: those of format version 3."""

    def allow_staging(self, table: Table, branch: str) -> None:
        """Set the property, and make the branch; see ``StagingCatalog``.

        Raises ``Unavailable``.
        """

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch; see ``StagingCatalog``.  The result has no table."""


class StagingCatalog(Protocol):
    """A catalog's part beyond ``Catalog``, so that an engine can stage snapshots."""

    def load_table(self, identifier: str) -> Table:
        """Ask the catalog; see ``Catalog``."""

    def allow_staging(self, table: Table, branch: str) -> Table:
        """Return the table with the property without which a merge would be seen at once.

        A branch other than main that is missing begins where main is: engines merge into no
        other.

        Raises ``Refused``, ``OutcomeUnknown``, ``Unavailable``, ``AccessDenied``.
        """

    def publish(self, table: Table, commit: TableCommit, staged: int) -> CommitResult:
        """Move the branch to the snapshot ``staged``, with the commit's appends on top of it.

        As ``Catalog.commit``: requires ``commit.base``, sets the properties, and tries once.
        """


def merge_commit(
    catalog: StagingCatalog, engine: MergeEngine, table: Table, commit: TableCommit
) -> CommitResult:
    """Try one commit that has changes of rows, once; see ``Catalog.commit``.

    A staged snapshot that is not published is on no branch: readers do not see it, and the
    expiry of snapshots removes it with its files.
    """
    changes = tuple(files for files in commit.files if files.operation == "changes")
    try:
        table = catalog.allow_staging(table, commit.branch)
    except (Refused, OutcomeUnknown) as error:
        return CommitResult(Outcome.REFUSED, why=str(error))
    # Before the engine is started: a merge takes a minute of Spark, and this one could not be
    # published.
    if table.refs.get(commit.branch) != commit.base:
        return CommitResult(Outcome.REFUSED, why="the branch moved, or is new")
    merge_id = commit.summary[SUMMARY_COMMIT]
    summary = dict(commit.summary)
    if len(changes) < len(commit.files):
        # The snapshot of the appended files is the commit's, and this one comes below it: a
        # branch that was set back to here has lost rows, and must not look whole.
        summary[SUMMARY_PART] = summary.pop(SUMMARY_COMMIT)
    failure, merged = None, MergeResult()
    try:
        merged = engine.stage(BranchMerge(merge_id, table, commit.branch, changes, summary))
    except Unavailable as error:
        failure = error  # an engine may see by itself that the branch moves
    try:
        # Loaded after the merge, whatever came of it: an engine that failed because the branch
        # moved is an ordinary lost race.
        present = catalog.load_table(table.identifier)
    except NotFound as error:
        return CommitResult(Outcome.REFUSED, why=str(error))
    if (present.uuid, present.refs.get(commit.branch)) != (table.uuid, commit.base):
        return CommitResult(Outcome.REFUSED, why="the branch moved while rows were merged")
    if failure is not None:
        raise failure
    staged = _find_staged(present, merge_id)
    # Spark merges on what the branch holds when the statement runs. Only a snapshot that was made
    # on our base may be published with our vector.
    if staged is None or staged.parent_id != commit.base:
        return CommitResult(Outcome.REFUSED, why="rows were merged on another snapshot")
    # The one step that readers see, and the only compare-and-set: until here nothing has happened.
    published = catalog.publish(present, commit, staged.snapshot_id)
    return replace(published, unordered=merged.unordered, unknown_values=merged.unknown)


def has_changes(commit: TableCommit) -> bool:
    """Return whether a commit needs an engine."""
    return any(files.operation == "changes" for files in commit.files)


def _find_staged(table: Table, merge_id: str) -> Snapshot | None:
    for snapshot in table.snapshots.values():
        if snapshot.summary.get(STAGED_AS) == merge_id:
            return snapshot
    return None
