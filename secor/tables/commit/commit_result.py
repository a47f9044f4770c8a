"""The request to commit one table, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from secor.core.errors import SecorError
from secor.core.model import TopicPartition
from secor.tables.catalog import Snapshot
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.refused_files import RefusedFile
from secor.tables.commit.selection import StagedSelection
from secor.tables.staging.manifest import TableFiles


class Result(StrEnum):
    """Results of committing a table."""

    COMMITTED = "committed"
    NOTHING = "nothing"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The common part of the commits of all tables of a cycle.

    ``id`` begins the ids of its commits.  ``advance`` returns the new valid-through timestamp
    for the old one (milliseconds); a partial commit leaves it.
    """

    id: str
    epoch: int
    advance: Callable[[int | None], int | None] = lambda previous: previous


@dataclass(frozen=True, slots=True)
class TableResult:
    """The result for one table in one cycle.

    ``done`` are the keys of manifests that the table needs no more; ``stopped`` says why topic
    partitions go no further; ``conflicts`` and ``unknown`` count attempts that were refused or
    got no answer; ``unordered`` keys were changed in several topic partitions;
    ``unknown_values`` were left out by updates of rows that the table did not have; ``repeated``
    commits, which another committer had taken back, are this one; ``refused`` are files that wait
    because the catalog refuses them; ``seconds`` is how long all of it took.
    """

    table: str
    result: Result
    commit: str | None = None
    snapshot: int | None = None
    files: int = 0
    records: int = 0
    valid_through: int | None = None
    done: frozenset[str] = frozenset()
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)
    error: SecorError | None = None
    conflicts: int = 0
    unknown: int = 0
    unordered: int = 0
    unknown_values: int = 0
    repeated: int = 0
    refused: tuple[RefusedFile, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed commit: append ``files``, write ``record`` (without its commit)."""

    files: tuple[TableFiles, ...]
    manifests: tuple[str, ...]
    record: GroupRecord


@dataclass(frozen=True, slots=True)
class Done:
    """A commit that is in the table."""

    id: str
    snapshot: Snapshot
    proposal: Proposal
    unordered: int = 0
    unknown_values: int = 0


@dataclass
class Attempts:
    """The attempts of one commit: the ids that were sent, and their answers.

    ``refused`` has the reasons of files that cannot be in it, by path.  ``tries_again`` while it
    has some that were refused in an earlier commit.
    """

    sent: dict[str, Proposal] = field(default_factory=dict)
    conflicts: int = 0
    unknown: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    tries_again: bool = False


def table_result(
    identifier: str, done: Done | None, selection: StagedSelection | None
) -> TableResult:
    """Return the result of a commit; ``done`` is None where there was nothing to do."""
    finished = selection.done if selection is not None else frozenset()
    stopped = selection.stopped if selection is not None else {}
    if done is None:
        return TableResult(identifier, Result.NOTHING, done=finished, stopped=stopped)
    files = [file for files in done.proposal.files for file in files.files]
    return TableResult(
        identifier,
        Result.COMMITTED,
        commit=done.id,
        snapshot=done.snapshot.snapshot_id,
        files=len(files),
        records=sum(file.records for file in files),
        valid_through=done.proposal.record.valid_through,
        done=finished,
        stopped=stopped,
        unordered=done.unordered,
        unknown_values=done.unknown_values,
    )
