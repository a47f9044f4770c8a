"""Objects that no commit will ever need again: old commit objects, manifests, orphans.

A staged file is never among them.  An orphan is a file of a range that the table already has, and
neither a table nor a manifest refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from secor.archive.quarantine.parsing_again import REPLAYED
from secor.core.errors import CorruptFile, NotFound, SecorError
from secor.core.model import StoredObject
from secor.core.object_info import ObjectInfo
from secor.core.ports import ObjectStore
from secor.tables.catalog import Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_PART, GroupRecord, find_commit
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.selection import select
from secor.tables.commit.vector import Vector
from secor.tables.staging.staged_manifests import Staged


@dataclass(frozen=True, slots=True)
class ExpiredObject:
    """An object that may go; ``kind`` is ``commit``, ``manifest``, ``plan``, ``orphan`` or
    ``changes``.
    """

    kind: str
    key: str
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class ExpiryTable:
    """A table as the catalog shows it, and its record of the group."""

    table: Table
    record: GroupRecord


def expired_commits(
    history: CommitHistory, tables: Sequence[ExpiryTable], before: float
) -> Iterator[ExpiredObject]:
    """Give commit objects older than ``before`` (seconds) that no rollback can lead to.

    Those of a table's snapshots stay, so do those of tables that the catalog does not show.
    """
    by_uuid = {known.table.uuid: known for known in tables}
    for listed in history.list():
        known = by_uuid.get(listed.uuid)
        # Unknown tables keep theirs: the catalog may not show a table for want of a right.
        if known is None or listed.modified >= before:
            continue
        last = known.record.commit.id if known.record.commit is not None else None
        names = (SUMMARY_COMMIT, SUMMARY_PART)
        if listed.id != last and not any(
            find_commit(known.table, listed.id, name) for name in names
        ):
            why = f"{known.table.identifier} has no snapshot of this commit any more"
            yield ExpiredObject("commit", listed.key, listed.size, why)


def expired_manifests(
    staged: Sequence[Staged], tables: Sequence[ExpiryTable], before: float
) -> Iterator[ExpiredObject]:
    """Give manifests older than ``before`` that all of their tables have."""
    done: dict[str, frozenset[str]] = {}
    for known in tables:
        identifier = known.table.identifier
        try:
            done[identifier] = select(identifier, known.table.uuid, known.record, staged).done
        except SecorError:
            done[identifier] = frozenset()  # stopped: it needs all of them still
    for item in staged:
        if item.manifest is None or item.listed.modified >= before or item.listed.replay:
            continue  # the coordinator deletes those of replays, after it has noted their end
        needed = {files.table for files in item.manifest.tables if files.files}
        if all(item.listed.key in done.get(table, frozenset()) for table in needed):
            yield ExpiredObject(
                "manifest", item.listed.key, item.listed.size, "all of its tables have it"
            )


def expired_plans(
    notes: PlanNotes, in_use: Callable[[], Iterable[str]], before: float
) -> Iterator[ExpiredObject]:
    """Give notes of plans older than ``before``.

    ``in_use`` gives the fingerprints of open intents.  A process that still makes batches under
    an older plan costs its successor a wait, no more.
    """
    old = [(fingerprint, note) for fingerprint, note in notes.list() if note.modified < before]
    # Asked after the listing: an intent that is opened later names a plan that was noted later,
    # too.
    used = frozenset(in_use()) if old else frozenset()
    for fingerprint, stored in old:
        if fingerprint not in used:
            yield ExpiredObject(
                "plan", stored.key, stored.size, "no open batch is made under this plan"
            )


def orphans(
    store: ObjectStore,
    known: ExpiryTable,
    staged: Sequence[Staged],
    referenced: Callable[[], Iterable[str]],
    before: float,
) -> Iterator[ExpiredObject]:
    """Give data files of the group below a table that neither it nor a manifest names.

    ``referenced`` gives the paths in all of the table's snapshots.  Only files of a range that
    the table's vector has passed count: nothing that is committed later can name them.  Files
    of replays do not count: one that slept may still put the manifest that names them.
    """
    root = f"{known.table.location}/data/"
    for stored, info in _unnamed(store, root, known, staged, referenced, before):
        why = f"another try of {info.topic_partition} {info.batch} was committed"
        yield ExpiredObject("orphan", stored.key, stored.size, why)


def expired_changes(
    store: ObjectStore,
    root: str,
    history: CommitHistory,
    known: ExpiryTable,
    staged: Sequence[Staged],
    gone: Iterable[str],
    before: float,
) -> Iterator[ExpiredObject]:
    """Give staged changes of rows, below ``root``, that are merged and no rollback can need.

    A rollback merges those again that its commits' objects name; ``gone`` are the keys of
    objects that are deleted now.
    """
    gone = set(gone)

    def referenced() -> Iterator[str]:
        for listed in history.list():
            if listed.uuid == known.table.uuid and listed.key not in gone:
                for files in history.read(listed.uuid, listed.id).files:
                    yield from (file.path for file in files.files)

    place = f"{root}/{known.table.identifier}/"
    for stored, info in _unnamed(store, place, known, staged, referenced, before):
        why = f"the table has {info.topic_partition} {info.batch}"
        yield ExpiredObject("changes", stored.key, stored.size, why)


def _unnamed(
    store: ObjectStore,
    root: str,
    known: ExpiryTable,
    staged: Sequence[Staged],
    referenced: Callable[[], Iterable[str]],
    before: float,
) -> Iterator[tuple[StoredObject, ObjectInfo]]:
    """Give files of ranges that the table has, but that no manifest and nobody else names."""
    # Listed before the names are read: a file that is staged meanwhile is not among the candidates.
    candidates = [listed for listed in store.list(root) if listed.modified < before]
    if not candidates:
        return
    named = {
        file.path
        for item in staged
        if item.manifest is not None
        for of_table in item.manifest.tables
        for file in of_table.files
    }
    named |= set(referenced())
    for stored in candidates:
        if stored.key in named:
            continue
        info = _info(store, stored.key)
        if info is not None and _passed(known.record.vector, info):
            yield stored, info


def _info(store: ObjectStore, key: str) -> ObjectInfo | None:
    """Return an object's metadata, None if it is not of a batch, or is of a replay."""
    try:
        metadata: Mapping[str, str] = store.head(key).metadata or {}
        return None if REPLAYED in metadata else ObjectInfo.of(metadata, key)
    except (NotFound, CorruptFile):
        return None


def _passed(vector: Vector, info: ObjectInfo) -> bool:
    """Return whether the table has all of the range, of whichever cluster its topic is."""
    clusters = vector.clusters_of(info.topic_partition.topic)
    offsets = [vector.next_offset(cluster, info.topic_partition) for cluster in clusters]
    # Of every cluster: a metadata does not say which one the batch came from.
    return bool(offsets) and all(
        offset is not None and info.batch.end <= offset for offset in offsets
    )
