"""Verifies topics: what is asked of the ledger, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from secor.archive.beginning import Beginnings
from secor.archive.erasures import Secret, read_erasures
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.core.errors import LedgerCorrupt
from secor.core.model import Entry, TopicPartition, next_offset
from secor.core.ports import Log, OffsetLedger
from secor.core.text import how_many
from secor.verify.archive.inventory import Inventory
from secor.verify.archive.offline_check import check_alone
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.partition import ComparedRange
from secor.verify.archive.partition_work import (
    ComparedSources,
    InTasks,
    PartitionWork,
    Progress,
    in_pieces,
    settled_objects,
)
from secor.verify.archive.report import PartitionReport

Looked = Callable[[str, int], None]
"""Called with how many objects of a topic were just looked at."""

LOOKED = 100
"""Objects after which progress is reported."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Compares the archive with the log, for what the ledger calls committed.

    ``secret`` is that of the lists of erased keys, which explain what is not there any more; with
    ``erased_beyond``, also what daemons have not stored (``erase.apply``).
    ``generations`` limits the objects looked at; without it all are, and of an offset in
    several generations the newest counts.  ``start`` is the first offset to compare; None
    is the log's start, or with ``from_first_object`` where the archive begins, for groups
    that did not begin at the log's start.  ``inventories`` are taken for evidence, and not
    ``in_tasks``, which compares pieces elsewhere.
    """

    archive: Archive
    log: Log
    ledger: OffsetLedger
    generations: Sequence[int] | None = None
    start: int | None = None
    from_first_object: bool = False
    progress: Progress | None = None
    looked: Looked | None = None
    parsing: Parsing | None = None
    inventories: bool = False
    secret: Secret | None = None
    erased_beyond: bool = False
    in_tasks: InTasks | None = None

    def verify(
        self, topic: str, partitions: Iterable[int], topic_id: str | None = None
    ) -> Iterator[PartitionReport]:
        """Give a report for each partition, and for others that have objects.

        ``topic_id`` is the broker's, where known.  Raises ``ConfigurationError`` where the secret
        of erased keys is another one, ``Unavailable``, ``AccessDenied``.
        """
        works = self._works(topic, partitions, topic_id)
        if self.in_tasks is not None:
            yield from in_pieces(list(works), self.in_tasks)
            return
        reading = None
        for work in works:
            # After the listing, which comes with the first work: what was erased before it must be
            # explained.
            if reading is None:
                root = self.archive.root(topic)
                erasures = read_erasures(self.archive.store, root, self.secret).require()
                reading = ComparedSources(
                    self.archive, self.log, self.parsing, erasures, self.progress
                )
            yield work.check(reading, self._inventory(work))

    def _works(
        self, topic: str, partitions: Iterable[int], topic_id: str | None
    ) -> Iterator[PartitionWork]:
        """Give what to compare.

        The ledger is read before the listing and again after it: what was committed
        before must be listed, what was not even started afterwards must not be.  Where its entry
        cannot be read, everything is compared up to the end of what is stored.
        """
        wanted = set(partitions)
        faults: dict[TopicPartition, str] = {}
        # Before the listing: what was committed by now must be listed.
        before = {number: self._entry(TopicPartition(topic, number), faults) for number in wanted}
        objects = self._objects(topic)
        beginnings = self.archive.beginnings(topic)
        for number in sorted(wanted | objects.keys()):
            topic_partition = TopicPartition(topic, number)
            # After the listing: objects beyond what is begun by now have no business there.
            after = self._entry(topic_partition, faults)
            entry = before.get(number, after)
            ordered = sorted(objects.get(number, []), key=_order)
            current = [earlier for earlier in ordered if not _of_earlier_topic(earlier, after)]
            begins = _beginning(beginnings, number, current)
            if topic_partition in faults:
                entry = after = Entry(_stored_end(ordered))
            work = self._work(topic_partition, entry, after, ordered, begins)
            closing = []
            if begins:
                closing.append(f"the archive begins at offset {begins}: what was below has expired")
            if topic_id and after.topic_id and topic_id != after.topic_id:
                closing.append(
                    f"the topic was deleted and created again (id {after.topic_id}, now {topic_id})"
                    ": these are other messages; see secor offsets accept"
                )
            yield replace(work, closing=tuple(closing), fault=faults.get(topic_partition))

    def _entry(self, topic_partition: TopicPartition, faults: dict[TopicPartition, str]) -> Entry:
        """Read an entry; what makes it unreadable goes to ``faults``."""
        try:
            return self.ledger.read(topic_partition)
        except LedgerCorrupt as error:
            faults[topic_partition] = str(error)
            return Entry(None)

    def _objects(self, topic: str) -> dict[int, list[ArchivedObject]]:
        by_partition: dict[int, list[ArchivedObject]] = {}
        stored = self.archive.everything(topic, generations=self.generations)
        for number, archived in enumerate(stored, 1):
            by_partition.setdefault(archived.name.partition, []).append(archived)
            if self.looked and number % LOOKED == 0:
                self.looked(topic, LOOKED)
        return by_partition

    def _work(
        self,
        topic_partition: TopicPartition,
        before: Entry,
        after: Entry,
        objects: Sequence[ArchivedObject],
        begins: int,
    ) -> PartitionWork:
        current = [archived for archived in objects if not _of_earlier_topic(archived, after)]
        start = max(begins, self._start(current))
        committed = start if before.committed is None else before.committed
        # An intent's objects may be there: its batch is about to be committed.
        allowed = max(committed, after.committed or 0, after.intent.end if after.intent else 0)
        remarks = []
        if before.committed is None and current:
            remarks.append(
                "the ledger has no entry: nothing counts as committed; see secor offsets recover"
            )
        if len(current) < len(objects):
            remarks.append(
                f"{how_many(len(objects) - len(current), 'object is', 'objects are')} of an earlier"
                " topic of this name"
            )
        return PartitionWork(
            topic_partition,
            ComparedRange(start, committed, allowed),
            settled_objects(self.archive, topic_partition, current),
            after.topic_id,
            self.erased_beyond,
            remarks=tuple(remarks),
        )

    def _inventory(self, work: PartitionWork) -> Inventory | None:
        """Return an empty one, of the objects of committed batches."""
        if not self.inventories:
            return None
        committed = work.bounds.committed
        objects = [stored for stored in work.objects if stored.batch_start < committed]
        first = min((stored.batch_start for stored in objects), default=work.bounds.start)
        return Inventory(first, objects)

    def _start(self, objects: Sequence[ArchivedObject]) -> int:
        if self.start is not None:
            return self.start
        if self.from_first_object:
            return min((archived.batch_start for archived in objects), default=0)
        return 0


def _beginning(beginnings: Beginnings, partition: int, objects: Sequence[ArchivedObject]) -> int:
    """Return where the archive of a partition's present log begins, from its objects."""
    generations = {archived.name.generation for archived in objects}
    known = (beginnings.of(partition, generation) for generation in generations)
    return max(known, default=beginnings.greatest(partition))


def _stored_end(objects: Iterable[ArchivedObject]) -> int | None:
    """Return the offset behind all that objects hold, as far as they say; None without any."""
    return max(
        (
            archived.info.batch.end if archived.info else next_offset(archived.first_offset)
            for archived in objects
        ),
        default=None,
    )


def _order(archived: ArchivedObject) -> tuple[int, int]:
    """Return where an object comes among those that are read."""
    return archived.batch_start, archived.first_offset


def _of_earlier_topic(archived: ArchivedObject, entry: Entry) -> bool:
    known = archived.info.topic_id if archived.info else None
    return known is not None and entry.topic_id is not None and known != entry.topic_id


def verify_archive_only(
    archive: Archive,
    topic: str,
    generations: Sequence[int] | None = None,
    *,
    parsed: bool = False,
    inventories: bool = False,
    secret: Secret | None = None,
) -> Iterator[PartitionReport]:
    """Give a report for each partition from names, metadata and contents alone.

    ``secret`` is that of the lists of erased keys.
    """
    erasures = read_erasures(archive.store, archive.root(topic), secret).require()
    by_partition: dict[int, list[ArchivedObject]] = {}
    for archived in archive.everything(topic, generations=generations):
        by_partition.setdefault(archived.name.partition, []).append(archived)
    for number, objects in sorted(by_partition.items()):
        ordered = sorted(objects, key=lambda archived: (archived.name.generation, _order(archived)))
        with reading_ahead(archive, {archived.key: archived.size for archived in ordered}) as ahead:
            settled = settled_objects(archive, TopicPartition(topic, number), ordered)
            inventory = None
            if inventories and settled.objects:
                start = min(archived.batch_start for archived in settled.objects)
                inventory = Inventory(start, settled.objects)
            report = check_alone(
                TopicPartition(topic, number),
                settled.objects,
                ahead,
                parsed=parsed,
                inventory=inventory,
                erasures=erasures,
            )
        settled.add_to(report)
        yield report
