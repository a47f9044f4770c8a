"""One topic partition: the log on one side, its objects on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.archive.erasures import NOTHING_ERASED, LogErasures, as_tombstones
from secor.archive.objects import Archive, ArchivedObject
from secor.core.model import SCHEMA, Chunk, LogRange, OffsetRange, TopicPartition, next_offset
from secor.core.ports import Log
from secor.verify.archive.compare import ObjectRecords, combine, differing, offsets_of
from secor.verify.archive.inventory import Inventory
from secor.verify.archive.parsed_objects import CountedSource, Parsing, without
from secor.verify.archive.partition_sources import PendingObjects, sources_of
from secor.verify.archive.report import BACK_AGAIN, PartitionReport
from secor.verify.archive.text_objects import SharedSource, TextSource, reach_of
from secor.verify.finding import FindingKind

Text = TextSource | SharedSource | CountedSource

_NO_OFFSETS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """The bounds of a comparison.

    Every message the log has in ``[start, committed)`` must be in the archive; at and
    above ``allowed`` (the open intent's end, else committed) nothing may be.
    """

    start: int
    committed: int
    allowed: int


class PartitionCheck:
    """The comparison of one topic partition, chunk by chunk in bounded memory."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        objects: Sequence[ArchivedObject],
        *,
        archive: Archive,
        log: Log,
        bounds: ComparedRange,
        progress: Callable[[TopicPartition, int], None] | None = None,
        parsing: Parsing | None = None,
        inventory: Inventory | None = None,
        erased: LogErasures = NOTHING_ERASED,
        is_first: bool = True,
        is_last: bool = True,
    ) -> None:
        """``parsing`` is for groups that parse; ``inventory`` is taken on the way, if wanted.

        What is ``erased`` must not be in an object, and need not.  A piece of a topic partition
        ``is_first``, or ``is_last``, or neither: what is said once of the log, one of these says.
        """
        self._is_first = is_first
        self._is_last = is_last
        self.report = PartitionReport(topic_partition, objects=len(objects), inventory=inventory)
        self._parsing = parsing
        self._erased = erased
        self._archive = archive
        self._log = log
        self._bounds = bounds
        self._progress = progress
        self._merge, self._texts, self._connectors = sources_of(
            objects, archive, self.report, parsing, reach_of(objects, bounds.committed)
        )
        self._reading: list[tuple[PendingObjects, Text]] = []

    def run(self) -> PartitionReport:
        """Compare everything.  Raises ``Unavailable``, ``AccessDenied``."""
        topic_partition, bounds = self.report.topic_partition, self._bounds
        log_range = self._log.log_range(topic_partition)
        start = max(bounds.start, log_range.start)
        end = max(start, min(bounds.committed, log_range.end))
        self._note_limits(log_range)
        self._pass_over(start)
        if self._connectors is not None:
            self._connectors.begin(OffsetRange(start, end))
        reached = start
        for chunk in self._chunks(start, end):
            self._window(chunk.records, chunk.next_offset)
            if self._progress:
                self._progress(topic_partition, chunk.next_offset - reached)
            reached = chunk.next_offset
        self._finish_texts(end)
        if self._connectors is not None:
            self._connectors.finish(end)
        self._beyond(end)
        return self.report

    def _chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """Give the log's chunks; the last one reaches ``end``."""
        reached, topic_partition = start, self.report.topic_partition
        if start < end:
            for chunk in self._log.read(topic_partition, start, end):
                chunk = chunk.since(reached).until(end)
                reached = chunk.next_offset
                yield chunk
        if reached < end:
            nothing = pa.RecordBatch.from_pylist([], schema=SCHEMA)
            yield Chunk(topic_partition, nothing, end)

    def _note_limits(self, log_range: LogRange) -> None:
        committed = self._bounds.committed
        if self._is_last:
            self.report.behind = max(0, log_range.end - max(committed, log_range.start))
            self.report.withheld = log_range.withheld
        if self._is_first and self._bounds.start < log_range.start:
            self.report.notes.append(
                f"the log begins at offset {log_range.start}: nothing below it can be compared"
            )
        if self._is_last and committed > log_range.last:
            self.report.found_range(
                FindingKind.EXTRA,
                log_range.last,
                committed,
                count=committed - log_range.last,
                text=f"the committed offset {committed} is beyond the log's end {log_range.last}:"
                " the topic was recreated or cut; see secor offsets accept",
            )

    def _pass_over(self, start: int) -> None:
        """Leave behind what lies below the first offset to compare."""
        inventory, has_texts = self.report.inventory, self._has_texts_below(start)
        for rows in self._merge.windows(start):
            combined = combine(rows)
            self._twice(combined.twice, rows)
            self._back_again(combined.records, rows)
            self.report.below_log += len(combined.offsets)
            if inventory is not None and not has_texts and len(combined.offsets):
                inventory.window(next_offset(int(combined.offsets[-1])), combined.offsets)
        while self._texts and self._texts[-1].range.start < start:
            place = self._texts.pop().place
            self.report.below_log += sum(
                archived.info.records for archived in place[1] if archived.info
            )
            self.report.notes.append(
                f"text objects of {place[0]} begin below offset {start}: not compared"
            )
        if inventory is not None and has_texts:
            inventory.unknown(start, self.report.below_log)
        elif inventory is not None:
            inventory.window(start, _NO_OFFSETS)

    def _has_texts_below(self, start: int) -> bool:
        return bool(self._texts) and self._texts[-1].range.start < start

    def _window(self, log: pa.RecordBatch, end: int) -> None:
        rows = self._merge.upto(end)
        logged = offsets_of(log)
        filtered = self._without_filtered(log, rows)
        log, erased = self._without_erased(filtered, rows)
        rows += self._text_rows(log, end, rows)
        stored = combine(rows)
        self._twice(stored.twice, rows)
        self._back_again(stored.records, rows)
        self.report.superseded += stored.superseded
        if self.report.inventory is not None:
            left_out = np.setdiff1d(logged, offsets_of(filtered), assume_unique=True)
            self.report.inventory.window(end, stored.offsets, logged, left_out, erased)
        offsets, records, lossy = stored.offsets, stored.records, stored.values_only
        bare = stored.offsets_only
        wanted = offsets_of(log)
        if not np.array_equal(offsets, wanted):
            there = np.isin(wanted, offsets, assume_unique=True)
            self.report.note(FindingKind.MISSING, wanted[~there])
            logged = np.isin(offsets, wanted, assume_unique=True)
            self.report.unlogged += int((~logged).sum())
            log, records = log.filter(pa.array(there)), records.filter(pa.array(logged))
            # From here on both sides have the same offsets in the same order, so rows can be
            # compared by place.
            wanted, lossy, bare = wanted[there], lossy[logged], bare[logged]
        self.report.compared += len(wanted)
        self.report.offsets_only += int(bare.sum())
        self.report.values_only += int((lossy & ~bare).sum())
        if bare.any():
            whole = pa.array(~bare)
            log, records = log.filter(whole), records.filter(whole)
            wanted, lossy = wanted[~bare], lossy[~bare]
        wrong = differing(log, records, lossy)
        # Only those that differ: to make tombstones of whole chunks would double the work for every
        # topic with a list.
        if self._erased and len(wrong):
            wrong = wrong[self._not_emptied(log.take(wrong), records.take(wrong), lossy[wrong])]
        self.report.note(FindingKind.DIFFERENT, wanted[wrong], key=_only_key(rows))

    def _without_erased(
        self, log: pa.RecordBatch, rows: Sequence[ObjectRecords]
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Take out what no object records by its offset and a list of erased keys names.

        Its offsets are given, too.
        """
        if not self._erased or not log.num_rows:
            return log, _NO_OFFSETS
        gone, _ = self._erased.erased(log)
        for part in rows:
            gone &= ~np.isin(offsets_of(log), offsets_of(part.records))
        self.report.erased += int(gone.sum())
        return log.filter(pa.array(~gone)), offsets_of(log)[gone]

    def _not_emptied(
        self, log: pa.RecordBatch, stored: pa.RecordBatch, lossy: np.ndarray
    ) -> np.ndarray:
        """Return the rows that differ also from the tombstones that erased ones became."""
        _, emptied = self._erased.erased(log)
        wrong = differing(as_tombstones(log, emptied), stored, lossy)
        self.report.erased += log.num_rows - len(wrong)
        return wrong

    def _back_again(self, stored: pa.RecordBatch, rows: Sequence[ObjectRecords]) -> None:
        """Note stored messages that are erased: somebody has brought an object back."""
        if self._erased and stored.num_rows:
            again = self._erased.back_again(stored)
            self.report.note(FindingKind.EXTRA, again, key=_only_key(rows), text=BACK_AGAIN)

    def _without_filtered(
        self, log: pa.RecordBatch, rows: Sequence[ObjectRecords]
    ) -> pa.RecordBatch:
        """Take out what no object records by its offset and the parser leaves out."""
        if self._parsing is None or not log.num_rows:
            return log
        stored_offsets = [offsets_of(part.records) for part in rows]
        absent = without(log, np.concatenate(stored_offsets)) if stored_offsets else log
        filtered = self._parsing.left_out(self.report.topic_partition, absent)
        self.report.filtered += len(filtered)
        return without(log, filtered)

    def _text_rows(
        self, log: pa.RecordBatch, end: int, stored_rows: Sequence[ObjectRecords]
    ) -> list[ObjectRecords]:
        """Let objects without offsets find their part of the log's rows, next to the rows
        that others have, such as quarantine (``stored_rows``).
        """
        while self._texts and self._texts[-1].range.start < end:
            pending = self._texts.pop()
            self._reading.append((pending, self._source(pending)))
        offsets = offsets_of(log)
        rows = []
        for pending, source in self._reading:
            first, last = offsets.searchsorted([pending.range.start, pending.range.end])
            if first < last:
                there = log.slice(first, last - first)
                if self._parsing is not None:
                    there = _not_stored_elsewhere(there, stored_rows, pending.generation)
                there = source.take(there)
                bare = isinstance(source, CountedSource)
                rows.append(ObjectRecords(there, pending.generation, True, pending.key, bare))
        self._finish_texts(end)
        if self._connectors is not None:
            rows += self._connectors.take(log, stored_rows)
        return rows

    def _source(self, pending: PendingObjects) -> Text:
        if pending.log_format is None:
            return CountedSource(self._archive, pending.place, self.report)
        kind = TextSource if len(pending.place[1]) == 1 else SharedSource
        return kind(self._archive, pending.place, pending.log_format, self.report)

    def _finish_texts(self, end: int) -> None:
        for pending, source in self._reading:
            if pending.range.end <= end:
                source.finish()
        self._reading = [
            (text_object, source)
            for text_object, source in self._reading
            if text_object.range.end > end
        ]

    def _beyond(self, end: int) -> None:
        """Look at what lies at and above the last offset compared."""
        allowed = max(self._bounds.allowed, self._bounds.committed)
        for rows in self._merge.windows():
            combined = combine(rows)
            self._twice(combined.twice, rows)
            extra = combined.offsets[combined.offsets >= allowed]
            self.report.note(FindingKind.EXTRA, extra, key=_only_key(rows), text="not committed")
            later = int((combined.offsets >= self._bounds.committed).sum())
            self.report.in_progress += later - len(extra)
        for pending, source in self._reading:
            source.close()
            self.report.notes.append(
                f"text objects of {pending.range} reach beyond offset {end}, where comparing ended"
            )
        for pending in self._texts:
            count = sum(archived.info.records for archived in pending.place[1] if archived.info)
            if pending.range.start < allowed:
                self.report.in_progress += count
                continue
            self.report.found_range(
                FindingKind.EXTRA,
                pending.range.start,
                pending.range.end,
                count=max(1, count),
                key=pending.place[1][0].key,
                text="not committed",
            )

    def _twice(self, offsets: np.ndarray, rows: Sequence[ObjectRecords]) -> None:
        keys = sorted({part.key for part in rows})
        shown = ", ".join(keys[:3])
        self.report.note(FindingKind.TWICE, np.unique(offsets), text=f"in {shown}")


def _not_stored_elsewhere(
    log: pa.RecordBatch, stored_rows: Sequence[ObjectRecords], generation: int
) -> pa.RecordBatch:
    """Return the rows of the log that no other object of the generation holds."""
    offsets = [offsets_of(part.records) for part in stored_rows if part.generation == generation]
    return without(log, np.concatenate(offsets)) if offsets else log


def _only_key(rows: Sequence[ObjectRecords]) -> str | None:
    keys = {part.key for part in rows}
    return keys.pop() if len(keys) == 1 else None
