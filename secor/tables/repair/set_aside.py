"""Sets a staged file aside: its messages go into quarantine, and its table goes on without it.

For one file, in this order:

1. Read its messages from the log into a local file: where some are gone, nothing is changed.
2. Note in the table that the file is *leaving*: from here on no cycle takes it.
3. Put the object in quarantine.  Its name says the file, so the command repeated puts the
   same object; a replay of it has one manifest for ever.
4. Note in the table that the file is *quarantined*: its manifest is no longer needed for it.

The notes are commits that require the snapshot at which the note before was read, see
``refused_files``.  So a cycle that takes the file and a command that sets it aside exclude each
other.  After a crash anywhere the same command continues where it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from secor.archive.quarantine.listing import OF_TABLE
from secor.batch.sealed import BatchFile
from secor.core.errors import AlreadyExists, ConfigurationError
from secor.core.ports import Clock, ObjectStore
from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.tables.commit.commit_result import Attempts, CommitRequest, Proposal
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.refused_files import FileState, RefusedFile, shorten
from secor.tables.commit.selection import is_below
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.staging.file_messages import FileMessages, StagedFile
from secor.tables.staging.staged_manifests import Staged

BY_A_PERSON = "set aside by a person"
SET_ASIDE_BEFORE = "it was set aside before"


@dataclass(frozen=True, slots=True)
class SetAsideResult:
    """The outcome for one file; ``key`` is the object in quarantine, None where it has none.

    ``missing`` messages were in the log no more.
    """

    file: StagedFile
    messages: int
    missing: int
    key: str | None
    reason: str
    done: bool

    @property
    def line(self) -> str:
        """One line about it."""
        if self.reason == SET_ASIDE_BEFORE:
            return f"{self.file}: {SET_ASIDE_BEFORE}"
        where = "in quarantine" if self.done else "would go to quarantine"
        place = f"{how_many(self.messages, 'message')} {where}"
        place += f", {self.key}" if self.key else ""
        missing = how_many(self.missing, "message")
        gone = f"; {missing} left out, which the log no longer has" if self.missing else ""
        return f"{self.file}: {place}{gone}"

    def as_json(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "file": self.file.file.path,
            "manifest": self.file.item.listed.key,
            "topic": self.file.topic_partition.topic,
            "partition": self.file.topic_partition.partition,
            "first_offset": self.file.file.first_offset,
            "last_offset": self.file.file.last_offset,
            "messages": self.messages,
            "missing": self.missing,
            "quarantine": self.key,
            "reason": self.reason,
            "done": self.done,
        }


def find_staged_file(table: str, name: str, staged: Sequence[Staged]) -> StagedFile:
    """Return the file of a table by its path or the end of its path.

    Raises ``ConfigurationError`` where no file or more than one is meant.
    """
    matching = [
        StagedFile(item, item.manifest, of_table, file)
        for item in staged
        if item.manifest is not None
        for of_table in item.manifest.tables
        if of_table.table == table
        for file in of_table.files
        if file.path == name or file.path.endswith(f"/{name}")
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ConfigurationError(f"{name}: {len(matching)} staged files are called so: write more")
    raise ConfigurationError(
        f"{name}: no manifest names such a file for {table}; 'secor tables status' shows the files"
        " that are refused"
    )


class FileDecisions:
    """The notes of tables about files that a person sets aside: a commit for each step."""

    def __init__(self, committer: TableCommitter, clock: Clock) -> None:
        self._committer = committer
        self._clock = clock

    def look(self, file: StagedFile) -> RefusedFile | None:
        """Return the table's note about a file, None where it has none and lacks the file.

        Raises ``ConfigurationError`` for a file that the table has, or that is not for it.
        """
        return self._note(*self._committer.look(file.of_table.table), file)

    def become(
        self,
        file: StagedFile,
        state: FileState,
        reason: str,
        request: CommitRequest,
    ) -> None:
        """Note the file's next state in the table, unless it is there already."""

        def propose(table: Table, record: GroupRecord) -> Proposal | None:
            note = self._note(table, record, file)
            if note is None:
                now = int(self._clock.now() * 1000)
                changed = RefusedFile(
                    file.item.listed.key, file.file.path, shorten(reason), now, FileState.LEAVING
                )
            # A repeated command after a crash: the step is done.
            elif note.state in (state, FileState.QUARANTINED):
                return None
            else:
                changed = replace(note.become(state), reason=shorten(reason))
            others = tuple(note for note in record.refused if note.path != changed.path)
            return Proposal((), (), replace(record, refused=(*others, changed)))

        request = replace(request, id=f"{request.id}-{state}-{file.digest}")
        self._committer.attempt(file.of_table.table, request, propose, Attempts())

    def _note(self, table: Table, record: GroupRecord, file: StagedFile) -> RefusedFile | None:
        """Return the table's note about a file.

        Raises ``ConfigurationError`` for a file that the table has, or that is not for it.
        """
        if file.of_table.uuid != table.uuid:
            raise ConfigurationError(
                f"{file.file.path}: was staged for an earlier table of this name: 'secor tables"
                " accept' gives it up"
            )
        for note in record.refused:
            if note.path == file.file.path:
                return note
        key = file.item.listed.key
        is_replay = file.item.listed.replay != ""
        has_it = key in record.replays if is_replay else is_below(record.vector, file.manifest)
        if has_it or (is_replay and self._committer.has_finished(key)):
            raise ConfigurationError(f"{file.file.path}: its rows are in {table.identifier}")
        return None


class SetAside:
    """Sets files aside for a person's command; for one thread."""

    def __init__(
        self, decisions: FileDecisions, messages: FileMessages, objects: ObjectStore
    ) -> None:
        self._decisions = decisions
        self._messages = messages
        self._objects = objects

    def set_aside(
        self,
        file: StagedFile,
        request: CommitRequest,
        *,
        reason: str = "",
        dry_run: bool = False,
        without_missing: bool = False,
    ) -> SetAsideResult:
        """Set one file aside; ``reason`` is the person's, else that of the refusal counts.

        Messages that the log no longer has are left out ``without_missing``; else they stop it.
        Raises ``ConfigurationError``, ``Unavailable``: repeating it is always right.
        """
        table = file.of_table.table
        note = self._decisions.look(file)
        reason = reason or (note.reason if note is not None else BY_A_PERSON)
        if note is not None and note.state is FileState.QUARANTINED:
            return SetAsideResult(file, 0, 0, None, SET_ASIDE_BEFORE, done=True)
        with self._messages.quarantined(file, reason) as quarantined:
            count = quarantined.info.records if quarantined is not None else 0
            missing = file.file.records - count
            if missing and not without_missing:
                raise ConfigurationError(
                    f"{file}: the log no longer has {how_many(missing, 'message')} of it, so"
                    " nothing is changed. Its rows are in the file: copy it, then repeat the"
                    " command with --without-missing"
                )
            key = quarantined.key if quarantined is not None else None
            if not dry_run:
                # Before the messages go to quarantine: from this commit on no cycle takes the file,
                # so its rows cannot end up in both.
                self._decisions.become(file, FileState.LEAVING, reason, request)
                if quarantined is not None:
                    self._put(quarantined, table)
                # After the put: until then the note makes the manifest stay, which is the only
                # thing that names the file.
                self._decisions.become(file, FileState.QUARANTINED, reason, request)
        return SetAsideResult(file, count, missing, key, reason, done=not dry_run)

    def _put(self, quarantined: BatchFile, table: str) -> None:
        metadata = {**quarantined.info.metadata(), OF_TABLE: quote(table)}
        local = quarantined.local
        with suppress(AlreadyExists):  # its name says the file: an earlier try of ours
            self._objects.put(quarantined.key, local.content(), local.crc32c, metadata)
