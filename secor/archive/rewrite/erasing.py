"""Search for messages to erase, and the ranges to write again without them.

Only what is settled is looked at: batches that end at or below the committed offset, which no
daemon puts again.  A batch with such a message is written again as a whole, by itself; one of
which nothing is left gets objects without messages, so that its range stays in the archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.erasures import (
    ErasedLog,
    ErasedOffsets,
    Erasure,
    Erasures,
    LogErasures,
    Secret,
    agree,
    erasure_of,
    read_erasures,
)
from secor.archive.objects import Archive, ArchivedObject, reading_ahead, visible
from secor.archive.rewrite.carrying_out import Rewriter, again_where_objects_go
from secor.archive.rewrite.field_search import FieldSearch
from secor.archive.rewrite.planning import (
    ERASING_VERSION,
    JoinedRange,
    NewObject,
    Plan,
    RewriteResult,
    StoredBatch,
    batches_of,
    superseded,
)
from secor.batch.workspace import Workspace
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.model import Entry, TopicPartition
from secor.core.naming import is_copy, parse_key
from secor.core.ports import OldVersion, VersionedStore

ERASED_FROM = frozenset({".seq", ".parquet"})
"""Extensions of objects that may hold whole messages, with their keys."""

Entries = Callable[[TopicPartition], Entry]
"""Reads the ledger."""

Progress = Callable[[int], None]
"""Called with how many bytes of objects were just searched."""


@dataclass(slots=True)
class Searched:
    """The result of a search; ``messages`` are those to erase, ``emptied`` those of them that
    become tombstones.  ``unsearchable`` gives keys of objects, and why nothing is known of them;
    ``later`` is the number of objects that are not committed yet.
    """

    ranges: list[JoinedRange] = field(default_factory=list)
    objects: int = 0
    messages: int = 0
    emptied: int = 0
    found_hashes: set[bytes] = field(default_factory=set)
    unsearchable: dict[str, str] = field(default_factory=dict)
    later: int = 0


def logs_of(objects: Iterable[ArchivedObject], topic: str, entries: Entries) -> list[ErasedLog]:
    """Return the logs of a topic's described objects, each up to what is settled of it.

    Raises ``ConfigurationError`` where the ledger has no entry for a partition with objects.
    """
    ends: dict[tuple[int, int, str | None], int] = {}
    known: dict[int, Entry] = {}
    for archived in objects:
        partition = archived.name.partition
        if partition not in known:
            known[partition] = entries(TopicPartition(topic, partition))
        committed = known[partition].committed
        if committed is None:
            raise ConfigurationError(
                f"{topic}/{partition}: has objects, and the ledger has no entry: what is settled is"
                " not known; see secor offsets recover"
            )
        topic_id = archived.info.topic_id if archived.info else None
        end, present = committed, known[partition].topic_id
        if archived.info and None not in (topic_id, present) and topic_id != present:
            end = archived.info.batch.end  # of an earlier topic: nobody writes it any more
        log = partition, archived.name.generation, topic_id
        ends[log] = max(end, ends.get(log, 0))
    return [ErasedLog(*log, end) for log, end in sorted(ends.items(), key=_by_log)]


def _by_log(item: tuple[tuple[int, int, str | None], object]) -> tuple[int, int, str]:
    (partition, generation, topic_id), _ = item
    return partition, generation, topic_id or ""


@dataclass(frozen=True, slots=True)
class ErasureSearch:
    """Looks for what lists name; makes a plan to erase it."""

    archive: Archive
    topic: str
    erasures: Erasures
    progress: Progress = lambda _: None

    def plan(self, searched: Searched) -> Plan:
        """Return the plan of what was found."""
        newest = self.erasures.newest
        return Plan(self.topic, tuple(searched.ranges), ERASING_VERSION, newest)

    def run(self, objects: Iterable[ArchivedObject]) -> Searched:
        """Read all objects that may hold such messages.

        Raises ``NotFound`` where another run has replaced one meanwhile, ``Unavailable``.
        """
        result = Searched()
        by_log: defaultdict[tuple[int, int, str | None], list[ArchivedObject]] = defaultdict(list)
        for archived in objects:
            topic_id = archived.info.topic_id if archived.info else None
            by_log[archived.name.partition, archived.name.generation, topic_id].append(archived)
        for log, of_log in sorted(by_log.items(), key=_by_log):
            chosen = self.erasures.of(*log)
            if chosen:
                end = max(end for end, _ in chosen.parts)
                sizes = {archived.key: archived.size for archived in of_log}
                with reading_ahead(self.archive, sizes) as ahead:
                    for batch in batches_of(of_log):
                        # Lists of offsets say by themselves where something is to be erased: the
                        # rest need not be read.
                        if not chosen.meets(batch.range.start, batch.range.end):
                            result.objects += len(batch.objects)
                        # Not committed yet: a daemon may still put it. Once it is committed, the
                        # same command finds it.
                        elif batch.range.end > end:
                            result.later += len(batch.objects)
                        else:
                            self._batch(ahead, batch, chosen, result)
        return result

    def _batch(
        self, archive: Archive, batch: StoredBatch, chosen: LogErasures, result: Searched
    ) -> None:
        counts: list[_Count] = []
        for archived in batch.objects:
            why = _unsearchable(archived)
            if why is None:
                try:
                    counts.append(_count(archive, archived, chosen, result.found_hashes))
                except CorruptFile as error:
                    why = str(error).removeprefix(f"{archived.key}: ")
            if why is not None:
                result.unsearchable[archived.key] = why
            self.progress(archived.size)
        result.objects += len(counts)
        erased = sum(count.gone + count.emptied for count in counts)
        if not erased:
            return
        why = _fixed(batch, complete=len(counts) == len(batch.objects))
        if why is not None:
            result.unsearchable.update(
                {count.archived.key: why for count in counts if count.gone + count.emptied}
            )
            return
        result.messages += erased
        result.emptied += sum(count.emptied for count in counts)
        result.ranges.append(_range(batch, counts, self.erasures.newest))


@dataclass(frozen=True, slots=True)
class Eraser:
    """Erases messages of keys from one topic; any number may work at the same time.

    ``at`` and ``by`` are for people, who read the list.  With a ``search`` messages are chosen by a
    field instead of keys: they are looked for first, and the list has their offsets.
    """

    archive: Archive
    topic: str
    secret: Secret
    entries: Entries
    at: str
    by: str
    progress: Progress = lambda _: None
    search: FieldSearch | None = None

    def look(self, keys: Collection[bytes | None], *, tombstones: bool) -> Searched:
        """Search, and put nothing.  Raises as ``run``."""

        def searched() -> Searched:
            objects = self._objects()
            wanted = self._wanted(objects, keys, tombstones=tombstones)
            erasures = self._known().and_also(wanted)
            search = ErasureSearch(self.archive, self.topic, erasures, self.progress)
            return search.run(visible(objects))

        return again_where_objects_go(searched)

    def run(
        self, keys: Collection[bytes | None], workspace: Workspace, *, tombstones: bool
    ) -> tuple[Searched, list[RewriteResult]]:
        """Put the list of the keys, then rewrite what holds messages of them.

        What was found, and what became of it, also of plans that others had begun.  Raises
        ``ConfigurationError``, ``ObjectConflict``, ``Unavailable``, ``LocalFilesExhausted``:
        doing it again is always right.
        """
        objects, wanted = again_where_objects_go(lambda: self._both(keys, tombstones=tombstones))
        erasures = self._known()
        if wanted.hashes or wanted.offsets:
            # The list is put before anything is searched or rewritten: from here on readers leave
            # the messages out, and a crash loses no request.
            erasures = agree(self.archive.store, erasures, wanted)
        search = ErasureSearch(self.archive, self.topic, erasures, self.progress)
        result = Searched()

        def choose(objects: list[ArchivedObject], _: list[ArchivedObject]) -> Plan:
            nonlocal result
            result = search.run(objects)
            return search.plan(result)

        rewriter = Rewriter(self.archive, self.topic, workspace, choose, self.secret)
        outcomes: list[RewriteResult] = []
        # The first plan may be one that another run had begun, under an earlier list: then ours
        # follows.
        while not outcomes or outcomes[-1].plan.erasure != erasures.newest:
            done = rewriter.run()
            outcomes += done
            if not done:
                break
        # What nobody reads any more, such as a late put of a process that had slept.
        for archived in superseded(objects):
            self.archive.store.delete(archived.key)
        return result, outcomes

    def note(self, keys: Collection[bytes | None], *, tombstones: bool) -> None:
        """Put the list alone.  Raises as ``run``."""
        _, wanted = again_where_objects_go(lambda: self._both(keys, tombstones=tombstones))
        agree(self.archive.store, self._known(), wanted)

    def copies(self) -> list[str]:
        """Return files next to the topic's objects that are called as copies of them."""
        listed = self.archive.store.list(f"{self.archive.root(self.topic)}/")
        return [stored.key for stored in listed if is_copy(stored.key)]

    def old_versions(self, store: VersionedStore) -> list[OldVersion]:
        """Return the noncurrent versions of the topic's objects, which may hold anything.

        Raises ``AccessDenied`` without the right to list versions, ``Unavailable``.
        """
        root = self.archive.root(self.topic)
        versions = store.noncurrent(f"{root}/")
        return [version for version in versions if parse_key(root, version.key) is not None]

    def _objects(self) -> list[ArchivedObject]:
        return list(self.archive.everything(self.topic, superseded=True))

    def _both(
        self, keys: Collection[bytes | None], *, tombstones: bool
    ) -> tuple[list[ArchivedObject], Erasure]:
        objects = self._objects()
        return objects, self._wanted(objects, keys, tombstones=tombstones)

    def _known(self) -> Erasures:
        root = self.archive.root(self.topic)
        return read_erasures(self.archive.store, root, self.secret).require()

    def _wanted(
        self,
        objects: Sequence[ArchivedObject],
        keys: Collection[bytes | None],
        *,
        tombstones: bool,
    ) -> Erasure:
        logs = logs_of(objects, self.topic, self.entries)
        offsets: list[ErasedOffsets] = []
        if self.search is not None:
            offsets = self.search.run(self.archive, visible(objects), logs)
        return erasure_of(
            self.topic,
            self.secret,
            keys,
            logs,
            tombstones=tombstones,
            at=self.at,
            by=self.by,
            offsets=offsets,
        )


@dataclass(slots=True)
class _Count:
    """Messages of one object: how many go, become tombstones, and what is left."""

    archived: ArchivedObject
    gone: int = 0
    emptied: int = 0
    left: int = 0
    first: int | None = None
    least: int | None = None
    greatest: int | None = None


def _unsearchable(archived: ArchivedObject) -> str | None:
    """Return why nothing can be found, or replaced, in an object."""
    if archived.fault is not None:
        return archived.fault.removeprefix(f"{archived.key}: ")
    if archived.info is None:
        return "it has no metadata of ours, so where its range ends is not known"
    if archived.name.extension not in ERASED_FROM:
        return "its format keeps no keys"
    return None


def _fixed(batch: StoredBatch, *, complete: bool) -> str | None:
    """Return why a batch cannot be written again."""
    places = {archived.name.place for archived in batch.objects}
    if not complete:
        return "another object of its batch cannot be read"
    if batch.overlaps or len(places) < len(batch.objects):
        return "its range overlaps that of another object; see secor verify"
    return None


def _count(
    archive: Archive, archived: ArchivedObject, chosen: LogErasures, found_hashes: set[bytes]
) -> _Count:
    """Read an object.  Raises ``CorruptFile``, ``NotFound``."""
    count = _Count(archived)
    for records in archive.read(archived):
        if not records.num_rows:
            continue
        # A format that keeps no keys gives null for all of them. Taken for null keys, they would be
        # searched in vain, and reported as searched.
        if all(
            records.column(name).null_count == records.num_rows
            for name in ("key", "timestamp_type")
        ):
            raise CorruptFile(f"{archived.key}: its format keeps no keys")
        gone, emptied = chosen.erased(records)
        count.gone += int(gone.sum())
        count.emptied += int(_full(records, emptied).sum())
        if chosen.has_keys and (gone.any() or emptied.any()):
            keys = records.column("key").filter(pa.array(gone | emptied))
            found_hashes.update(chosen.hashes(keys.unique()))
        kept = records.filter(pa.array(~gone)) if gone.any() else records
        _add(count, kept)
    return count


def _full(records: pa.RecordBatch, emptied: np.ndarray) -> np.ndarray:
    """Leave out those that are tombstones without headers already."""
    if not emptied.any():
        return emptied
    values = records.column("value").is_valid()
    headers = pc.greater(pc.fill_null(pc.list_value_length(records.column("headers")), 0), 0)
    return np.asarray(emptied & pc.or_(values, headers).to_numpy(zero_copy_only=False))


def _add(count: _Count, kept: pa.RecordBatch) -> None:
    if not kept.num_rows:
        return
    count.left += kept.num_rows
    if count.first is None:
        count.first = kept.column("offset")[0].as_py()
    times = pc.min_max(kept.column("timestamp")).as_py()
    if times["min"] is not None:
        count.least = min(times["min"], times["min"] if count.least is None else count.least)
        count.greatest = max(
            times["max"], times["max"] if count.greatest is None else count.greatest
        )


def _range(batch: StoredBatch, counts: Sequence[_Count], number: int) -> JoinedRange:
    # One more than all that it replaces: the number decides which objects are read.
    rewrite = max(archived.name.rewrite for archived in batch.objects) + 1
    objects = []
    for count in sorted(counts, key=lambda count: count.archived.name.place):
        archived, info = count.archived, count.archived.info
        assert info is not None
        name = replace(
            archived.name, start_offset=batch.range.start, rewrite=rewrite, end=batch.range.end
        )
        new_info = replace(
            info,
            first_offset=batch.range.start if count.first is None else count.first,
            records=count.left,
            least_timestamp=count.least,
            greatest_timestamp=count.greatest,
            erasures=number,
        )
        objects.append(
            NewObject(
                key=name.key,
                extension=name.extension,
                inputs={archived.key: archived.size},
                metadata=new_info.metadata(),
            )
        )
    return JoinedRange(
        batch.objects[0].name.partition, batch.range.start, batch.range.end, tuple(objects)
    )
