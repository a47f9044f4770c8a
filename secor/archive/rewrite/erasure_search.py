"""Search for messages to erase, and the ranges to write again without them.

Only what is settled is looked at: batches that end at or below the committed offset, which no
daemon puts again.  A batch with such a message is written again as a whole, by itself; one of
which nothing is left gets objects without messages, so that its range stays in the archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
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
        objects = described_by_neighbours(list(objects), self._end)
        by_log: defaultdict[tuple[int, int, str | None], list[ArchivedObject]] = defaultdict(list)
        for archived in objects:
            topic_id = archived.info.topic_id if archived.info else None
            by_log[archived.name.partition, archived.name.generation, topic_id].append(archived)
        for log, of_log in sorted(by_log.items(), key=order_of_logs):
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

    def _end(self, partition: int, generation: int) -> int:
        return max(
            (end for end, _ in self.erasures.of(partition, generation, None).parts), default=0
        )

    def _batch(
        self, archive: Archive, batch: StoredBatch, chosen: LogErasures, result: Searched
    ) -> None:
        counts: list[_Count] = []
        by_key = bool(self.erasures.lists[self.erasures.newest].hashes)
        for archived in batch.objects:
            why = _unsearchable(archived)
            if why is None:
                try:
                    counts.append(_count(archive, archived, chosen, by_key))
                    result.found_hashes |= counts[-1].hashes
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
