"""Objects as sources of records, read window by window in the order of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import next_offset
from secor.parsing.parts import release_part
from secor.verify.archive.compare import ObjectRecords, offsets_of
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import FindingKind

LAST_OFFSET = (1 << 63) - 1
"""Of any log; a window that ends there takes all."""


OPENED_TOGETHER = 100
BUFFERED_TOGETHER = 8 << 20
"""Bytes.  So many small objects are opened for one window, so that objects with messages that are
mixed do not take one window for each of them.
"""


class ObjectSource:
    """One object that records offsets; holds one batch of it at a time.

    What is wrong with the object itself goes to ``report``: it cannot be read, its
    offsets go back or lie outside its batch, its metadata has other numbers.
    """

    def __init__(
        self,
        archive: Archive,
        archived: ArchivedObject,
        report: PartitionReport,
        *,
        offsets_only: bool = False,
    ) -> None:
        """``offsets_only``: its payloads are not those of the log."""
        self.archived = archived
        self._offsets_only = offsets_only
        self._generation = archived.name.generation
        self.start = archived.first_offset
        self.last: int | None = None
        self.records = 0
        self._report = report
        self._batches: Iterator[pa.RecordBatch] = archive.read(archived)
        if archive.in_quarantine(archived):
            self._batches = (release_part(batch)[0] for batch in self._batches)
        self._held: pa.RecordBatch | None = None
        self._ended = False

    def upto(self, end: int) -> list[ObjectRecords]:
        """Return the records below ``end`` that were not yet given."""
        rows: list[ObjectRecords] = []
        while (current := self._current()) is not None:
            offsets = offsets_of(current)
            below = int(offsets.searchsorted(end))
            if below:
                rows.append(self._rows(current.slice(0, below)))
            if below < current.num_rows:
                self._held = current.slice(below)
                break
            self._held = None
        return rows

    @property
    def buffered(self) -> int:
        """Bytes of the records that were read and not given yet."""
        return 0 if self._held is None else self._held.nbytes

    def head(self) -> int | None:
        """Return the next offset to give; None at the end."""
        current = self._current()
        return None if current is None else int(offsets_of(current)[0])

    def edge(self) -> int | None:
        """Return the offset after the records in memory, if others may follow; None if not."""
        current = self._current()
        info = self.archived.info
        if current is None or (info is not None and self.records >= info.records):
            return None
        return next_offset(int(offsets_of(current)[-1]))

    def _rows(self, records: pa.RecordBatch) -> ObjectRecords:
        kinds = records.column("timestamp_type")
        foreign = self.archived.info is None
        lossy = foreign or kinds.null_count == records.num_rows
        return ObjectRecords(
            records, self._generation, lossy, self.archived.key, self._offsets_only
        )

    def _current(self) -> pa.RecordBatch | None:
        while self._held is None and not self._ended:
            try:
                self._held = next(self._batches, None)
                if self._held is None:
                    self._ended = True
                    self._check_end()
                elif not self._held.num_rows:
                    self._held = None
                else:
                    self._check(self._held)
            except CorruptFile as error:
                self._held, self._ended = None, True
                self._corrupt(str(error))
        return self._held

    def _check(self, records: pa.RecordBatch) -> None:
        key = self.archived.key
        if records.column("offset").null_count:
            raise CorruptFile(f"{key}: holds records without an offset")
        offsets = offsets_of(records)
        if (self.last is not None and offsets[0] < self.last) or (np.diff(offsets) < 0).any():
            raise CorruptFile(f"{key}: its offsets go back")
        info = self.archived.info
        if self.last is None and info and offsets[0] != self.archived.first_offset:
            raise CorruptFile(f"{key}: its first message has offset {offsets[0]}")
        if info and not (info.batch.start <= offsets[0] and offsets[-1] < info.batch.end):
            raise CorruptFile(f"{key}: holds offsets outside its batch {info.batch}")
        self.last = int(offsets[-1])
        self.records += records.num_rows

    def _check_end(self) -> None:
        info = self.archived.info
        if info and info.records != self.records:
            raise CorruptFile(
                f"{self.archived.key}: its metadata says {info.records} records, it holds"
                f" {self.records}"
            )

    def _corrupt(self, text: str) -> None:
        offset = self.start if self.last is None else self.last
        self._report.found_range(
            FindingKind.CORRUPT,
            offset,
            next_offset(offset),
            key=self.archived.key,
            text=text.removeprefix(f"{self.archived.key}: "),
        )


class ObjectMerge:
    """Objects of one topic partition, opened when their offsets come, merged by offset."""

    def __init__(self, sources: Sequence[ObjectSource]) -> None:
        self._waiting = sorted(sources, key=lambda source: source.start, reverse=True)
        self._open: list[ObjectSource] = []

    def upto(self, end: int) -> list[ObjectRecords]:
        """Return the records below ``end`` that were not yet given."""
        while self._waiting and self._waiting[-1].start < end:
            self._open.append(self._waiting.pop())
        rows = [part for source in self._open for part in source.upto(end)]
        self._open = [source for source in self._open if source.head() is not None]
        return rows

    def windows(self, end: int | None = None) -> Iterator[list[ObjectRecords]]:
        """Give the records below ``end`` (all without one) in windows.

        A window has at most what open objects hold: a batch of records of each.
        """
        while (edge := self._edge(end)) is not None:
            yield self.upto(edge)

    def _edge(self, end: int | None) -> int | None:
        """Return where a window can end that no open object must read on for."""
        heads = (head for source in self._open if (head := source.head()) is not None)
        lowest = min(heads, default=None)
        opened = 0
        # Also of what earlier windows have opened: else each of them would open some more.
        buffered = sum(source.buffered for source in self._open)
        while (following := self._following(end)) is not None:
            is_needed = lowest is None or following <= lowest
            if not is_needed and (opened >= OPENED_TOGETHER or buffered >= BUFFERED_TOGETHER):
                break
            source = self._waiting.pop()
            self._open.append(source)
            head = source.head()
            if head is not None and (lowest is None or head < lowest):
                lowest = head
            opened, buffered = opened + 1, buffered + source.buffered
        if lowest is None or (end is not None and lowest >= end):
            return None
        limits = [edge for source in self._open if (edge := source.edge()) is not None]
        limits += [limit for limit in (following, end) if limit is not None]
        return min(limits, default=LAST_OFFSET)

    def _following(self, end: int | None) -> int | None:
        """Return where the next object begins that is not open; None if not below ``end``."""
        if not self._waiting or (end is not None and self._waiting[-1].start >= end):
            return None
        return self._waiting[-1].start
