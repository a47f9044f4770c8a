"""The work of comparing one topic partition: by itself, or in pieces that tasks do side by side.

A piece is a range of offsets whose bounds no batch crosses, with the objects of its batches.  So
the pieces of a topic partition find together what one comparison finds: their counts are added,
and findings that meet are joined.  An object that holds offsets outside of its batch is corrupt
wherever it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from secor.archive.erasures import Erasures
from secor.archive.objects import Archive, ArchivedObject, reading_ahead
from secor.archive.quarantine.listing import marker_key, markers, read_marker
from secor.core.errors import CorruptFile
from secor.core.model import TopicPartition, next_offset
from secor.core.ports import Log
from secor.core.text import how_many
from secor.verify.archive.inventory import Inventory
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.partition import ComparedRange, PartitionCheck
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import LISTED, FindingKind

Progress = Callable[[TopicPartition, int], None]
"""Called with how many offsets of a topic partition were just passed."""

PIECE_BYTES = 256 << 20
"""Least size of the objects of a piece."""


@dataclass(frozen=True, slots=True)
class ComparedSources:
    """The sources of a comparison; ``erasures`` explain messages of the topic that are gone."""

    archive: Archive
    log: Log
    parsing: Parsing | None
    erasures: Erasures
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """A topic partition to compare, or a piece of it.

    ``remarks`` come first in its report, ``closing`` last, and ``fault`` says why the ledger's
    entry cannot be read: of a piece that is not the first these are empty.  ``beyond`` is the
    setting ``erase.apply``, ``topic_id`` that of the ledger.  ``is_first`` and ``is_last`` say
    where a piece is; ``most`` is how many findings are kept.
    """

    topic_partition: TopicPartition
    bounds: ComparedRange
    settled: Settled
    topic_id: str | None = None
    beyond: bool = False
    remarks: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    fault: str | None = None
    is_first: bool = True
    is_last: bool = True
    most: int = LISTED

    @property
    def objects(self) -> Sequence[ArchivedObject]:
        """The objects to compare."""
        return self.settled.objects

    def check(
        self, reading: ComparedSources, inventory: Inventory | None = None
    ) -> PartitionReport:
        """Compare.  Raises ``Unavailable``, ``AccessDenied``."""
        number = self.topic_partition.partition
        erased = reading.erasures.of(number, None, self.topic_id, beyond=self.beyond)
        sizes = {archived.key: archived.size for archived in self.objects}
        with reading_ahead(reading.archive, sizes) as ahead:
            check = PartitionCheck(
                self.topic_partition,
                self.objects,
                archive=ahead,
                log=reading.log,
                bounds=self.bounds,
                progress=reading.progress,
                parsing=reading.parsing,
                inventory=inventory,
                erased=erased,
                is_first=self.is_first,
                is_last=self.is_last,
            )
            waiting = (stored for stored in self.objects if ahead.in_quarantine(stored))
            check.report.quarantined = sum(stored.info.records for stored in waiting if stored.info)
            self.settled.add_to(check.report)
            check.report.notes += self.remarks
            report = check.run()
        report.notes += self.closing
        if self.fault is not None:
            report.found_range(FindingKind.LEDGER, 0, 0, text=self.fault)
        del report.findings[self.most :]
        return report

    def pieces(self, least: int = PIECE_BYTES) -> list[PartitionWork]:
        """Return the pieces to compare side by side, in order; itself where it is not divided."""
        cuts = self._cuts(least)
        if not cuts:
            return [self]
        edges = [self.bounds.start, *cuts, self.bounds.committed]
        pieces = []
        for number, start in enumerate(edges[:-1]):
            is_first, is_last = number == 0, number == len(cuts)
            end = edges[number + 1]
            objects = [
                archived
                for archived in self.objects
                if (is_first or archived.batch_start >= start)
                and (is_last or archived.batch_start < end)
            ]
            settled = replace(self.settled, objects=objects)
            piece = replace(
                self,
                bounds=replace(self.bounds, start=start, committed=end),
                settled=settled if is_first else Settled(objects),
                remarks=self.remarks if is_first else (),
                closing=self.closing if is_last else (),
                fault=self.fault if is_last else None,
                is_first=is_first,
                is_last=is_last,
            )
            pieces.append(piece)
        return pieces

    def _cuts(self, least: int) -> list[int]:
        """Return the offsets at which it is divided."""
        if any(archived.info is None or archived.fault for archived in self.objects):
            return []  # where such an object ends, its neighbours say
        cuts: list[int] = []
        size = reached = 0
        for archived in sorted(self.objects, key=lambda archived: archived.batch_start):
            assert archived.info is not None
            batch = archived.info.batch
            inside = self.bounds.start < batch.start < self.bounds.committed
            if size >= least and inside and reached <= batch.start:
                cuts.append(batch.start)
                size = 0
            size += archived.size
            reached = max(reached, batch.end)
        return cuts


InTasks = Callable[[Sequence[PartitionWork]], Iterable[PartitionReport]]
"""Does pieces of work elsewhere, such as in tasks of Spark; gives the results in their order."""


def in_pieces(
    works: Sequence[PartitionWork], in_tasks: InTasks, least: int = PIECE_BYTES
) -> Iterator[PartitionReport]:
    """Give a report for each topic partition, whose pieces are done by ``in_tasks``."""
    divided = [work.pieces(least) for work in works]
    number = sum(map(len, divided))
    # All results are in memory together: so many findings at most.
    most = max(20, min(LISTED, 100 * LISTED // max(1, number)))
    every = [replace(piece, most=most) for pieces in divided for piece in pieces]
    results = list(in_tasks(every))
    for pieces in divided:
        own, results = results[: len(pieces)], results[len(pieces) :]
        whole, *others = own
        for report in others:
            whole.extend(report)
        yield whole


@dataclass(slots=True)
class Settled:
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


def settled_objects(
    archive: Archive, topic_partition: TopicPartition, objects: Sequence[ArchivedObject]
) -> Settled:
    """Leave out what unfinished replays have put: their last step, which takes the messages out
    of quarantine, is still to come.
    """
    bad = [archived for archived in objects if archive.in_quarantine(archived)]
    # Only where something is in quarantine: elsewhere nothing can be replayed, and the listing is
    # spared.
    marked = set(markers(archive, topic_partition, start=0, generation=0)) if bad else ()
    settled, put = Settled(objects), set[str]()
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
