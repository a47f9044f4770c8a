"""Notes what ``secor tables erase`` deletes: before, after, and what an earlier run has left open.

The order matters.  What is about to be deleted is noted first, then rows go, then comes the record
of what went: rows that the snapshot below the deletion had and the deletion has not, whatever the
note says.  After a crash the next run finds the note and makes the record from the same snapshots.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from secor import __version__
from secor.archive.erasures import SETTING
from secor.core.errors import ConfigurationError, CorruptFile, NotFound
from secor.core.model import TopicPartition
from secor.core.text import iso_time
from secor.tables.catalog import Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_GROUP, GroupRecord
from secor.tables.commit.vector import Vector
from secor.tables.erased_rows import ErasedRows, ErasuresOfTable, RowErasures, RowSet, deletions
from secor.tables.rows.table_rows import ORIGIN

NOT_NAMED = (
    "its rows change by key, so 'secor verify' finds erased ones by hashes of their keys, and calls"
    " those of this run missing: set erase.secret before you erase, and keep it"
)
EXPIRED = (
    "what it deleted cannot be proven any more, because the table no longer has the snapshot before"
    " it: 'secor verify' calls these rows missing"
)


class RowsOfSnapshot(Protocol):
    """Reads rows of a snapshot; see ``spark.erased_rows.SnapshotRows``."""

    def __call__(self, snapshot: int, condition: str = "", without: int | None = None) -> RowSet:
        """Return rows with a condition that the snapshot ``without`` does not have."""


Planned = tuple[int, ErasedRows]
"""The number of a note, and what it says."""


@dataclass(frozen=True, slots=True)
class RecordedErasure:
    """The notes and records of one table.  ``key`` is empty where messages are appended as rows."""

    records: RowErasures
    known: ErasuresOfTable
    key: Sequence[str]
    rows_of: RowsOfSnapshot
    group: str
    history: CommitHistory
    branch: str
    now: Callable[[], float] = time.time

    def conclude(self, table: Table) -> list[str]:
        """Record what earlier runs deleted before they ended; return remarks.

        Raises ``Unavailable``, and ``ConfigurationError`` where their secret is another one.
        """
        remarks = []
        for number, note in sorted(self.known.planned.items()):
            secret = self.known.secret
            if note.hashes and (secret is None or secret.id != note.secret):
                raise ConfigurationError(
                    f"table {note.table}: an erasure of {note.erased_at} is not finished, and was"
                    f" planned with another secret: set {SETTING} to that one"
                )
            if not self._finish(table, (number, note), None):
                remarks.append(f"an erasure of {note.erased_at} was not finished: {EXPIRED}")
                self.records.finish(replace(note, offsets=(), hashes=frozenset()), number)
        return remarks

    def begin(self, table: Table, column: str, condition: str) -> Planned | None:
        """Note the rows with a condition, before they go; None where nobody looks for them.

        Raises ``Unavailable``, ``OutcomeUnknown``: then nothing may be deleted.
        """
        head = table.head(self.branch)
        if head is None or not self._is_named(table):
            return None
        note = ErasedRows(
            table.identifier,
            column,
            self._time(),
            f"secor {__version__}",
            head.snapshot_id,
            secret="" if self.known.secret is None else self.known.secret.id,
        )
        rows = self.rows_of(head.snapshot_id, condition)
        note = note.with_rows(rows, _below(GroupRecord.of(table, self.group).vector))
        return self.records.begin(note), note

    def finish(self, table: Table, planned: Planned | None, condition: str) -> list[str]:
        """Record what was deleted; return remarks.  Raises as ``begin``; do it again then."""
        if planned is None:
            return [NOT_NAMED] if self.key and self.known.secret is None else []
        return [] if self._finish(table, planned, condition) else [EXPIRED]

    def _is_named(self, table: Table) -> bool:
        if self.key:
            return self.known.secret is not None
        return set(ORIGIN) <= set(table.schema.names)

    def _finish(self, table: Table, planned: Planned, condition: str | None) -> bool:
        """Put records; return whether the snapshots could say what was deleted.

        Without a ``condition`` only rows of the note count: others may have been deleted by
        somebody else.
        """
        number, note = planned
        gone_by = deletions(table, self.branch, note.before)
        if gone_by is None:
            return False
        record = replace(note, erased_at=self._time(), offsets=(), hashes=frozenset(), below=())
        # The number of the note is taken last: until then it is open.
        for snapshot, below in gone_by:
            rows = self.rows_of(below, condition or "", snapshot.snapshot_id)
            if condition is None:
                rows &= note.rows
            if rows:
                reached = self._reached(table, below) or _below_of(note)
                gone = replace(record, after=(snapshot.snapshot_id,)).with_rows(rows, reached)
                self.records.add(gone)
        self.records.finish(record, number)
        return True

    def _reached(self, table: Table, snapshot_id: int | None) -> Mapping[TopicPartition, int]:
        """Return the offsets below which a snapshot has all changes; empty where nobody knows."""
        while snapshot_id is not None and (snapshot := table.snapshots.get(snapshot_id)):
            commit = snapshot.summary.get(SUMMARY_COMMIT)
            if commit is not None and snapshot.summary.get(SUMMARY_GROUP) == self.group:
                try:
                    return _below(self.history.read(table.uuid, commit).vector)
                except (NotFound, CorruptFile):
                    return {}
            snapshot_id = snapshot.parent_id
        return {}

    def _time(self) -> str:
        # Rounded up: a snapshot that is younger came later.
        return iso_time(math.ceil(self.now()))


def _below(vector: Vector) -> Mapping[TopicPartition, int]:
    return {key: offset for _, key, offset in vector.offsets()}


def _below_of(note: ErasedRows) -> Mapping[TopicPartition, int]:
    return {TopicPartition(topic, number): end for topic, number, end in note.below}
