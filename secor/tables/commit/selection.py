"""Which staged files belong into the next commit of a table; pure.

The table's vector decides.  If a manifest ends at or below it, the table already has the files; if
it begins at or above it, they are new.  A manifest that lies across the vector, or overlaps
another, stops its topic partition for the tables that one of them has files for: nobody guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from secor.core.errors import TableStopped
from secor.core.model import TopicPartition
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.refused_files import only_refused, waiting_manifests, without_noted
from secor.tables.commit.vector import Vector
from secor.tables.staging.manifest import Manifest, Operation, TableFiles
from secor.tables.staging.staged_manifests import ManifestNeeded, Staged

EVERY_OPERATION: frozenset[Operation] = frozenset({"append", "changes"})
APPENDS: frozenset[Operation] = frozenset({"append"})
"""What can be committed without an engine."""

ACCEPT = "secor tables accept"
"""The command that every stop for a changed source or table names."""

REPLACED = "replaced"
"""Why a table is stopped that is another one of the same name."""


@dataclass(frozen=True, slots=True)
class StagedSelection:
    """The files that a table takes next.

    ``vector`` is the table's after the commit of ``files``; ``manifests`` are the keys they
    come from.  ``done`` are keys of manifests that this table needs no more.  ``stopped`` says
    why topic partitions go no further.  ``replays`` are those that the table notes afterwards.
    ``refused`` are files that it passed over and that may be tried again.
    """

    files: tuple[TableFiles, ...]
    vector: Vector
    manifests: tuple[str, ...]
    done: frozenset[str]
    stopped: Mapping[TopicPartition, str]
    replays: tuple[str, ...] = ()
    refused: tuple[TableFiles, ...] = ()

    @property
    def empty(self) -> bool:
        """There is nothing to commit."""
        return not self.files


def select(
    table: str,
    uuid: str,
    record: GroupRecord,
    staged: Sequence[Staged],
    operations: frozenset[Operation] = EVERY_OPERATION,
    is_finished: Callable[[str], bool] = lambda key: False,
    given_up: Collection[str] = frozenset(),
) -> StagedSelection:
    """Choose among ``staged``, all of them below the ledger's committed offsets.

    ``is_finished`` says of the key of a replay's manifest whether every table has had it.  It
    must look *after* ``record`` was read: tables forget what is finished.

    ``given_up`` are uuids of dropped tables: the vector passes over their files.  A worker may
    follow such a table for some minutes, so what it stages afterwards stops the table again.

    Changes of rows that have other key columns than those before them wait for the
    next commit.  Raises ``TableStopped`` where the files are of another table, topic or cluster
    than the vector, or need an engine that is not there; ``ManifestNeeded`` where a table went
    back behind a manifest that it had.
    """
    by_partition: dict[TopicPartition, list[Staged]] = {}
    for item in staged:
        if not item.listed.replay:
            by_partition.setdefault(item.topic_partition, []).append(item)
    files: list[TableFiles] = []
    refused: list[TableFiles] = []
    keys: list[str] = []
    done: set[str] = set()
    stopped: dict[TopicPartition, str] = {}
    advance = _Advance(table, record.vector)
    one_key = _OneKey()
    for topic_partition, items in sorted(by_partition.items()):
        chosen = _of_partition(table, uuid, record, items, operations, given_up)
        done |= chosen.done
        refused += chosen.refused
        if chosen.stop:
            stopped[topic_partition] = chosen.stop
        for manifest, key, of_table in chosen.take:
            # The partition ends here for this commit: an engine merges by one set of columns at a
            # time, and what comes later by offset must not be merged first.
            if not one_key.has(of_table):
                break
            advance.take(manifest)
            files += of_table
            keys.append(key)
    replays = _Replays(table, uuid, record, operations, is_finished, given_up)
    for item in staged:
        if item.listed.replay:
            replays.look_at(item)
    return StagedSelection(
        files=(*files, *replays.files),
        vector=advance.vector(),
        manifests=(*keys, *replays.taken),
        done=frozenset(done | replays.done),
        stopped={**replays.stopped, **stopped},
        replays=replays.noted({item.listed.key for item in staged}),
        refused=(*refused, *replays.refused),
    )


class _Advance:
    """The vector after what a commit takes; each manifest is compared with those before it, too."""

    def __init__(self, table: str, vector: Vector) -> None:
        self._table = table
        self._vector = vector
        self._ends: dict[tuple[str, str], dict[TopicPartition, int]] = {}

    def take(self, manifest: Manifest) -> None:
        """Go to its end.  Raises ``TableStopped`` where it is of another source."""
        _check_source(self._table, self._vector, manifest)
        known = self._vector.topic(manifest.cluster, manifest.topic)
        if known is None or known.id is None:  # so that those after it are compared with it
            self._vector = self._vector.advance(
                manifest.cluster, manifest.topic_id, {}, manifest.topic
            )
        source = manifest.cluster, manifest.topic
        self._ends.setdefault(source, {})[manifest.topic_partition] = manifest.end

    def vector(self) -> Vector:
        """Return it."""
        vector = self._vector
        for (cluster, topic), ends in self._ends.items():
            vector = vector.advance(cluster, None, ends, topic)
        return vector


class _Replays:
    """Chooses among the manifests of replays, which lie below the vector.

    A table that notes a replay has its rows.  The vector says nothing of them.
    """

    def __init__(
        self,
        table: str,
        uuid: str,
        record: GroupRecord,
        operations: frozenset[Operation],
        is_finished: Callable[[str], bool],
        given_up: Collection[str],
    ) -> None:
        self._table = table
        self._uuid = uuid
        self._record = record
        self._operations = operations
        self._is_finished = is_finished
        self._given_up = given_up
        self.files: list[TableFiles] = []
        self.refused: list[TableFiles] = []
        self.taken: list[str] = []
        self.done: set[str] = set()
        self.stopped: dict[TopicPartition, str] = {}

    def look_at(self, item: Staged) -> None:
        """Take it, or note why not."""
        key, manifest = item.listed.key, item.manifest
        if manifest is None:
            self.stopped[item.topic_partition] = item.fault
            return
        of_table = _files_of(self._table, manifest)
        if key in waiting_manifests(self._record.refused) and key in self._record.replays:
            self.refused += _to_try_again(self._table, self._uuid, self._record, item)
            return
        if not of_table or key in self._record.replays or self._is_finished(key):
            self.done.add(key)
            return
        of_table = _without(of_table, self._given_up)
        _check_table(self._table, self._uuid, of_table, self._operations)
        self.files += without_noted(of_table, self._record.refused)
        self.taken.append(key)

    def noted(self, staged: Collection[str]) -> tuple[str, ...]:
        """Return what the table notes: what it took, and what may still be staged."""
        kept = [key for key in self._record.replays if key in staged or not self._is_finished(key)]
        return (*kept, *self.taken)


class _OneKey:
    """A check that all changes of rows are of the same identifier columns."""

    def __init__(self) -> None:
        self._key: tuple[int, ...] | None = None

    def has(self, of_table: Iterable[TableFiles]) -> bool:
        """Return whether these have the columns of the first that had any."""
        for files in of_table:
            if files.operation == "changes":
                self._key = files.key if self._key is None else self._key
                if files.key != self._key:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class _Chosen:
    take: tuple[tuple[Manifest, str, tuple[TableFiles, ...]], ...]
    done: frozenset[str]
    stop: str
    refused: tuple[TableFiles, ...] = ()


def _of_partition(
    table: str,
    uuid: str,
    record: GroupRecord,
    items: Iterable[Staged],
    operations: frozenset[Operation],
    given_up: Collection[str],
) -> _Chosen:
    """Walk one topic partition's manifests by offset, until one stops it."""
    take: list[tuple[Manifest, str, tuple[TableFiles, ...]]] = []
    done: set[str] = set()
    refused: list[TableFiles] = []
    waiting = waiting_manifests(record.refused)
    reached = _Reached()
    # In the order of offsets, until the first that cannot be decided: a vector cannot say that
    # something in the middle is missing.
    for item in sorted(items, key=lambda item: (item.range.start, item.range.end)):
        key, manifest = item.listed.key, item.manifest
        if manifest is None:
            return _Chosen(tuple(take), frozenset(done), item.fault, tuple(refused))
        if manifest.topic_id is not None and manifest.topic_id in record.replaced_topics:
            # Of an earlier topic of this name: its offsets mean nothing here.
            if key in waiting:
                refused += _to_try_again(table, uuid, record, item)
            else:
                done.add(key)
            continue
        of_table = _files_of(table, manifest)
        if overlapped := reached.overlapped_by(manifest, concerned=bool(of_table)):
            # Nobody can know which of the two is right.
            take = [taken for taken in take if taken[1] not in overlapped]
            done.difference_update(overlapped)
            why = f"{overlapped[0]} and {key} overlap: delete the one that was never committed"
            return _Chosen(tuple(take), frozenset(done), why, tuple(refused))
        # Also those without files for this table: they may overlap one that has some.
        reached.note(manifest, key, concerned=bool(of_table))
        if not of_table:
            done.add(key)
            continue
        next_offset = record.vector.next_offset(manifest.cluster, manifest.topic_partition)
        has_it = is_below(record.vector, manifest)
        # Files that the table has were checked when they were committed; a table that was dropped
        # since has another uuid and another vector.
        if not has_it:
            of_table = _without(of_table, given_up)
            _check_table(table, uuid, of_table, operations)
        _check_source(table, record.vector, manifest)
        if has_it and key in waiting:
            refused += _to_try_again(table, uuid, record, item)
        elif has_it:
            done.add(key)
        elif next_offset is not None and manifest.start < next_offset:
            why = (
                f"{key} lies across {next_offset}, up to which {table} has this partition:"
                " set the group's offset there with 'secor offsets set', and delete this manifest"
            )
            return _Chosen(tuple(take), frozenset(done), why, tuple(refused))
        # It was kept in short form because the table had it. The table went back (a rollback that a
        # person accepted), so it is needed whole.
        elif item.outlined:
            raise ManifestNeeded(table, key)
        else:
            take.append((manifest, key, without_noted(of_table, record.refused)))
    return _Chosen(tuple(take), frozenset(done), "", tuple(refused))


def _to_try_again(
    table: str, uuid: str, record: GroupRecord, item: Staged
) -> tuple[TableFiles, ...]:
    """Return the files that the table passed over, of a manifest that it still needs."""
    if item.manifest is None:
        return ()
    if item.outlined:
        raise ManifestNeeded(table, item.listed.key)
    of_table = (file for file in _files_of(table, item.manifest) if file.uuid == uuid)
    return only_refused(
        (files for files in of_table if files.operation == "append"), record.refused
    )


def is_below(vector: Vector, manifest: Manifest) -> bool:
    """Return whether a table with this vector has the files of a manifest, or has given them up."""
    next_offset = vector.next_offset(manifest.cluster, manifest.topic_partition)
    return next_offset is not None and manifest.end <= next_offset


class _Reached:
    """The reach of each source's manifests: another topic's offsets overlap with nothing."""

    def __init__(self) -> None:
        self._open: list[tuple[Manifest, str, bool]] = []

    def overlapped_by(self, manifest: Manifest, *, concerned: bool) -> list[str]:
        """Return the keys of earlier manifests that this one, which starts later, overlaps.

        One of the two is ``concerned``: it has files for the table.  A topic with an id that is not
        known may be any.
        """
        # Sorted by start, so what ended before this one begins can meet none that follows.
        self._open = [earlier for earlier in self._open if manifest.start < earlier[0].end]
        return [
            key
            for earlier, key, has_files in self._open
            if earlier.cluster == manifest.cluster
            and (concerned or has_files)
            and (
                earlier.topic_id == manifest.topic_id
                or None in (earlier.topic_id, manifest.topic_id)
            )
        ]

    def note(self, manifest: Manifest, key: str, *, concerned: bool) -> None:
        """Remember it until manifests begin at its end."""
        self._open.append((manifest, key, concerned))


def _files_of(table: str, manifest: Manifest) -> tuple[TableFiles, ...]:
    """Return what a manifest has for the table, or for a dropped one of its name."""
    return tuple(files for files in manifest.tables if files.table == table and files.files)


def _without(of_table: Iterable[TableFiles], given_up: Collection[str]) -> tuple[TableFiles, ...]:
    return tuple(files for files in of_table if files.uuid not in given_up)


def _check_table(
    table: str, uuid: str, of_table: Sequence[TableFiles], operations: frozenset[Operation]
) -> None:
    for files in of_table:
        if files.uuid != uuid:
            raise TableStopped(
                f"{table}: files are staged for the table {files.uuid}, and {table} is now"
                f" {uuid}: it was dropped and recreated; '{ACCEPT}' gives those files up",
                REPLACED,
            )
        if files.operation not in operations:
            raise TableStopped(
                f"{table}: changes of rows are staged, which only Spark can merge: give its route"
                ' of [[tables]] mode = "upsert" or "cdc", and run \'secor tables run\'',
                "operation",
            )


def _check_source(table: str, vector: Vector, manifest: Manifest) -> None:
    others = vector.clusters_of(manifest.topic) - {manifest.cluster}
    known = vector.topic(manifest.cluster, manifest.topic)
    if known is None and others:
        raise TableStopped(
            f"{table}: it has rows of {manifest.topic} of the cluster {', '.join(sorted(others))},"
            f" and now come some of the cluster {manifest.cluster}; '{ACCEPT}' takes them, too",
            "other_cluster",
        )
    ids = {known.id if known is not None else None, manifest.topic_id} - {None}
    if known is not None and len(ids) > 1:
        raise TableStopped(
            f"{table}: the topic {manifest.topic} was recreated: its id was {known.id} and is"
            f" {manifest.topic_id}; '{ACCEPT}' goes on with the new one",
            "topic_recreated",
        )
