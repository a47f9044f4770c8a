"""Verifies topics: what is asked of the ledger, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from secor.archive.beginning import Beginnings
from secor.archive.erasures import LogErasures, Secret, read_erasures
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.archive.quarantine.listing import marker_key, markers, read_marker
from secor.core.errors import CorruptFile, LedgerCorrupt
from secor.core.model import Entry, TopicPartition, next_offset
from secor.core.ports import Log, OffsetLedger
from secor.core.text import how_many
from secor.verify.archive.inventory import Inventory
from secor.verify.archive.offline_check import check_alone
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.partition import ComparedRange, PartitionCheck
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import FindingKind

Progress = Callable[[TopicPartition, int], None]
"""Called with how many offsets of a topic partition were just passed."""

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
    that did not begin at the log's start.  ``inventories`` are taken for evidence.
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

    def verify(
        self, topic: str, partitions: Iterable[int], topic_id: str | None = None
    ) -> Iterator[PartitionReport]:
        """Give a report for each partition, and for others that have objects.

        ``topic_id`` is the broker's, where known.

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
        root = self.archive.root(topic)
        erasures = read_erasures(self.archive.store, root, self.secret).require()
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
            with reading_ahead(
                self.archive, {archived.key: archived.size for archived in ordered}
            ) as archive:
                report = replace(self, archive=archive)._verify(
                    topic_partition,
                    entry,
                    after,
                    ordered,
                    begins,
                    erasures.of(number, None, after.topic_id, beyond=self.erased_beyond),
                )
            if begins:
                report.notes.append(
                    f"the archive begins at offset {begins}: what was below has expired"
                )
            if topic_partition in faults:
                report.found_range(FindingKind.LEDGER, 0, 0, text=faults[topic_partition])
            if topic_id and after.topic_id and topic_id != after.topic_id:
                report.notes.append(
                    f"the topic was deleted and created again (id {after.topic_id}, now {topic_id})"
                    ": these are other messages; see secor offsets accept"
                )
            yield report

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

    def _verify(
        self,
        topic_partition: TopicPartition,
        before: Entry,
        after: Entry,
        objects: Sequence[ArchivedObject],
        begins: int,
        erased: LogErasures,
    ) -> PartitionReport:
        current = [archived for archived in objects if not _of_earlier_topic(archived, after)]
        start = max(begins, self._start(current))
        committed = start if before.committed is None else before.committed
        # An intent's objects may be there: its batch is about to be committed.
        allowed = max(committed, after.committed or 0, after.intent.end if after.intent else 0)
        settled = _settled(self.archive, topic_partition, current)
        check = PartitionCheck(
            topic_partition,
            settled.objects,
            archive=self.archive,
            log=self.log,
            bounds=ComparedRange(start, committed, allowed),
            progress=self.progress,
            parsing=self.parsing,
            inventory=self._inventory(start, committed, settled.objects),
            erased=erased,
        )
        waiting = [archived for archived in settled.objects if self.archive.in_quarantine(archived)]
        check.report.quarantined = sum(
            archived.info.records for archived in waiting if archived.info
        )
        settled.add_to(check.report)
        if before.committed is None and current:
            check.report.notes.append(
                "the ledger has no entry: nothing counts as committed; see secor offsets recover"
            )
        if len(current) < len(objects):
            check.report.notes.append(
                f"{how_many(len(objects) - len(current), 'object is', 'objects are')} of an earlier"
                " topic of this name"
            )
        return check.run()

    def _inventory(
        self, start: int, committed: int, objects: Sequence[ArchivedObject]
    ) -> Inventory | None:
        """Return an empty one, of the objects of committed batches."""
        if not self.inventories:
            return None
        committed_objects = [stored for stored in objects if stored.batch_start < committed]
        first = min((archived.batch_start for archived in committed_objects), default=start)
        return Inventory(first, committed_objects)

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


@dataclass
class _Settled:
    """``objects`` without those of replays under way; markers that cannot be read, and why."""

    objects: Sequence[ArchivedObject]
    unfinished: int = 0
    damaged: list[tuple[ArchivedObject, str]] = field(default_factory=list)

    def add_to(self, report: PartitionReport) -> None:
        """Put into the report what was met."""
        for archived, why in self.damaged:
            key, offset = marker_key(archived.name), archived.first_offset
            text = why.removeprefix(f"{key}: ")
            report.found_range(FindingKind.CORRUPT, offset, next_offset(offset), key=key, text=text)
        if self.unfinished:
            report.notes.append(
                f"{how_many(self.unfinished, 'object')} in quarantine: a replay is under way, or"
                " was interrupted: say secor quarantine replay again"
            )


def _settled(
    archive: Archive, topic_partition: TopicPartition, objects: Sequence[ArchivedObject]
) -> _Settled:
    """Leave out what unfinished replays have put: their last step, which takes the messages out
    of quarantine, is still to come.
    """
    bad = [archived for archived in objects if archive.in_quarantine(archived)]
    # Only where something is in quarantine: elsewhere nothing can be replayed, and the listing is
    # spared.
    marked = set(markers(archive, topic_partition, start=0, generation=0)) if bad else ()
    settled, put = _Settled(objects), set[str]()
    for archived in bad:
        try:
            replay = read_marker(archive, archived) if marker_key(archived.name) in marked else None
        except CorruptFile as error:
            settled.damaged.append((archived, str(error)))
            continue
        if replay is not None:
            settled.unfinished += 1
            put.update(replay.keys)
    settled.objects = [archived for archived in objects if archived.key not in put]
    return settled


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
            settled = _settled(archive, TopicPartition(topic, number), ordered)
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
