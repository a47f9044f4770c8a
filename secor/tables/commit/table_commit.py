"""The commit of one table: load, check, select, and one attempt at a time.

Nothing here assumes that it is alone.  Each attempt requires the snapshot at which it read the
vector.  After an attempt that was refused or got no answer, the table is loaded again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from secor.core.errors import (
    FilesRefused,
    NotFound,
    SecorError,
    TableStopped,
    Unavailable,
    UnsupportedTable,
)
from secor.core.ports import Clock
from secor.core.retry import CAP, delay
from secor.tables.catalog import (
    MAIN,
    NEWEST_FORMAT,
    Catalog,
    Outcome,
    Table,
    TableCommit,
    require_format,
)
from secor.tables.commit.commit_history import CommitHistory, CommitObject
from secor.tables.commit.commit_result import (
    Attempts,
    CommitRequest,
    Done,
    Proposal,
    Result,
    TableResult,
    table_result,
)
from secor.tables.commit.group_record import (
    SUMMARY_COMMIT,
    GroupRecord,
    LastCommit,
    Lineage,
    ancestors,
    find_commit,
    lineage,
    newest_commit,
)
from secor.tables.commit.recommit import files_of, is_undone_by_accident, lost_commits
from secor.tables.commit.refused_files import RefusedFile, note_refused, still_noted, without_paths
from secor.tables.commit.selection import ACCEPT, APPENDS, StagedSelection, select
from secor.tables.commit.vector import Vector
from secor.tables.staging.manifest import Operation, parse_staged_key
from secor.tables.staging.staged_manifests import Staged, manifests_of_files

ATTEMPTS = 10
"""Attempts of one commit before the table has to wait for the next cycle."""

GONE = "gone"
"""Why a table is stopped that the catalog does not have."""


class TableCommitter:
    """Commits to tables of one group; may be called from several threads, one for each table."""

    def __init__(
        self,
        catalog: Catalog,
        history: CommitHistory,
        clock: Clock,
        rng: random.Random,
        *,
        group: str,
        branch: str = MAIN,
        attempts: int = ATTEMPTS,
        operations: frozenset[Operation] = APPENDS,
        newest_format: int = NEWEST_FORMAT,
    ) -> None:
        """``operations`` are those that the catalog can commit, to tables of versions up to
        ``newest_format``.
        """
        self._catalog = catalog
        self._history = history
        self._clock = clock
        self._rng = rng
        self._group = group
        self._branch = branch
        self._attempts = attempts
        self.operations = operations
        self._newest_format = newest_format

    def look(self, identifier: str, *, settles: bool = False) -> tuple[Table, GroupRecord]:
        """Load a table and what it says of the group.

        Raises ``TableStopped`` where nothing may be committed; one that was rolled back is
        returned if the caller ``settles`` that.
        """
        try:
            table = self._catalog.load_table(identifier)
            require_format(table, self._newest_format)
        except NotFound as error:
            raise TableStopped(
                f"{identifier}: the catalog has no such table: it was dropped or renamed; what is"
                " staged for it is kept. Rename it back; or create it anew, as the next message"
                f" does with auto_create, then use '{ACCEPT}'",
                GONE,
            ) from error
        except UnsupportedTable as error:
            raise TableStopped(str(error), "format_version") from error
        record = GroupRecord.of(table, self._group)
        if not settles:
            self._require_not_rolled_back(table, record)
        return table, record

    def why_no_commit(self, table: Table) -> str:
        """Return what is wrong with a table so that no file can be committed, "" if all is right.

        Raises ``Unavailable``, ``AccessDenied``.
        """
        return self._catalog.why_no_commit(table, self._branch)

    def _require_not_rolled_back(self, table: Table, record: GroupRecord) -> None:
        if lineage(table, self._branch, record) is Lineage.ROLLED_BACK:
            assert record.commit is not None
            raise TableStopped(
                f"{table.identifier}: was rolled back: its branch {self._branch} no longer holds"
                f" the commit {record.commit.id}; 'secor tables accept' goes on without the rows"
                " that were removed, 'secor tables replay' commits them again",
                "rolled_back",
            )

    def commit(
        self, identifier: str, staged: Sequence[Staged], request: CommitRequest
    ) -> TableResult:
        """Commit what ``staged`` has for a table; an error of it is in the result.

        What committers of ours have undone by accident comes first, in a cycle of its own.
        """
        began = self._clock.monotonic()
        attempts = Attempts()
        selections: list[StagedSelection] = []
        notes: tuple[RefusedFile, ...] = ()
        lost: list[CommitObject] = []

        def propose(table: Table, record: GroupRecord) -> Proposal | None:
            nonlocal notes
            # Called once an attempt: what an earlier one had chosen was not committed.
            selections.clear()
            lost.clear()
            notes = record.refused
            # Before the check for a rollback, which would stop the table for what our own
            # committers have done to each other.
            if is_undone_by_accident(table, self._branch, record):
                lost.extend(lost_commits(table, self._branch, record, self._history))
                return Proposal(*files_of(lost), record)
            self._require_not_rolled_back(table, record)
            is_finished = self._history.replays.has
            # The table was loaded before this: ``is_finished`` has to look after the record was
            # read, because tables forget replays once they are finished.
            chosen = select(identifier, table.uuid, record, staged, self.operations, is_finished)
            selections.append(chosen)
            proposal = self._proposal(table, record, chosen, staged, attempts)
            if proposal is None:
                return None
            notes = proposal.record.refused
            valid_through = record.valid_through
            # A partition that is stopped, or a file that waits, has rows that readers do not see:
            # the table must not claim to be complete up to a time.
            if not chosen.stopped and not any(note.waits for note in notes):
                valid_through = request.advance(valid_through)
            return replace(proposal, record=replace(proposal.record, valid_through=valid_through))

        try:
            done = self.attempt(identifier, request, propose, attempts, settles=True)
            result = table_result(identifier, done, selections[-1] if selections else None)
        except SecorError as error:
            kind = Result.STOPPED if isinstance(error, TableStopped) else Result.FAILED
            result = TableResult(identifier, kind, error=error)
        return replace(
            result,
            conflicts=attempts.conflicts,
            unknown=attempts.unknown,
            repeated=len(lost) if result.result is Result.COMMITTED else 0,
            refused=tuple(note for note in notes if note.waits),
            seconds=self._clock.monotonic() - began,
        )

    def _proposal(
        self,
        table: Table,
        record: GroupRecord,
        chosen: StagedSelection,
        staged: Sequence[Staged],
        attempts: Attempts,
    ) -> Proposal | None:
        """Return what to commit of a selection; None where there is nothing.

        Files that were refused before are tried again with the first attempt alone: what is wrong
        with them must not hold up the others.
        """
        files, keys, notes = chosen.files, dict.fromkeys(chosen.manifests), record.refused
        if chosen.refused and not attempts.sent:
            still = self._catalog.refused_files(table, chosen.refused)
            again = without_paths(chosen.refused, still)
            taken = {file.path for of_table in again for file in of_table.files}
            attempts.tries_again = bool(taken)
            files = (*files, *again)
            keys |= dict.fromkeys(note.manifest for note in notes if note.path in taken)
            notes = tuple(note for note in notes if note.path not in taken)
        if not keys:
            return None
        after = replace(record, vector=chosen.vector, replays=chosen.replays, refused=notes)
        return self.leave_out_refused(
            table.identifier, Proposal(files, tuple(keys), after), staged, attempts
        )

    def leave_out_refused(
        self, identifier: str, proposal: Proposal, staged: Sequence[Staged], attempts: Attempts
    ) -> Proposal:
        """Return a proposal that notes the files which the catalog refuses instead of taking them.

        It also forgets the notes that nobody needs any more.
        """
        record = proposal.record
        notes = record.refused
        if attempts.refused:
            now, manifests = int(self._clock.now() * 1000), manifests_of_files(staged)
            notes = note_refused(identifier, notes, attempts.refused, manifests, now)
        if notes:
            keys = {item.listed.key for item in staged}
            has_passed = partial(self._has_passed, record.vector)
            notes = still_noted(notes, keys, has_passed)
        files = without_paths(proposal.files, {note.path for note in notes})
        return replace(proposal, files=files, record=replace(record, refused=notes))

    def _has_passed(self, vector: Vector, key: str) -> bool:
        """Return whether a table with this vector never takes the files of a manifest again."""
        topic_partition, offsets, replay = parse_staged_key(key)
        if replay:
            return self._history.replays.has(key)
        clusters = vector.clusters_of(topic_partition.topic)
        reached = [vector.next_offset(cluster, topic_partition) or 0 for cluster in clusters]
        return bool(reached) and offsets.end <= min(reached)

    def has_finished(self, key: str) -> bool:
        """Return whether all tables have a replay."""
        return self._history.replays.has(key)

    def finish_replay(self, item: Staged) -> None:
        """Note that all tables have a replay: before its manifest is deleted."""
        self._history.replays.add(item)

    def attempt(
        self,
        identifier: str,
        request: CommitRequest,
        propose: Callable[[Table, GroupRecord], Proposal | None],
        attempts: Attempts,
        *,
        settles: bool = False,
    ) -> Done | None:
        """Try until a commit is done, or ``propose`` finds nothing to do.

        Raises ``TableStopped``, ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
        """
        answer, seconds = "", 0.0
        for number in range(self._attempts):
            if number:
                self._clock.sleep(self._pause(number, seconds))
            began = self._clock.monotonic()
            # Loaded again for each attempt: another committer may have moved the branch, or an
            # attempt of ours without an answer may be there.
            table, record = self.look(identifier, settles=settles)
            # Before anything new is proposed: an attempt whose answer was lost may be in the table,
            # and its files must not be added a second time.
            done = self._accept_or_replay(table, record, attempts)
            if done is not None:
                return done
            proposal = propose(table, record)
            if proposal is None:
                return None
            # An id for each attempt: one without an answer may still be done, and must be
            # recognised then.
            commit_id = f"{request.id}-{number}"
            result = self._send(table, record, proposal, commit_id, request.epoch, attempts)
            if isinstance(result, Done):
                return result
            answer, seconds = result, self._clock.monotonic() - began
        raise Unavailable(
            f"{identifier}: {self._attempts} attempts of one commit came to nothing, the last"
            f" with: {answer}; the next cycle tries again"
        )

    def _pause(self, number: int, seconds: float) -> float:
        """Return how long to wait after an attempt that took ``seconds``.

        Two committers may undo each other's attempts, as Hudi's do: the other ends meanwhile.
        """
        return max(delay(number, rng=self._rng), min(CAP, seconds * (1 + self._rng.random())))

    def _accept_or_replay(
        self, table: Table, record: GroupRecord, attempts: Attempts
    ) -> Done | None:
        """Look for an attempt that was done although its answer was lost.

        A snapshot that was only staged has the commit's id as well, but is on no branch.
        """
        # Expiry may have removed the snapshot of our last commit; then the table's property is the
        # only trace.
        last = record.commit.id if record.commit is not None else None
        published = {
            ancestor.summary.get(SUMMARY_COMMIT): ancestor
            for ancestor in ancestors(table, self._branch)
        }
        for commit_id, proposal in attempts.sent.items():
            snapshot = published.get(commit_id)
            if snapshot is None and commit_id == last:
                snapshot = find_commit(table, commit_id)
            if snapshot is not None:
                return Done(commit_id, snapshot, proposal)
        return None

    def _send(
        self,
        table: Table,
        record: GroupRecord,
        proposal: Proposal,
        commit_id: str,
        epoch: int,
        attempts: Attempts,
    ) -> Done | str:
        """Make one attempt; return the answer of one that is not known to be done."""
        head = table.head(self._branch)
        time = int(self._clock.now() * 1000)
        previous, in_part = record.commit.id if record.commit is not None else None, False
        if lineage(table, self._branch, record) is Lineage.ROLLED_BACK:
            previous, in_part = newest_commit(table, self._branch, self._group)
        after = head.sequence_number or 0 if head is not None else 0
        last = LastCommit(commit_id, after, epoch, time, previous)
        written = replace(proposal.record, commit=last)
        # Before the commit: one that is in the table always has its object.
        self._history.put(
            CommitObject(
                id=commit_id,
                group=self._group,
                table=table.identifier,
                uuid=table.uuid,
                previous=previous,
                time=time,
                vector=written.vector,
                manifests=proposal.manifests,
                files=proposal.files,
                previous_in_part=in_part,
            )
        )
        # Noted before it is sent: also an attempt that raises may have been done.
        attempts.sent[commit_id] = proposal
        commit = TableCommit(
            # The snapshot at which the vector was read. The catalog refuses the commit if the
            # branch has moved since, and that is all that keeps two coordinators apart.
            base=head.snapshot_id if head is not None else None,
            files=proposal.files,
            properties=written.properties(self._group),
            summary=written.summary(self._group),
            branch=self._branch,
        )
        try:
            result = self._catalog.commit(table, commit)
        # Nothing was committed. Find out which files it was, note them, and try again without them.
        except FilesRefused as error:
            refused = self._catalog.refused_files(table, proposal.files)
            if not attempts.tries_again and not refused.keys() - attempts.refused.keys():
                raise
            attempts.tries_again = False
            attempts.refused.update(refused)
            return str(error)
        match result.outcome:
            case Outcome.DONE:
                assert result.table is not None
                snapshot = result.table.head(self._branch)
                assert snapshot is not None
                return Done(commit_id, snapshot, proposal, result.unordered, result.unknown_values)
            case Outcome.REFUSED:
                attempts.conflicts += 1
            case Outcome.UNKNOWN:
                attempts.unknown += 1
        return result.why
