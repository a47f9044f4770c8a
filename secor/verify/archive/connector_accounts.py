"""Messages of a connector's directories against its objects, which record no offsets.

An object holds the first messages of its directory from its offset on, as many as it has rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.model import OffsetRange, TopicPartition, next_offset
from secor.core.text import how_many
from secor.formats.text import TextFormat
from secor.verify.archive.compare import offsets_of
from secor.verify.archive.report import PartitionReport
from secor.verify.archive.text_objects import TextSource
from secor.verify.finding import LISTED, FindingKind

Described = tuple[ArchivedObject, TextFormat | None]
"""An object, and how its values are written; None where they cannot be compared."""

Rows = Callable[[ArchivedObject], int]

_LAST = (1 << 63) - 1
_STEP = 1000
"""Messages that are looked for at once behind those that an object is likely to have."""


def _start_of(ours: tuple[OffsetRange, str]) -> int:
    return ours[0].start


class ObjectReader:
    """One object: its messages are taken in the order of the log."""

    def __init__(
        self, described: Described, archive: Archive, rows_of: Rows, report: PartitionReport
    ) -> None:
        self.archived, self._format = described
        self.start = self.archived.name.start_offset
        self._archive = archive
        self._rows_of = rows_of
        self._report = report
        self._rows: int | None = None
        self._text: TextSource | None = None
        self.has_ended = False

    def take(self, records: pa.RecordBatch, likely: int) -> int:
        """Return how many of the log's next messages are in the object, ``likely`` so many."""
        if self._format is None:
            rows = self._left()
            taken = min(rows, records.num_rows)
            self._rows = rows - taken
            self.has_ended = taken == rows
            return taken
        source = self._source(self._format)
        taken, step = 0, likely
        while taken < records.num_rows and not self.has_ended:
            part = records.slice(taken, max(step, 1))
            there = source.take(part).num_rows
            self.has_ended = there < part.num_rows
            taken += there
            step = min(max(1, 2 * taken), _STEP)
        if self.has_ended:
            source.close()
        return taken

    def rest(self) -> int:
        """Return how many messages are left in it, and end."""
        if self._format is None:
            return self._left()
        return self._source(self._format).lines_left()

    def _left(self) -> int:
        if self._rows is None:
            self._rows = self._rows_of(self.archived)
        return self._rows

    def _source(self, log_format: TextFormat) -> TextSource:
        if self._text is None:
            place = (OffsetRange(self.start, _LAST), [self.archived])
            self._text = TextSource(self._archive, place, log_format, self._report)
        return self._text


@dataclass(slots=True)
class Overlap:
    """Messages that the same objects hold: offsets of the first, behind the last, how many."""

    start: int
    end: int
    count: int


class DirectoryAccount:
    """The messages of each directory against its objects, under one assumption about them."""

    def __init__(
        self,
        objects: Sequence[Described],
        archive: Archive,
        rows_of: Rows,
        topic_partition: TopicPartition,
        ours: Mapping[str, Sequence[tuple[OffsetRange, str]]],
        begin: int,
    ) -> None:
        """``ours`` are batches and keys of our own objects, by directory.

        Objects below ``begin``, where comparing begins, hold an unknown part of what follows.
        """
        self.report = PartitionReport(topic_partition)
        self._ours = ours
        self._waiting: dict[str, list[ObjectReader]] = {}
        self._readers: dict[str, list[ObjectReader]] = {}
        self._unknown_until: dict[str, int] = {}
        self._overlaps: dict[tuple[str, ...], Overlap] = {}
        self.unknown = 0
        for described in objects:
            directory, start = described[0].name.output_partition, described[0].name.start_offset
            if start < begin:
                self.unknown += 1
                self._unknown_until[directory] = _LAST
            else:
                reader = ObjectReader(described, archive, rows_of, self.report)
                self._waiting.setdefault(directory, []).append(reader)
        for directory in self._unknown_until:
            starts = [reader.start for reader in self._waiting.get(directory, [])]
            starts += [batch.start for batch, _ in ours.get(directory, ()) if batch.start >= begin]
            self._unknown_until[directory] = min(starts, default=_LAST)
        for readers in self._waiting.values():
            readers.sort(key=lambda reader: reader.start, reverse=True)

    def take(self, directory: str, records: pa.RecordBatch, expected: np.ndarray) -> None:
        """Take messages of a directory; those that are ``expected`` have to be in an object."""
        offsets = offsets_of(records)
        if not len(offsets):
            return
        spans = list(self._spans(directory, records, offsets))
        edges = sorted({0, len(offsets), *(edge for span in spans for edge in span[:2])})
        for first, last in pairwise(edges):
            keys = tuple(key for start, end, key in spans if start <= first and last <= end)
            if not keys:
                self.report.note(FindingKind.MISSING, offsets[first:last][expected[first:last]])
            elif len(keys) > 1:
                self._overlap(keys, offsets[first:last])

    def finish(self, end: int) -> None:
        """Note what overlaps, and what is left in objects."""
        for keys, overlap in self._overlaps.items():
            text = f"in {', '.join(keys)}"
            self.report.found_range(
                FindingKind.TWICE, overlap.start, overlap.end, count=overlap.count, text=text
            )
        for reader in sorted(
            (
                reader
                for owners in (self._readers, self._waiting)
                for readers in owners.values()
                for reader in readers
            ),
            key=lambda reader: reader.start,
        ):
            left = reader.rest()
            if left:
                text = f"{how_many(left, 'message')} more than the log has for it below {end}"
                start = max(reader.start, end)
                self.report.found_range(
                    FindingKind.EXTRA,
                    start,
                    next_offset(start),
                    count=left,
                    key=reader.archived.key,
                    text="not committed" if reader.start >= end else text,
                )

    def _spans(
        self, directory: str, records: pa.RecordBatch, offsets: np.ndarray
    ) -> Iterator[tuple[int, int, str]]:
        """Give the rows that each object has, and its key."""
        unknown = int(offsets.searchsorted(self._unknown_until.get(directory, -1)))
        if unknown:
            yield 0, unknown, ""
        readers = self._readers.setdefault(directory, [])
        waiting = self._waiting.get(directory, [])
        while waiting and waiting[-1].start <= offsets[-1]:
            readers.append(waiting.pop())
        starts = np.array([reader.start for reader in readers], np.int64)
        firsts = [*offsets.searchsorted(starts).tolist(), len(offsets)]
        for reader, (first, following) in zip(readers, pairwise(firsts), strict=True):
            taken = reader.take(records.slice(first), following - first)
            if taken:
                yield first, first + taken, reader.archived.key
        readers[:] = [reader for reader in readers if not reader.has_ended]
        ours = self._ours.get(directory, [])
        begin = max(0, bisect_right(ours, offsets[0], key=_start_of) - 1)
        for batch, key in ours[begin : bisect_right(ours, offsets[-1], key=_start_of)]:
            first, last = offsets.searchsorted([batch.start, batch.end]).tolist()
            if first < last:
                yield first, last, key

    def _overlap(self, keys: tuple[str, ...], offsets: np.ndarray) -> None:
        start, end = int(offsets[0]), next_offset(int(offsets[-1]))
        known = self._overlaps.get(keys)
        if known is not None:
            known.start, known.end = min(known.start, start), max(known.end, end)
            known.count += len(offsets)
        elif len(self._overlaps) < LISTED:
            self._overlaps[keys] = Overlap(start, end, len(offsets))
        else:
            self.report.counts[FindingKind.TWICE] += len(offsets)
