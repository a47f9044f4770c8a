"""Commits again what a branch has lost: the commits' objects name the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from secor.core.errors import ConfigurationError, TableStopped
from secor.tables.catalog import Table
from secor.tables.commit.commit_history import CommitHistory, CommitObject
from secor.tables.commit.group_record import (
    SUMMARY_COMMIT,
    SUMMARY_PART,
    UNDONE,
    GroupRecord,
    Lineage,
    ancestors,
    find_commit,
    lineage,
)
from secor.tables.staging.manifest import Operation, TableFiles


def is_undone_by_accident(table: Table, branch: str, record: GroupRecord) -> bool:
    """Return whether the branch has lost commits that committers of ours took back."""
    return UNDONE in table.properties and lineage(table, branch, record) is Lineage.ROLLED_BACK


def lost_commits(
    table: Table, branch: str, record: GroupRecord, history: CommitHistory
) -> list[CommitObject]:
    """Return the commits that the branch has lost, the oldest first.

    A commit with changes of rows and appends is two snapshots.  If the branch still has the lower
    one, only the appends are lost; if a person went on from there, only its changes are.

    Raises ``ConfigurationError`` where nothing was rolled back, ``TableStopped`` where the
    removed files may be deleted already, or are not known any more.
    """
    if lineage(table, branch, record) is not Lineage.ROLLED_BACK:
        raise ConfigurationError(
            f"{table.identifier}: was not rolled back: its branch {branch} holds the"
            " last commit of this group"
        )
    assert record.commit is not None
    removed: list[CommitObject] = []
    summaries = [snapshot.summary for snapshot in ancestors(table, branch)]
    present_commits = {summary.get(SUMMARY_COMMIT) for summary in summaries}
    present_parts = {summary.get(SUMMARY_PART) for summary in summaries}
    commit_id: str | None = record.commit.id
    in_part = False
    for commit in history.back_from(table.uuid, commit_id):
        # The newest commit that the branch still has: what was lost lies above it.
        if commit.id in present_commits or (in_part and commit.id in present_parts):
            commit_id = commit.id
            break
        name = SUMMARY_PART if in_part else SUMMARY_COMMIT
        # The snapshot has expired, and expiry deletes the files that only it named: to name them
        # again would break the table.
        if find_commit(table, commit.id, name) is None:
            raise TableStopped(
                f"{table.identifier}: the snapshot of commit {commit.id} has expired, and its"
                " files may be deleted: read the messages again with 'secor offsets set', or"
                " go on without them with 'secor tables accept'",
                "rolled_back",
            )
        if commit.id in present_parts:
            removed.append(_only(commit, "append"))
            commit_id = commit.id
            break
        removed.append(_only(commit, "changes") if in_part else commit)
        commit_id, in_part = commit.previous, commit.previous_in_part
    else:
        if commit_id is not None:
            raise TableStopped(
                f"{table.identifier}: the object of commit {commit_id} is gone, so its files"
                " are not known: 'secor tables accept' goes on without them",
                "rolled_back",
            )
    # Walked from the newest back; committed again from the oldest on, since later changes of a key
    # win.
    return removed[::-1]


def _only(commit: CommitObject, operation: Operation) -> CommitObject:
    return replace(
        commit, files=tuple(files for files in commit.files if files.operation == operation)
    )


def files_of(commits: Sequence[CommitObject]) -> tuple[tuple[TableFiles, ...], tuple[str, ...]]:
    """Return the files of commits, in order, and the keys of the manifests they came from."""
    files = tuple(of_table for commit in commits for of_table in commit.files)
    return files, tuple(key for commit in commits for key in commit.manifests)
