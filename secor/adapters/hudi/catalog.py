"""Hudi tables as ``tables.catalog.Catalog``: columns from definitions, commits from timelines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from secor.adapters.hudi.definitions import Definitions
from secor.adapters.hudi.fence import (
    BASE,
    GroupCommits,
    commits_of_group,
    is_rolled_back_by_others,
    was_undone,
)
from secor.adapters.hudi.notes import (
    CommitNotes,
    NotedCommit,
    allow_rollbacks,
    delete_empty_table,
    delete_leftovers,
)
from secor.adapters.hudi.timeline import ROLLBACK, Timeline, TimelineReader
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    NotFound,
    Refused,
    Unavailable,
)
from secor.core.ports import ObjectStore
from secor.core.text import load_json
from secor.tables.catalog import (
    MAIN,
    CommitResult,
    NewTable,
    Outcome,
    Snapshot,
    Table,
    TableCommit,
)
from secor.tables.commit.group_record import (
    SUMMARY_COMMIT,
    SUMMARY_GROUP,
    UNDONE,
    GroupRecord,
    property_name,
)
from secor.tables.commit.merging import MergeResult
from secor.tables.hudi import (
    BUCKETS,
    INSERT_KEY,
    NEW_BUCKETS,
    REQUESTED,
    TAKEN_BACK,
    HudiEngine,
    HudiWrite,
    uses_buckets,
)


class HudiCatalog(IcebergCatalog):
    """The tables of one group.

    The vector is in the metadata of the newest commit of the group, found by walking back over
    what others have committed.  Each commit that was seen is also *noted* in the group's store:
    a note without its commit means that the table was rolled back, or, where the timeline no
    longer reaches back so far, that it was archived.
    """

    def __init__(
        self,
        definitions: Definitions,
        own: ObjectStore,
        prefix: str,
        group: str,
        timelines: TimelineReader,
        engine: HudiEngine | None = None,
    ) -> None:
        """``own`` is the group's store.  Without an ``engine`` nothing can be committed."""
        super().__init__(definitions)
        self._definitions = definitions
        self._notes = CommitNotes(own, prefix, group)
        self._group = group
        self._timelines = timelines
        self._engine = engine
        self._tidied: set[str] = set()

    def create_table(self, identifier: str, new: NewTable) -> Table:
        """Define a table; see ``Catalog``.  One that is made here gets a number of buckets."""
        location = self._definitions.location_of(identifier, new.location)
        is_changed = bool(new.key) and tuple(new.key) != INSERT_KEY
        if is_changed and uses_buckets(new.properties) and self._timelines.read(location) is None:
            new = replace(new, properties={BUCKETS: str(NEW_BUCKETS), **new.properties})
        return super().create_table(identifier, new)

    def load_table(self, identifier: str) -> Table:
        """Return a table with what its timeline says of the group; see ``Catalog``."""
        table = super().load_table(identifier)
        timeline = self._timelines.read(table.location)
        notes = self._notes.list(identifier)
        if timeline is None:
            # A table without a timeline that had commits of ours was deleted: to begin it anew
            # would lose its rows without a word.
            if notes:
                raise NotFound(f"{identifier}: there is no Hudi table any more in {table.location}")
            return table
        own = commits_of_group(self._timelines, timeline, self._group)
        newest = own.newest
        self._timelines.forget(timeline, table.location)
        snapshots = _snapshots(self._timelines, timeline, own)
        refs = {MAIN: max(snapshots)} if snapshots else {}
        properties = dict(own.added)
        lost = [note for note in notes if newest is None or note.completed > int(newest.completed)]
        if lost:
            properties = dict(self._notes.read(lost[-1]).properties)
            oldest = min(snapshots, default=0)
            removed = [self._notes.read(note) for note in lost if note.completed > oldest]
            snapshots |= self._removed(removed, table)
            if removed and self._were_undone(timeline, table.location, own, removed):
                properties[UNDONE] = "true"
        if own.taken_back:
            properties[TAKEN_BACK] = json.dumps(sorted(own.taken_back))
        return replace(
            table,
            properties=MappingProxyType({**table.properties, **properties}),
            refs=MappingProxyType(refs),
            snapshots=MappingProxyType(snapshots),
        )

    def commit(self, table: Table, commit: TableCommit) -> CommitResult:
        """Let the engine write, once; see ``Catalog``."""
        if self._engine is None:
            raise ConfigurationError(
                f"table {table.identifier}: Spark writes Hudi tables: run 'secor tables run'"
            )
        if commit.branch != MAIN:
            raise ConfigurationError(f"table {table.identifier}: a Hudi table has no branches")
        # Before the write: if the table is rolled back to before this commit later, the note is the
        # only trace of it.
        self._note(table)
        metadata = {**commit.properties, **commit.summary}
        base = _commit_of_group(table, self._group)
        if base is not None:
            metadata[property_name(self._group, BASE)] = base.summary[REQUESTED]
        taken_back = frozenset(map(str, load_json(table.properties.get(TAKEN_BACK, "[]"))))
        expected = expected_commit(table, self._group)
        write = HudiWrite(table, self._group, commit.files, metadata, expected, taken_back)
        if table.identifier not in self._tidied:
            self._tidied.add(table.identifier)
            self._tidy(table)  # after one that was killed
        merged = MergeResult()
        try:
            merged = self._write(self._engine, write)
        except Refused as error:
            return CommitResult(Outcome.REFUSED, why=str(error))
        except Unavailable:
            committed = self.load_table(table.identifier)
            if expected_commit(committed, self._group) != commit.summary[SUMMARY_COMMIT]:
                self._tidy(table)
                raise
        else:
            committed = self.load_table(table.identifier)
        if expected_commit(committed, self._group) != commit.summary[SUMMARY_COMMIT]:
            self._tidy(table)
            return CommitResult(Outcome.REFUSED, why="the commit is not on the timeline")
        self._note(committed)
        if taken_back or UNDONE in table.properties:
            self._tidy(table)  # files of these that were written after their rollback was planned
        return CommitResult(
            Outcome.DONE,
            committed,
            unordered=merged.unordered,
            unknown_values=merged.unknown,
        )

    def why_no_commit(self, table: Table, branch: str) -> str:
        """Return nothing: only Spark knows; see ``Catalog``."""
        return ""

    def _write(self, engine: HudiEngine, write: HudiWrite) -> MergeResult:
        """Let the engine write.  Raises as it does."""
        location = write.table.location
        timeline = self._timelines.read(location)
        if timeline is None:
            delete_empty_table(self._timelines, location)
            return engine.write(write)
        if is_rolled_back_by_others(self._timelines, timeline):
            write = replace(write, backs_up=False)  # nobody shall take it for a writer's accident
        allowed = allow_rollbacks(self._timelines, location, timeline)
        try:
            return engine.write(write)
        finally:
            for key in allowed:
                self._timelines.store.delete(key)

    def _tidy(self, table: Table) -> None:
        """Delete what writes have left that were rolled back, as far as that is possible."""
        try:
            timeline = self._timelines.read(table.location)
            if timeline is not None and any(
                instant.action == ROLLBACK for instant in timeline.completed
            ):
                delete_leftovers(self._timelines, table.location)
        except (Unavailable, AccessDenied):
            return  # the next process looks again

    def _were_undone(
        self,
        timeline: Timeline,
        location: str,
        own: GroupCommits,
        removed: Sequence[NotedCommit],
    ) -> bool:
        """Return whether our committers took all of ``removed`` back, and nobody else did.

        A commit on top of one that was taken back is taken back with it, see ``fence``.
        """
        taken_back = {int(instant.completed) for instant in own.taken_back.values()}

        def was_undone_by_us(commit: NotedCommit) -> bool:
            requested, completed = commit.requested, str(commit.completed)
            return requested is not None and was_undone(
                self._timelines, timeline, location, requested, completed
            )

        return all(note.completed in taken_back or was_undone_by_us(note) for note in removed)

    def _removed(self, commits: Sequence[NotedCommit], table: Table) -> dict[int, Snapshot]:
        """Return commits that were rolled back: on no branch, and what they wrote is still staged.

        Those that lie below the whole timeline were archived instead.
        """
        removed = {}
        for noted in commits:
            shown = replace(table, properties=noted.properties)
            commit = GroupRecord.of(shown, self._group).commit
            if commit is not None:
                summary = {SUMMARY_COMMIT: commit.id}
                removed[noted.completed] = Snapshot(noted.completed, None, None, 0, summary)
        return removed

    def _note(self, table: Table) -> None:
        """Note the group's commit that ``table`` shows."""
        snapshot = _commit_of_group(table, self._group)
        if snapshot is not None:
            completed, requested = snapshot.snapshot_id, snapshot.summary[REQUESTED]
            self._notes.put(table.identifier, completed, requested, table.properties)


def expected_commit(table: Table, group: str) -> str | None:
    """Return the id of the group's newest commit on the timeline that ``table`` shows."""
    snapshot = _commit_of_group(table, group)
    return None if snapshot is None else snapshot.summary[SUMMARY_COMMIT]


def _commit_of_group(table: Table, group: str) -> Snapshot | None:
    for snapshot in table.snapshots.values():
        if snapshot.summary.get(SUMMARY_GROUP) == group:
            return snapshot
    return None


def _snapshots(
    timelines: TimelineReader, timeline: Timeline, own: GroupCommits
) -> dict[int, Snapshot]:
    """Return the commits of a timeline as snapshots, from the newest back to the group's."""
    snapshots: dict[int, Snapshot] = {}
    taken_back = own.taken_back.values()
    commits = [commit for commit in timeline.commits if commit not in taken_back]
    if own.newest is not None:
        commits = commits[: commits.index(own.newest) + 1]
    for index, instant in enumerate(commits):
        parent = commits[index + 1] if index + 1 < len(commits) else None
        number = int(instant.completed)
        snapshots[number] = Snapshot(
            snapshot_id=number,
            parent_id=None if parent is None else int(parent.completed),
            sequence_number=number,
            timestamp=0,
            summary={**timelines.added(instant), REQUESTED: instant.requested},
        )
    return snapshots
