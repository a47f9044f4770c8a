"""Hudi tables as ``tables.catalog.Catalog``: columns from definitions, commits from timelines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from secor.adapters.hudi.definitions import Definitions, directory_of
from secor.adapters.hudi.fence import newest_commit
from secor.adapters.hudi.leftovers import delete_leftovers
from secor.adapters.hudi.timeline import Instant, Timeline, TimelineReader
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    CorruptFile,
    NotFound,
    Refused,
    Unavailable,
)
from secor.core.foreign_json import load_json
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes
from secor.tables.catalog import MAIN, CommitResult, Outcome, Snapshot, Table, TableCommit
from secor.tables.group_record import (
    SUMMARY_COMMIT,
    SUMMARY_GROUP,
    GroupRecord,
    property_name,
)
from secor.tables.hudi import REQUESTED, HudiEngine, HudiWrite

ROLLBACK = "rollback"

KEPT = 100
"""Notes of commits that are kept: of the newest ones.  A rollback beyond them is noticed, and
cannot be replayed.
"""


@dataclass(frozen=True, slots=True)
class _Note:
    """What is noted of a commit that was seen on the timeline."""

    key: str
    completed: int


class HudiCatalog(IcebergCatalog):
    """The tables of one group.

    The vector is in the metadata of the newest commit of the group, found by walking back over
    what others have committed.  Each commit that was seen is also *noted* in the group's store:
    a note without its commit tells that the table was rolled back, or, where the timeline no
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
        self._own = own
        self._prefix = prefix
        self._group = group
        self._timelines = timelines
        self._engine = engine
        self._tidied: set[str] = set()

    def load_table(self, identifier: str) -> Table:
        """Return a table with what its timeline says of the group; see ``Catalog``."""
        table = super().load_table(identifier)
        timeline = self._timelines.read(table.location)
        notes = self._notes(identifier)
        if timeline is None:
            if notes:
                raise NotFound(f"{identifier}: there is no Hudi table any more in {table.location}")
            return table
        newest, extra = newest_commit(self._timelines, timeline, self._group)
        self._timelines.forget(timeline, table.location)
        snapshots = _snapshots(self._timelines, timeline, newest)
        refs = {MAIN: max(snapshots)} if snapshots else {}
        properties = dict(extra)
        lost = [it for it in notes if newest is None or it.completed > int(newest.completed)]
        if lost:
            properties = self._read_note(lost[-1])
            oldest = min(snapshots, default=0)
            rolled_back = [note for note in lost if note.completed > oldest]
            snapshots |= self._removed(rolled_back, table)
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
        expected = expected_commit(table, self._group)
        self._note(table)
        metadata = {**commit.properties, **commit.summary}
        write = HudiWrite(table, self._group, commit.files, metadata, expected)
        if table.identifier not in self._tidied:
            self._tidied.add(table.identifier)
            self._tidy(table)  # after one that was killed
        unordered = 0
        try:
            unordered = self._engine.write(write).unordered
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
        return CommitResult(Outcome.DONE, committed, unordered=unordered)

    def _tidy(self, table: Table) -> None:
        """Delete what writes have left that were rolled back, as far as that is possible."""
        try:
            timeline = self._timelines.read(table.location)
            if timeline is not None and any(it.action == ROLLBACK for it in timeline.completed):
                delete_leftovers(self._timelines, table.location)
        except (Unavailable, AccessDenied):
            return  # the next process looks again

    def _notes(self, identifier: str) -> list[_Note]:
        before = self._note_key(identifier, "")
        notes = []
        for stored in self._own.list(before):
            number = stored.key[len(before) :].removesuffix(".json")
            if number.isdigit():
                notes.append(_Note(stored.key, int(number)))
        return sorted(notes, key=lambda it: it.completed)

    def _note_key(self, identifier: str, name: str) -> str:
        return f"{directory_of(self._prefix, identifier)}{self._group}/commit-{name}"

    def _read_note(self, note: _Note) -> dict[str, str]:
        body = read_bytes(self._own, note.key)
        try:
            data = load_json(body or b"")
            return {str(name): str(value) for name, value in data.items()}
        except (ValueError, AttributeError) as error:
            raise CorruptFile(f"{note.key}: no note of a commit ({error})") from error

    def _removed(self, notes: Sequence[_Note], table: Table) -> dict[int, Snapshot]:
        """Return commits that were rolled back: on no branch, and what they wrote is still staged.

        Those that lie below the whole timeline were archived instead.
        """
        removed = {}
        for note in notes:
            shown = replace(table, properties=self._read_note(note))
            commit = GroupRecord.of(shown, self._group).commit
            if commit is not None:
                summary = {SUMMARY_COMMIT: commit.id}
                removed[note.completed] = Snapshot(note.completed, None, None, 0, summary)
        return removed

    def _note(self, table: Table) -> None:
        """Note the group's commit that ``table`` shows; older notes go."""
        completed = _completed(table, self._group)
        if completed is None:
            return
        notes = self._notes(table.identifier)
        if notes and completed <= notes[-1].completed:
            return
        key = self._note_key(table.identifier, f"{completed}.json")
        own = property_name(self._group, "")
        properties = {name: it for name, it in table.properties.items() if name.startswith(own)}
        put_bytes(self._own, key, json.dumps(properties, sort_keys=True).encode())
        for note in notes[: -KEPT + 1]:
            self._own.delete(note.key)


def expected_commit(table: Table, group: str) -> str | None:
    """Return the id of the group's newest commit on the timeline that ``table`` shows."""
    for snapshot in table.snapshots.values():
        if snapshot.summary.get(SUMMARY_GROUP) == group:
            return snapshot.summary[SUMMARY_COMMIT]
    return None


def _completed(table: Table, group: str) -> int | None:
    for snapshot in table.snapshots.values():
        if snapshot.summary.get(SUMMARY_GROUP) == group:
            return snapshot.sequence_number
    return None


def _snapshots(
    timelines: TimelineReader, timeline: Timeline, newest: Instant | None
) -> dict[int, Snapshot]:
    """Return the commits of a timeline as snapshots, from the newest back to the group's."""
    snapshots: dict[int, Snapshot] = {}
    commits = timeline.commits
    if newest is not None:
        commits = commits[: commits.index(newest) + 1]
    for at, instant in enumerate(commits):
        parent = commits[at + 1] if at + 1 < len(commits) else None
        number = int(instant.completed)
        snapshots[number] = Snapshot(
            snapshot_id=number,
            parent_id=None if parent is None else int(parent.completed),
            sequence_number=number,
            timestamp=0,
            summary={**timelines.added(instant), REQUESTED: instant.requested},
        )
    return snapshots
