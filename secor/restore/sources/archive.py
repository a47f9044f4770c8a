"""Archives as a source: backup groups, Java Secor's objects, raw objects of partition groups.

Reading counts archived offsets, never files and lines: objects that overlap, were written
again in other sizes or by another generation are read to the same records.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.archive.backfill.coverage import UNKNOWN_END
from secor.archive.beginning import NO_BEGINNINGS, Beginnings
from secor.archive.erasures import NO_ERASURES, Erasures, Secret, read_erasures
from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import ArchiveIncomplete, CorruptFile, NotFound
from secor.core.model import SCHEMA, OffsetRange, next_offset
from secor.core.object_info import ObjectInfo
from secor.restore.model import Boundary, Piece, SourceExtent, SourcePartition
from secor.restore.ports import PieceReader
from secor.restore.reading import ReadAhead
from secor.restore.sources.coverage import Coverage, KnownRanges, Slice, Unit, cover, units_of

LISTED_FOR = 5.0
"""Seconds that a listing of a topic's objects is used: it has those of all its partitions."""


MOST_DESCRIBED = 100_000
"""Objects whose metadata are kept, of about a kilobyte each."""


def _identity(archived: ArchivedObject) -> tuple[str, int, float]:
    """Return what changes when somebody puts another object in the place of one."""
    return archived.key, archived.size, archived.modified


class TopicListings:
    """The objects of topics by partition; any number of threads.

    Without it every source partition would have all objects of its topic listed, and the work
    would grow with the square of the partitions.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._topic_locks: dict[str, threading.Lock] = {}
        self._listed: dict[str, tuple[float, dict[int, list[ArchivedObject]]]] = {}
        self._beginnings: dict[str, Beginnings] = {}
        self._erasures: dict[str, Erasures] = {}
        self._described: dict[tuple[str, int, float], ArchivedObject] = {}

    def objects(
        self,
        archive: Archive,
        topic: str,
        partition: int,
        generations: Collection[int] | None,
        secret: Secret | None = None,
    ) -> list[ArchivedObject]:
        """Return the objects of a topic partition, without their metadata.

        Raises ``ConfigurationError`` where ``secret`` is not that of the topic's lists of erased
        keys.
        """
        # Of each topic one thread lists, and others at the same time.
        with self._lock:
            of_topic = self._topic_locks.setdefault(topic, threading.Lock())
        with of_topic:
            listed_at, listed = self._listed.get(topic, (-LISTED_FOR, {}))
            if not listed or self._now() - listed_at >= LISTED_FOR:
                # Under the lock: of many partitions' threads one lists, and the others wait for
                # what it finds.
                listed_at, listed = self._now(), {}
                for archived in archive.objects(topic, generations=generations):
                    listed.setdefault(archived.name.partition, []).append(archived)
                self._beginnings[topic] = archive.beginnings(topic)
                known, root = self._erasures.get(topic, NO_ERASURES), archive.root(topic)
                self._erasures[topic] = read_erasures(archive.store, root, secret, known).require()
                self._listed[topic] = listed_at, listed
            return listed.get(partition, [])

    def described(
        self, archive: Archive, objects: Sequence[ArchivedObject]
    ) -> list[ArchivedObject]:
        """Return objects with their metadata, by key; each is asked for once, as long as it stays.

        Raises ``NotFound``.
        """
        with self._lock:
            known = {
                _identity(archived): self._described.get(_identity(archived))
                for archived in objects
            }
        missing = [archived for archived in objects if known[_identity(archived)] is None]
        fresh = {_identity(described): described for described in archive.described(missing)}
        with self._lock:
            # All at once, for most are of topics that are finished: what is still needed is asked
            # for again.
            if len(self._described) + len(fresh) > MOST_DESCRIBED:
                self._described.clear()
            self._described |= fresh
        both = {**known, **fresh}
        return [described for archived in objects if (described := both[_identity(archived)])]

    def beginnings(self, topic: str) -> Beginnings:
        """Return where a topic's logs began when its objects were listed last."""
        with self._lock:
            return self._beginnings.get(topic, NO_BEGINNINGS)

    def erasures(self, topic: str) -> Erasures:
        """Return what was erased from a topic when its objects were listed last."""
        with self._lock:
            return self._erasures.get(topic, NO_ERASURES)


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """A ``RestoreSource`` over the archives of ``topics``, one each.

    ``name`` is in offset records.  ``lossy`` takes objects that lost keys, headers or
    offsets.  ``holes`` reads on where offsets are missing.  ``generations`` leaves out others.
    What lists of erased keys name is left out; ``secret`` is what they were made with.
    """

    name: str
    archives: Callable[[str], Archive]
    topics: Callable[[], Sequence[str]]
    lossy: bool = False
    holes: bool = False
    generations: Collection[int] | None = None
    reader: Callable[[Iterator[Piece]], PieceReader] = ReadAhead
    listings: TopicListings = field(default_factory=TopicListings)
    known: KnownRanges = field(default_factory=KnownRanges)
    secret: Secret | None = None

    def exactly_once(self) -> bool:
        """Return True: reading counts archived offsets."""
        return True

    def defines_transactions(self) -> bool:
        """Return True: what was uploaded together is one."""
        return True

    def partitions(self) -> list[SourcePartition]:
        """List topics and partitions by the names of objects, and those that were seen before."""
        listed = {
            SourcePartition(self.name, topic, archived.name.partition)
            for topic in self.topics()
            for archived in self.archives(topic).objects(topic, generations=self.generations)
        }
        # With those that have no object left: a job must say that they are gone, not end without
        # them.
        return sorted(listed.union(self.known.sources()))

    def extent(self, source: SourcePartition) -> SourceExtent:
        """Look at the names and metadata of all objects; reads only the last if it must.

        The range ends where the archive ever ended: what vanished since then is not written.
        """
        coverage = self._coverage(source)
        if not coverage.slices:
            return SourceExtent(source, self.known.of(source), faults=coverage.faults)
        start, end = coverage.slices[0].start, coverage.slices[-1].end
        if end == UNKNOWN_END:
            end = self._last_offset(source, coverage.slices[-1])
        known = self.known.add(source, OffsetRange(start, max(start, end)))
        units = list({id(piece.unit): piece.unit for piece in coverage.slices}.values())
        return SourceExtent(
            source,
            OffsetRange(start, known.end),
            coverage.holes,
            coverage.faults,
            sum(len(unit.objects) for unit in units),
            sum(unit.size for unit in units),
            *_times(units),
            *_left_out(units),
            beginning=self._beginning(source, coverage),
        )

    def open(self, source: SourcePartition, next_offset: int) -> PieceReader:
        """Read from an offset on, to the end of what there is now."""
        return self.reader(self.pieces(source, next_offset))

    def pieces(self, source: SourcePartition, start: int) -> Iterator[Piece]:
        """Give the messages from ``start`` on; 0 is where the archive begins.

        Raises ``ArchiveIncomplete``, also for what is missing between ``start`` and the first
        object: a reader that came to there has not read what was in between.
        """
        coverage = self._coverage(source)
        # Before the first message: what is wrong with one object makes the order of all of them
        # doubtful.
        if coverage.faults:
            raise ArchiveIncomplete(f"{source}: {coverage.faults[0]}")
        erasures = self.listings.erasures(source.topic)
        known = self.known.of(source)
        # What has expired is not missing, also where the job began before it did.
        position = max(start or known.start, self._beginning(source, coverage))
        for part in coverage.slices:
            if part.end <= position:
                continue
            if part.start > position:
                self._check_hole(source, OffsetRange(position, part.start))
            position = max(position, part.start)
            for piece in self._of_slice(source, part, position, erasures):
                position = piece.next_offset
                yield piece
        if position < known.end:
            self._check_hole(source, OffsetRange(position, known.end))
            yield Piece(_NO_ROWS, known.end, Boundary.COMMIT)

    def _check_hole(self, source: SourcePartition, hole: OffsetRange) -> None:
        if not self.holes:
            raise ArchiveIncomplete(
                f"{source}: no object has the offsets {hole}; bring the missing objects back, or"
                " set source.holes = true to go on without them"
            )

    def _beginning(self, source: SourcePartition, coverage: Coverage) -> int:
        """Return the agreed beginning of the archive; 0 without one, and without objects."""
        if not coverage.slices:
            return 0
        beginnings = self.listings.beginnings(source.topic)
        return beginnings.of(source.partition, coverage.slices[0].unit.generation)

    def _coverage(self, source: SourcePartition) -> Coverage:
        archive = self.archives(source.topic)
        objects = self.listings.objects(
            archive, source.topic, source.partition, self.generations, self.secret
        )
        try:
            coverage = cover(units_of(self.listings.described(archive, objects)))
        except NotFound as error:
            raise ArchiveIncomplete(f"{source}: {error}, since the archive was listed") from error
        if coverage.slices:
            last = coverage.slices[-1]
            end = last.start if last.end == UNKNOWN_END else last.end
            self.known.add(source, OffsetRange(coverage.slices[0].start, end))
        return coverage

    def _of_slice(
        self, source: SourcePartition, part: Slice, start: int, erasures: Erasures
    ) -> Iterator[Piece]:
        position = start
        for records in self._records(source, part.unit, erasures):
            offsets = records.column("offset").to_numpy()
            first = int(offsets.searchsorted(position))
            last = int(offsets.searchsorted(part.end))
            if last > first:
                kept = records.slice(first, last - first)
                position = next_offset(int(offsets[last - 1]))
                yield Piece(kept, position)
        # Also where the batch ends in a hole, such as a marker of a transaction: what is committed
        # for the source has to reach its end.
        end = position if part.end == UNKNOWN_END else part.end
        yield Piece(_NO_ROWS, end, Boundary.COMMIT)

    def _records(
        self, source: SourcePartition, unit: Unit, erasures: Erasures = NO_ERASURES
    ) -> Iterator[pa.RecordBatch]:
        """Give a unit's records by rising offset, without those that are erased."""
        # The usual case, and then rows stream past; several are held in memory to be put in order.
        if len(unit.objects) == 1:
            yield from self._of_object(source, unit.objects[0], erasures)
            return
        # Files of one batch hold offsets between each other's: they are put in order here.
        every = [
            records
            for archived in unit.objects
            for records in self._of_object(source, archived, erasures)
        ]
        table = pa.Table.from_batches(every, SCHEMA).sort_by("offset")
        # Sorting would hide them: both would be written.
        if (np.diff(table.column("offset").to_numpy()) == 0).any():
            keys = " and ".join(archived.key for archived in unit.objects)
            raise ArchiveIncomplete(
                f"{source}: {keys} are of one batch and have some offsets twice; delete the one"
                " that is not of this group"
            )
        yield from table.to_batches()

    def _of_object(
        self, source: SourcePartition, archived: ArchivedObject, erasures: Erasures
    ) -> Iterator[pa.RecordBatch]:
        count, reached = 0, -1
        erased = erasures.of_object(archived.name, archived.info)
        try:
            for records in self.archives(source.topic).read(archived):
                complete = self._complete(archived, records, count)
                count += records.num_rows
                if records.num_rows:
                    reached = _check_offsets(archived, complete, reached)
                    yield erased.without(complete)
        except NotFound as error:
            raise ArchiveIncomplete(
                f"{archived.key}: the object is gone since the archive was listed"
            ) from error
        except CorruptFile as error:
            raise ArchiveIncomplete(f"{error}; bring back a good copy of the object") from error
        if archived.info:
            self._check_count(archived, archived.info, count)

    def _check_count(self, archived: ArchivedObject, info: ObjectInfo, count: int) -> None:
        """Refuse an object with another number of rows than its metadata says."""
        expected = info.records - (info.left_out or 0)
        # Earlier versions did not count what text leaves out: fewer rows may be right there, and
        # only there.
        perhaps_left_out = archived.is_text and info.left_out is None and count < expected
        if count == expected or (perhaps_left_out and self.holes):
            return
        raise ArchiveIncomplete(
            f"{archived.key}: it holds {count} records, and its metadata says"
            f" {expected}; bring back a good copy of the object"
            + (_SKIPPED if perhaps_left_out else "")
        )

    def _complete(
        self, archived: ArchivedObject, records: pa.RecordBatch, before: int
    ) -> pa.RecordBatch:
        """Return rows with offsets; refuse what lost a part of its messages."""
        offsets = records.column("offset")
        lost = offsets.null_count or records.column("timestamp_type").null_count
        if lost and not self.lossy:
            raise ArchiveIncomplete(
                f"{archived.key}: its format keeps only a part of each message; set source.lossy ="
                " true to restore what it kept"
            )
        if offsets.null_count:
            first = archived.first_offset + before
            numbered = pa.array(np.arange(first, first + records.num_rows), pa.int64())
            records = records.set_column(0, SCHEMA.field("offset"), numbered)
        headers = records.column("headers")
        if headers.null_count:
            records = records.set_column(
                5, SCHEMA.field("headers"), pc.coalesce(headers, pa.scalar([], headers.type))
            )
        return records

    def _last_offset(self, source: SourcePartition, part: Slice) -> int:
        end = part.start
        for records in self._records(source, part.unit):
            end = next_offset(int(records.column("offset")[-1].as_py()))
        return end


def _check_offsets(archived: ArchivedObject, records: pa.RecordBatch, reached: int) -> int:
    """Return the last offset; the first must be above ``reached``.

    Raises ``ArchiveIncomplete``: offsets that fall, or are of another batch, would be passed over.
    """
    offsets = records.column("offset").to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    if first <= reached or (np.diff(offsets) <= 0).any():
        raise ArchiveIncomplete(
            f"{archived.key}: its offsets do not rise; bring back a good copy of the object"
        )
    if archived.info and not (first in archived.info.batch and last in archived.info.batch):
        raise ArchiveIncomplete(
            f"{archived.key}: it holds offsets from {first} to {last}, and its metadata says"
            f" {archived.info.batch}; bring back a good copy of the object"
        )
    return last


_SKIPPED = (
    '; or, if its group left messages without a value out (output.null_values = "skip", which text'
    " does by default), set source.holes = true to go on without them"
)

_NO_ROWS = pa.RecordBatch.from_pylist([], SCHEMA)


def _left_out(units: Sequence[Unit]) -> tuple[int, tuple[str, ...]]:
    """Return how many messages without a value were left out, and the objects without a count."""
    described = [
        (stored, stored.info.left_out) for unit in units for stored in unit.objects if stored.info
    ]
    uncounted = (
        kept_unit.key for kept_unit, left_out in described if left_out is None and kept_unit.is_text
    )
    return sum(left_out or 0 for _, left_out in described), tuple(uncounted)


def _times(units: Sequence[Unit]) -> tuple[int | None, int | None]:
    """Return the least and the greatest timestamp, in milliseconds, from metadata."""
    infos = [stored.info for unit in units for stored in unit.objects if stored.info]
    least = (info.least_timestamp for info in infos if info.least_timestamp is not None)
    greatest = (info.greatest_timestamp for info in infos if info.greatest_timestamp is not None)
    return min(least, default=None), max(greatest, default=None)
