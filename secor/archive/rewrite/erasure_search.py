"""Search for messages to erase, and the ranges to write again without them.

Only what is settled is looked at: batches that end at or below the committed offset, which no
daemon puts again.  A batch with such a message is written again as a whole, by itself; one of
which nothing is left gets objects without messages, so that its range stays in the archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.erasures import Erasures, LogErasures
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.archive.repair.stored_ranges import described_by_neighbours
from secor.archive.rewrite.planning import (
    ERASING_VERSION,
    JoinedRange,
    NewObject,
    Plan,
    StoredBatch,
    batches_of,
)
from secor.core.errors import CorruptFile

ERASED_FROM = frozenset({"", ".seq", ".parquet"})
"""Extensions of objects that may hold messages with keys, or offsets; "" is Java Secor's."""

PART_BYTES = 256 << 20
"""Bytes of objects that one task searches at least."""

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

    def add(self, other: Searched) -> None:
        """Add the result of what comes next."""
        self.ranges += other.ranges
        self.objects += other.objects
        self.messages += other.messages
        self.emptied += other.emptied
        self.found_hashes |= other.found_hashes
        self.unsearchable.update(other.unsearchable)
        self.later += other.later


@dataclass(frozen=True, slots=True)
class SearchPart:
    """Batches of one log to search for what is ``chosen``, by the lists up to ``newest``.

    ``by_key`` is whether the newest list has keys.
    """

    batches: tuple[StoredBatch, ...]
    chosen: LogErasures
    newest: int
    by_key: bool

    def run(self, archive: Archive, progress: Progress = lambda _: None) -> Searched:
        """Read the objects.  Raises as ``ErasureSearch.run``."""
        result = Searched()
        sizes = {stored.key: stored.size for batch in self.batches for stored in batch.objects}
        with reading_ahead(archive, sizes) as ahead:
            for batch in self.batches:
                self._batch(ahead, batch, result, progress)
        return result

    def _batch(
        self, archive: Archive, batch: StoredBatch, result: Searched, progress: Progress
    ) -> None:
        counts: list[_Count] = []
        for archived in batch.objects:
            why = _unsearchable(archived)
            if why is None:
                try:
                    counts.append(_count(archive, archived, self.chosen, self.by_key))
                    result.found_hashes |= counts[-1].hashes
                except CorruptFile as error:
                    why = str(error).removeprefix(f"{archived.key}: ")
            if why is not None:
                result.unsearchable[archived.key] = why
            progress(archived.size)
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
        result.ranges.append(_range(batch, counts, self.newest))


SearchInTasks = Callable[[Sequence[SearchPart]], Iterable[Searched]]
"""Searches parts elsewhere, such as in tasks of Spark; gives the results in their order."""


@dataclass(frozen=True, slots=True)
class ErasureSearch:
    """Looks for what lists name; makes a plan to erase it.

    Without ``in_tasks`` everything is read here, one batch after the other.
    """

    archive: Archive
    topic: str
    erasures: Erasures
    progress: Progress = lambda _: None
    in_tasks: SearchInTasks | None = None

    def plan(self, searched: Searched) -> Plan:
        """Return the plan of what was found."""
        newest = self.erasures.newest
        return Plan(self.topic, tuple(searched.ranges), ERASING_VERSION, newest)

    def run(self, objects: Iterable[ArchivedObject]) -> Searched:
        """Read all objects that may hold such messages.

        Raises ``NotFound`` where another run has replaced one meanwhile, ``Unavailable``.
        """
        result = Searched()
        parts = self._parts(objects, result)
        if self.in_tasks is not None:
            for searched in self.in_tasks([piece for part in parts for piece in _divided(part)]):
                result.add(searched)
        else:
            for part in parts:
                result.add(part.run(self.archive, self.progress))
        return result

    def _parts(self, objects: Iterable[ArchivedObject], result: Searched) -> Iterator[SearchPart]:
        """Give what is to be read, log by log; count in ``result`` what need not be."""
        objects = described_by_neighbours(list(objects), self._end)
        by_log: defaultdict[tuple[int, int, str | None], list[ArchivedObject]] = defaultdict(list)
        for archived in objects:
            topic_id = archived.info.topic_id if archived.info else None
            by_log[archived.name.partition, archived.name.generation, topic_id].append(archived)
        newest = self.erasures.newest
        for log, of_log in sorted(by_log.items(), key=order_of_logs):
            chosen = self.erasures.of(*log)
            if not chosen:
                continue
            end = max(end for end, _ in chosen.parts)
            batches = []
            for batch in batches_of(of_log):
                # Lists of offsets say by themselves where something is to be erased: the rest need
                # not be read.
                if not chosen.meets(batch.range.start, batch.range.end):
                    result.objects += len(batch.objects)
                # Not committed yet: a daemon may still put it. Once it is committed, the same
                # command finds it.
                elif batch.range.end > end:
                    result.later += len(batch.objects)
                else:
                    batches.append(batch)
            if batches:
                by_key = bool(self.erasures.lists[newest].hashes)
                yield SearchPart(tuple(batches), chosen, newest, by_key)

    def _end(self, partition: int, generation: int) -> int:
        return max(
            (end for end, _ in self.erasures.of(partition, generation, None).parts), default=0
        )


def _divided(part: SearchPart, least: int = PART_BYTES) -> Iterator[SearchPart]:
    """Give parts of about one size, for tasks."""
    batches: list[StoredBatch] = []
    size = 0
    for batch in part.batches:
        batches.append(batch)
        size += sum(archived.size for archived in batch.objects)
        if size >= least:
            yield replace(part, batches=tuple(batches))
            batches, size = [], 0
    if batches:
        yield replace(part, batches=tuple(batches))


def order_of_logs(item: tuple[tuple[int, int, str | None], object]) -> tuple[int, int, str]:
    """Return the place of an item, whose key is a log, among those of others."""
    (partition, generation, topic_id), _ = item
    return partition, generation, topic_id or ""


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
    hashes: set[bytes] = field(default_factory=set)


def _unsearchable(archived: ArchivedObject) -> str | None:
    """Return why nothing can be found, or replaced, in an object."""
    if archived.fault is not None:
        return archived.fault.removeprefix(f"{archived.key}: ")
    if archived.info is None:
        return "it has no metadata of ours, and where its range ends is not known"
    if archived.name.extension not in ERASED_FROM:
        return "its format keeps neither keys nor offsets"
    return None


def _fixed(batch: StoredBatch, *, complete: bool) -> str | None:
    """Return why a batch cannot be written again."""
    places = {archived.name.place for archived in batch.objects}
    if not complete:
        return "another object of its batch cannot be read"
    if batch.overlaps or len(places) < len(batch.objects):
        return "its range overlaps that of another object; see secor verify"
    return None


def _count(archive: Archive, archived: ArchivedObject, chosen: LogErasures, by_key: bool) -> _Count:
    """Read an object, in which the newest list looks ``by_key``.

    Raises ``CorruptFile``, ``NotFound``.
    """
    count = _Count(archived)
    for records in archive.read(archived):
        if not records.num_rows:
            continue
        # A format that keeps no keys gives null for all of them. Taken for null keys, they would be
        # searched in vain, and reported as searched.
        if records.column("offset").null_count:
            raise CorruptFile(f"{archived.key}: its format keeps no offsets")
        if by_key and all(
            records.column(name).null_count == records.num_rows
            for name in ("key", "timestamp_type")
        ):
            raise CorruptFile(f"{archived.key}: its format keeps no keys")
        gone, emptied = chosen.erased(records)
        count.gone += int(gone.sum())
        count.emptied += int(_full(records, emptied).sum())
        if chosen.has_keys and (gone.any() or emptied.any()):
            keys = records.column("key").filter(pa.array(gone | emptied))
            count.hashes.update(chosen.hashes(keys.unique()))
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
            archived.name,
            start_offset=batch.range.start,
            rewrite=rewrite,
            end=batch.range.end,
            extension=archived.name.extension or ".seq",
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
