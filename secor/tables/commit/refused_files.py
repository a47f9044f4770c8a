"""Staged files that a table's catalog refuses: noted in the table, so that the others go on.

The note is written in the same commit that passes over the file: each file at or below the vector
is either in the table or noted.  Only the steps of ``TRANSITIONS`` change a note, and each of them
is a commit that requires the snapshot at which the note was read.

    refused      the next cycles try it again, and take it once nothing is wrong with it
    leaving      a person sets it aside: nobody takes it any more, its messages go to quarantine
    quarantined  its messages are in quarantine; the note stays as long as its manifest
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from secor.core.errors import TableStopped
from secor.core.text import how_many, iso_time, load_json
from secor.tables.staging.manifest import TableFiles

MOST_REFUSED = 100
"""Files of one table that may wait: where more are refused, something else is wrong."""

MOST_REASONS = 5
"""Reasons of one table that a report spells out."""

LONGEST_REASON = 300
"""Characters: notes are in the table's properties."""

SET_ASIDE = "secor tables set-aside"
"""The command that every report of a refused file names."""


class FileState(StrEnum):
    """The states of a note; ``TRANSITIONS`` lists every step."""

    REFUSED = "refused"
    LEAVING = "leaving"
    QUARANTINED = "quarantined"


TRANSITIONS: Mapping[FileState | None, frozenset[FileState | None]] = {
    None: frozenset({FileState.REFUSED, FileState.LEAVING}),
    FileState.REFUSED: frozenset({FileState.LEAVING, None}),
    FileState.LEAVING: frozenset({FileState.QUARANTINED}),
    FileState.QUARANTINED: frozenset({None}),
}
"""None is a file without a note: staged and above the vector, or in the table."""


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """The note about one file; ``manifest`` is a key, ``since`` milliseconds."""

    manifest: str
    path: str
    reason: str
    since: int
    state: FileState = FileState.REFUSED

    @property
    def waits(self) -> bool:
        """The table still needs the manifest: the file's messages are nowhere else."""
        return self.state is not FileState.QUARANTINED

    def become(self, state: FileState) -> RefusedFile:
        """Go to ``state``; a transition that ``TRANSITIONS`` does not have is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a refused file does not go from {self.state} to {state}")
        return replace(self, state=state)

    def data(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "manifest": self.manifest,
            "path": self.path,
            "reason": self.reason,
            "since": self.since,
            "state": str(self.state),
        }


def parse_refused_files(text: str) -> tuple[RefusedFile, ...]:
    """Read notes back from JSON.  Raises ``ValueError``, ``TypeError``, ``LookupError``."""
    return tuple(
        RefusedFile(
            str(data["manifest"]),
            str(data["path"]),
            str(data["reason"]),
            int(data["since"]),
            FileState(data["state"]),
        )
        for data in load_json(text)
    )


def waiting_manifests(notes: Iterable[RefusedFile]) -> frozenset[str]:
    """Return the keys of manifests that a table still needs for a file that was refused."""
    return frozenset(note.manifest for note in notes if note.waits)


def without_noted(
    of_table: Iterable[TableFiles], notes: Iterable[RefusedFile]
) -> tuple[TableFiles, ...]:
    """Return the files that no note names."""
    return without_paths(of_table, {note.path for note in notes})


def only_refused(
    of_table: Iterable[TableFiles], notes: Iterable[RefusedFile]
) -> tuple[TableFiles, ...]:
    """Return the files that may be tried again."""
    refused = {note.path for note in notes if note.state is FileState.REFUSED}
    kept = (
        replace(files, files=tuple(file for file in files.files if file.path in refused))
        for files in of_table
    )
    return tuple(files for files in kept if files.files)


def without_paths(of_table: Iterable[TableFiles], paths: Collection[str]) -> tuple[TableFiles, ...]:
    """Return the files with other paths."""
    if not paths:
        return tuple(of_table)
    kept = (
        replace(files, files=tuple(file for file in files.files if file.path not in paths))
        for files in of_table
    )
    return tuple(files for files in kept if files.files)


def note_refused(
    table: str,
    notes: Sequence[RefusedFile],
    refused: Mapping[str, str],
    manifests: Mapping[str, str],
    now: int,
) -> tuple[RefusedFile, ...]:
    """Return the notes with those of files that are ``refused`` now: reasons by path.

    ``manifests`` has the keys of manifests by path, ``now`` is in milliseconds.  Raises
    ``TableStopped`` where more wait than ``MOST_REFUSED``.
    """
    # The first reason stays, with its time: an alert counts from there, though the library may word
    # it anew in each cycle.
    known = {note.path for note in notes}
    added = [
        RefusedFile(manifests[path], path, shorten(why), now)
        for path, why in refused.items()
        if path not in known and path in manifests
    ]
    waiting = [note for note in (*notes, *added) if note.waits]
    # Only when new ones came: a table with this many must still be able to take some back.
    if added and len(waiting) > MOST_REFUSED:
        raise TableStopped(
            f"{table}: {how_many(len(waiting), 'file')} cannot be committed, more than the"
            f" {MOST_REFUSED} that may wait, so all of its files do. The last one,"
            f" {waiting[-1].path}: {waiting[-1].reason}",
            "files_refused",
        )
    return (*notes, *added)


def shorten(reason: str) -> str:
    """Return a reason that fits into a note."""
    return reason if len(reason) <= LONGEST_REASON else reason[: LONGEST_REASON - 1] + "…"


def describe(table: str, notes: Iterable[RefusedFile]) -> list[str]:
    """Return sentences about files that wait: what is wrong, and what a person can do.

    Files with one reason are one sentence.  Empty where no file waits.
    """
    by_reason: dict[str, list[RefusedFile]] = {}
    interrupted: list[RefusedFile] = []
    # The oldest first: it is mostly the cause, and what is cut off is what came after it.
    for note in sorted(notes, key=lambda note: note.since):
        if note.state is FileState.LEAVING:
            interrupted.append(note)
        elif note.state is FileState.REFUSED:
            by_reason.setdefault(note.reason, []).append(note)
    sentences = [_refusal(reason, same) for reason, same in by_reason.items()]
    if len(sentences) > MOST_REASONS:
        rest = how_many(len(sentences) - MOST_REASONS, "more reason")
        sentences = [*sentences[:MOST_REASONS], f"{rest}: see 'secor tables status --json'"]
    if sentences:
        sentences.append(
            "each cycle tries again what is refused;"
            f" '{SET_ASIDE} CONFIG {table}' puts its messages into quarantine"
        )
    sentences += [
        f"{note.path} is being set aside since {iso_time(note.since / 1000)}, and that has not"
        f" ended: repeat '{SET_ASIDE} CONFIG {table} {note.path}'"
        for note in interrupted
    ]
    return sentences


def _refusal(reason: str, notes: Sequence[RefusedFile]) -> str:
    first = notes[0]
    since = f"since {iso_time(first.since / 1000)}: {reason}"
    if len(notes) == 1:
        return f"{first.path} cannot be committed {since}"
    return f"{len(notes)} files cannot be committed {since} (the first is {first.path})"


def still_noted(
    notes: Iterable[RefusedFile], staged: Collection[str], has_passed: Callable[[str], bool]
) -> tuple[RefusedFile, ...]:
    """Return the notes without those that nobody needs any more.

    ``staged`` are keys of manifests, ``has_passed`` says of a key whether the table can never
    take its files again: a listing alone does not say that, because manifests of a topic partition
    without a ledger entry are not in it.
    """
    return tuple(
        note
        for note in notes
        if note.waits or note.manifest in staged or not has_passed(note.manifest)
    )
