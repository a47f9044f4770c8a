"""One topic partition: the log on one side, its objects on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.archive import Archive, ArchivedObject
from secor.formats.text import TextFormat
from secor.model import SCHEMA, Chunk, LogRange, OffsetRange, TopicPartition, next_offset
from secor.verify.compare import Rows, combine, differing, offsets_of
from secor.verify.log import Log
from secor.verify.report import Kind, PartitionReport
from secor.verify.sources import Merge, ObjectSource
from secor.verify.texts import Place, SharedSource, TextSource, places

Text = TextSource | SharedSource


@dataclass(frozen=True, slots=True)
class _Pending:
    """A text object, or several, whose offsets are not reached yet."""

    place: Place
    log_format: TextFormat

    @property
    def range(self) -> OffsetRange:
        return self.place[0]

    @property
    def generation(self) -> int:
        return self.place[1][0].name.generation

    @property
    def key(self) -> str:
        return self.place[1][0].key


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is to be compared.

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
        bounds: Bounds,
        progress: Callable[[TopicPartition, int], None] | None = None,
    ) -> None:
        self.report = PartitionReport(topic_partition, objects=len(objects))
        self._archive = archive
        self._log = log
        self._bounds = bounds
        self._progress = progress
        self._merge, self._texts = self._sources(objects)
        self._reading: list[tuple[_Pending, Text]] = []

    def run(self) -> PartitionReport:
        """Compare everything.  Raises ``Unavailable``, ``AccessDenied``."""
        topic_partition, bounds = self.report.topic_partition, self._bounds
        held = self._log.log_range(topic_partition)
        start = max(bounds.start, held.start)
        end = max(start, min(bounds.committed, held.end))
        self._note_limits(held)
        self._pass_over(start)
        at = start
        for chunk in self._chunks(start, end):
            self._window(chunk.records, chunk.next_offset)
            if self._progress:
                self._progress(topic_partition, chunk.next_offset - at)
            at = chunk.next_offset
        self._finish_texts(end)
        self._beyond(end)
        return self.report

    def _sources(self, objects: Sequence[ArchivedObject]) -> tuple[Merge, list[_Pending]]:
        with_offsets: list[ObjectSource] = []
        texts: dict[TextFormat, list[ArchivedObject]] = {}
        for found in objects:
            if found.fault:
                at = found.name.first_offset
                self.report.found_range(
                    Kind.CORRUPT, at, next_offset(at), key=found.key, text=found.fault
                )
            log_format = self._archive.format_of(found)
            if isinstance(log_format, TextFormat):
                texts.setdefault(log_format, []).append(found)
            else:
                with_offsets.append(ObjectSource(self._archive, found, self.report))
        pending = [
            _Pending(place, log_format)
            for log_format, found_there in texts.items()
            for place in places(found_there, self._bounds.committed)
        ]
        return Merge(with_offsets), sorted(pending, key=lambda one: one.range.start, reverse=True)

    def _chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """Give the log's chunks; the last one reaches ``end``."""
        at, topic_partition = start, self.report.topic_partition
        if start < end:
            for chunk in self._log.read(topic_partition, start, end):
                chunk = chunk.since(at).until(end)
                at = chunk.next_offset
                yield chunk
        if at < end:
            nothing = pa.RecordBatch.from_pylist([], schema=SCHEMA)
            yield Chunk(topic_partition, nothing, end)

    def _note_limits(self, held: LogRange) -> None:
        committed = self._bounds.committed
        if self._bounds.start < held.start:
            self.report.notes.append(
                f"the log begins at offset {held.start}: nothing below it can be compared"
            )
        if committed > held.end:
            self.report.found_range(
                Kind.EXTRA,
                held.end,
                committed,
                count=committed - held.end,
                text=f"the committed offset {committed} is beyond the log's end {held.end}:"
                " the topic was made again or cut; see secor offsets accept",
            )

    def _pass_over(self, start: int) -> None:
        """Leave behind what lies below the first offset to compare."""
        for rows in self._merge.windows(start):
            combined = combine(rows)
            self._twice(combined.twice, rows)
            self.report.below_log += len(combined.offsets)
        while self._texts and self._texts[-1].range.start < start:
            place = self._texts.pop().place
            self.report.below_log += sum(found.info.records for found in place[1] if found.info)
            self.report.notes.append(
                f"text objects of {place[0]} begin below offset {start}: not compared"
            )

    def _window(self, log: pa.RecordBatch, end: int) -> None:
        rows = [*self._merge.upto(end), *self._text_rows(log, end)]
        stored = combine(rows)
        self._twice(stored.twice, rows)
        self.report.superseded += stored.superseded
        offsets, records, lossy = stored.offsets, stored.records, stored.values_only
        wanted = offsets_of(log)
        if not np.array_equal(offsets, wanted):
            there = np.isin(wanted, offsets, assume_unique=True)
            self.report.found(Kind.MISSING, wanted[~there])
            logged = np.isin(offsets, wanted, assume_unique=True)
            self.report.unlogged += int((~logged).sum())
            log, records = log.filter(pa.array(there)), records.filter(pa.array(logged))
            wanted, lossy = wanted[there], lossy[logged]
        self.report.compared += len(wanted)
        self.report.values_only += int(lossy.sum())
        wrong = differing(log, records, lossy)
        self.report.found(Kind.DIFFERENT, wanted[wrong], key=_only_key(rows))

    def _text_rows(self, log: pa.RecordBatch, end: int) -> list[Rows]:
        """Let text objects find their part of the log's rows."""
        while self._texts and self._texts[-1].range.start < end:
            pending = self._texts.pop()
            kind = TextSource if len(pending.place[1]) == 1 else SharedSource
            source = kind(self._archive, pending.place, pending.log_format, self.report)
            self._reading.append((pending, source))
        offsets = offsets_of(log)
        rows = []
        for pending, source in self._reading:
            first, last = offsets.searchsorted([pending.range.start, pending.range.end])
            if first < last:
                there = source.take(log.slice(first, last - first))
                rows.append(Rows(there, pending.generation, values_only=True, key=pending.key))
        self._finish_texts(end)
        return rows

    def _finish_texts(self, end: int) -> None:
        for pending, source in self._reading:
            if pending.range.end <= end:
                source.finish()
        self._reading = [(one, source) for one, source in self._reading if one.range.end > end]

    def _beyond(self, end: int) -> None:
        """Look at what lies at and above the last offset compared."""
        allowed = max(self._bounds.allowed, self._bounds.committed)
        for rows in self._merge.windows():
            combined = combine(rows)
            self._twice(combined.twice, rows)
            extra = combined.offsets[combined.offsets >= allowed]
            self.report.found(Kind.EXTRA, extra, key=_only_key(rows), text="not committed")
            later = int((combined.offsets >= self._bounds.committed).sum())
            self.report.in_progress += later - len(extra)
        for pending, source in self._reading:
            source.close()
            self.report.notes.append(
                f"text objects of {pending.range} reach beyond offset {end}, where comparing ended"
            )
        for pending in self._texts:
            count = sum(found.info.records for found in pending.place[1] if found.info)
            if pending.range.start < allowed:
                self.report.in_progress += count
                continue
            self.report.found_range(
                Kind.EXTRA,
                pending.range.start,
                pending.range.end,
                count=max(1, count),
                key=pending.place[1][0].key,
                text="not committed",
            )

    def _twice(self, offsets: np.ndarray, rows: Sequence[Rows]) -> None:
        keys = sorted({part.key for part in rows})
        shown = ", ".join(keys[:3])
        self.report.found(Kind.TWICE, np.unique(offsets), text=f"in {shown}")


def _only_key(rows: Sequence[Rows]) -> str | None:
    keys = {part.key for part in rows}
    return keys.pop() if len(keys) == 1 else None
