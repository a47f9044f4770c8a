"""A table's record of one group: the vector, and the commit that wrote it.

The record is in the table's properties ``secor.<group>.…``, which change only together with a
new snapshot on the group's branch.  A commit requires the snapshot at which it read the record,
so it cannot overwrite a newer vector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from secor.core.errors import CorruptFile
from secor.core.text import load_json
from secor.tables.catalog import Snapshot, Table
from secor.tables.commit.refused_files import RefusedFile, parse_refused_files
from secor.tables.commit.vector import Vector

SUMMARY_GROUP = "secor.group"
SUMMARY_COMMIT = "secor.commit"
SUMMARY_PART = "secor.part-of-commit"
"""For a snapshot below the one of its commit: it has the changes of rows, that one the appends."""
SUMMARY_EPOCH = "secor.epoch"
SUMMARY_VALID_THROUGH = "secor.valid-through"
UNDONE = "secor.undone"
"""A property of a table as it was loaded: a committer of ours has undone, by accident, all that
its branch has lost.  So no person needs to decide whether it is committed again.
"""
SUMMARY_NAMES = (
    *(SUMMARY_GROUP, SUMMARY_COMMIT, SUMMARY_PART, SUMMARY_EPOCH, SUMMARY_VALID_THROUGH),
)
"""All that summaries of ours have."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The group's last commit to a table.

    ``after`` is the sequence number of the snapshot below it (0 for none), ``time`` wall clock
    milliseconds; ``previous`` is the commit before it on the same branch: one that was rolled
    back is nobody's predecessor.
    """

    id: str
    after: int
    epoch: int
    time: int
    previous: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The properties of one group.

    ``valid_through`` (milliseconds): the table has every message up to this timestamp.
    ``replaced_topics`` are ids of topics that were recreated since: what is staged of them is not
    needed any more.  ``replays`` are the keys of manifests of replays that the table has and that
    may still be staged.  ``refused`` are files that it passed over, see ``refused_files``.
    """

    vector: Vector = field(default_factory=Vector)
    commit: LastCommit | None = None
    valid_through: int | None = None
    replaced_topics: tuple[str, ...] = ()
    replays: tuple[str, ...] = ()
    refused: tuple[RefusedFile, ...] = ()

    def properties(self, group: str) -> dict[str, str]:
        """Return them as table properties."""
        texts = {"vector": self.vector.dump()}
        if self.commit is not None:
            texts["commit"] = json.dumps(_commit_data(self.commit), separators=(",", ":"))
        if self.valid_through is not None:
            texts["valid-through"] = str(self.valid_through)
        if self.replaced_topics:
            texts["replaced"] = json.dumps(self.replaced_topics, separators=(",", ":"))
        # Always written: a property that a commit leaves out keeps its value.
        texts["replays"] = json.dumps(self.replays, separators=(",", ":"))
        refused = [note.data() for note in self.refused]
        texts["refused"] = json.dumps(refused, separators=(",", ":"))
        return {property_name(group, name): text for name, text in texts.items()}

    def summary(self, group: str) -> dict[str, str]:
        """Return what the snapshot of the last commit says of it."""
        assert self.commit is not None
        lines = {
            SUMMARY_GROUP: group,
            SUMMARY_COMMIT: self.commit.id,
            SUMMARY_EPOCH: str(self.commit.epoch),
        }
        if self.valid_through is not None:
            lines[SUMMARY_VALID_THROUGH] = str(self.valid_through)
        return lines

    @classmethod
    def of(cls, table: Table, group: str) -> Self:
        """Read it from a table.  Raises ``CorruptFile`` naming the property."""
        where = f"{table.identifier}: property {property_name(group, '')}"

        def text(name: str) -> str | None:
            return table.properties.get(property_name(group, name))

        vector, commit = text("vector"), text("commit")
        valid_through, replaced = text("valid-through"), text("replaced")
        replays, refused = text("replays"), text("refused")
        try:
            return cls(
                vector=Vector.parse(vector, where + "vector") if vector else Vector(),
                commit=_commit(load_json(commit)) if commit else None,
                valid_through=int(valid_through) if valid_through else None,
                replaced_topics=tuple(map(str, load_json(replaced))) if replaced else (),
                replays=tuple(map(str, load_json(replays))) if replays else (),
                refused=parse_refused_files(refused) if refused else (),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFile(f"{where}…: not as Secor writes it ({error})") from error


class Lineage(StrEnum):
    """The relation of a branch to the group's last commit."""

    NO_COMMIT = "no_commit"
    PRESENT = "present"
    EXPIRED = "expired"
    """Its snapshot was removed by expiry; its files are still the table's."""
    ROLLED_BACK = "rolled_back"


def property_name(group: str, name: str) -> str:
    """Return the name of a table property of a group."""
    return f"secor.{group}.{name}"


def groups_of(table: Table) -> frozenset[str]:
    """Return the groups that have committed to a table."""
    names = [re.fullmatch(r"secor\.(.+)\.vector", name) for name in table.properties]
    return frozenset(name[1] for name in names if name is not None)


def lineage(table: Table, branch: str, record: GroupRecord) -> Lineage:
    """Return whether ``branch`` still holds the group's last commit.

    Sequence numbers fall from the head to its ancestors (format v1 has none).  One that is not
    above the commit's base, reached without meeting the commit, proves that the branch went
    another way.
    """
    commit = record.commit
    if commit is None:
        return Lineage.NO_COMMIT
    for snapshot in ancestors(table, branch):
        if snapshot.summary.get(SUMMARY_COMMIT) == commit.id:
            return Lineage.PRESENT
        if table.format_version > 1 and (snapshot.sequence_number or 0) <= commit.after:
            return Lineage.ROLLED_BACK
    if table.head(branch) is None or find_commit(table, commit.id) is not None:
        return Lineage.ROLLED_BACK  # it was made, and the branch does not descend from it
    # No trace of it and nothing against it: expiry removes old snapshots, and leaves their files.
    return Lineage.EXPIRED


def newest_commit(table: Table, branch: str, group: str) -> tuple[str | None, bool]:
    """Return the id of the newest commit of a group that a branch shows; None if it shows none.

    It is True also where the branch has only the lower snapshot of that commit.
    """
    for snapshot in ancestors(table, branch):
        if snapshot.summary.get(SUMMARY_GROUP) == group:
            part = snapshot.summary.get(SUMMARY_PART)
            # The lower snapshot has no id of a commit: a reader that finds it first must not take
            # it for a whole one.
            return snapshot.summary.get(SUMMARY_COMMIT, part), part is not None
    return None, False


def ancestors(table: Table, branch: str) -> Iterator[Snapshot]:
    """Give the snapshots of a branch from its head back, as far as they have not expired."""
    snapshot = table.head(branch)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_id
        snapshot = None if parent is None else table.snapshots.get(parent)


def find_commit(table: Table, commit_id: str, name: str = SUMMARY_COMMIT) -> Snapshot | None:
    """Return the snapshot of a commit, on whatever branch; the lower one by ``SUMMARY_PART``."""
    for snapshot in table.snapshots.values():
        if snapshot.summary.get(name) == commit_id:
            return snapshot
    return None


def _commit_data(commit: LastCommit) -> dict[str, object]:
    return {
        "id": commit.id,
        "after": commit.after,
        "epoch": commit.epoch,
        "at": commit.time,
        "previous": commit.previous,
    }


def _commit(data: Mapping[str, object]) -> LastCommit:
    previous = data["previous"]
    after, epoch, time = (int(str(data[name])) for name in ("after", "epoch", "at"))
    before = None if previous is None else str(previous)
    return LastCommit(str(data["id"]), after, epoch, time, before)
