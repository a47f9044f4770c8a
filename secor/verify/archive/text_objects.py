"""Objects that record payloads only: which offsets they hold follows from their names,
their metadata and the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, next_offset
from secor.core.text import how_many
from secor.formats.streams import BLOCK
from secor.formats.text import TextFormat
from secor.verify.archive.compare import offsets_of
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import FindingKind

Place = tuple[OffsetRange, Sequence[ArchivedObject]]
"""Offsets, and the objects that hold their messages among them."""


Reach = Callable[[ArchivedObject], int]
"""The last possible end of an object that does not record it."""


def reach_of(objects: Iterable[ArchivedObject], end: int) -> Reach:
    """Return the ends by all ``objects`` of a topic partition: each reaches to the next batch of
    its generation, or to where another generation goes on; the last one to ``end``.
    """
    starts: dict[int, list[int]] = {}
    for archived in sorted(objects, key=lambda archived: archived.batch_start):
        starts.setdefault(archived.name.generation, []).append(archived.batch_start)

    def reach(archived: ArchivedObject) -> int:
        start, own = archived.batch_start, starts[archived.name.generation]
        index = bisect_right(own, start)
        following = [
            *own[index : index + 1],
            *(offsets[0] for offsets in starts.values() if offsets[0] > start),
        ]
        return max(min(following, default=end), start)

    return reach


def written_as(archived: ArchivedObject, log_format: TextFormat) -> TextFormat:
    """Return the format with what only its writer knows: Java Secor's text, which has no
    metadata, has an empty payload for a tombstone.
    """
    return log_format if archived.info else replace(log_format, null_values="empty")


def places(objects: Iterable[ArchivedObject], reach: Reach, *, buckets: bool = True) -> list[Place]:
    """Return which objects without offsets of one topic partition hold which offsets.

    Objects of one batch with ``buckets`` of offsets as output partitions follow one
    another; others share the batch.  Without metadata an object ends where ``reach`` says.
    """
    ordered = sorted(objects, key=_order)
    batches = groupby(
        ordered,
        key=lambda batch_places: (batch_places.batch_start, batch_places.info is None),
    )
    batch_places: list[Place] = []
    for batch in (list(group) for _, group in batches):
        info = batch[0].info
        end = info.batch.end if info else reach(batch[0])
        in_buckets = all(archived.name.output_partition.startswith("offset=") for archived in batch)
        if buckets and in_buckets and info:
            edges = [*(archived.first_offset for archived in batch), end]
            batch_places += [
                (OffsetRange(start, max(start, stop)), [archived])
                for archived, (start, stop) in zip(batch, pairwise(edges), strict=True)
            ]
        else:
            batch_places.append((OffsetRange(batch[0].batch_start, end), batch))
    return batch_places


def _order(archived: ArchivedObject) -> tuple[int, bool, int]:
    return archived.batch_start, archived.info is None, archived.first_offset


class TextSource:
    """Compares one object with the log, byte by byte in the order of the log."""

    def __init__(
        self, archive: Archive, place: Place, log_format: TextFormat, report: PartitionReport
    ) -> None:
        self.range, (self._archived, *_) = place
        self._format = log_format
        self._report = report
        self._file = archive.store.open(self._archived.key)
        self._plain = log_format.open(self._file, self._archived.key)
        self._broken = False

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Compare rows of the log with what comes next; return those that are there.

        A row that is there with another payload is reported here and counts as there.
        """
        values = records.column("value")
        expected = self._format.render(values)
        stored = self._read(len(expected))
        if self._broken:
            # After damage nothing more of the object is compared: all of it is missing, and said so
            # once.
            return records.slice(0, 0)
        if pa.py_buffer(stored).equals(expected):
            return records
        return self._row_by_row(records, stored)

    def finish(self) -> None:
        """See that nothing is left."""
        rest = 0 if self._broken else len(self._read(BLOCK))
        if rest:
            self._report.found_range(
                FindingKind.EXTRA,
                self.range.end,
                next_offset(self.range.end),
                key=self._archived.key,
                text="bytes follow after the last message of its range",
            )
        self.close()

    def lines_left(self) -> int:
        """Return how many lines follow, and close the object."""
        lines, last = 0, b""
        while data := self._read(BLOCK):
            data = last[len(last) - len(self._format.delimiter) + 1 :] + data
            lines += data.count(self._format.delimiter)
            last = data
        self.close()
        return lines + (not last.endswith(self._format.delimiter) and bool(last))

    def close(self) -> None:
        """Close the object."""
        self._file.close()

    def _read(self, size: int) -> bytes:
        if self._broken:
            return b""
        try:
            return self._plain.read(size)
        except CorruptFile as error:
            self._broken = True
            start = self.range.start
            text = str(error).removeprefix(f"{self._archived.key}: ")
            self._report.found_range(
                FindingKind.CORRUPT, start, next_offset(start), key=self._archived.key, text=text
            )
            return b""

    def _row_by_row(self, records: pa.RecordBatch, stored: bytes) -> pa.RecordBatch:
        skips = self._format.null_values == "skip"
        delimiter = self._format.delimiter
        position = there = 0
        different = []
        for row, value in enumerate(records.column("value").to_pylist()):
            if value is not None or not skips:
                if position >= len(stored):
                    break
                # Its length is what the log has: the object is compared in step with it, and a
                # wrong payload of equal length moves nothing.
                line = (value or b"") + delimiter
                if stored[position : position + len(line)] != line:
                    different.append(row)
                position += len(line)
            there = next_offset(row)
        offsets = offsets_of(records)[np.array(different, np.int64)]
        self._report.note(FindingKind.DIFFERENT, offsets, key=self._archived.key)
        return records.slice(0, there)


class SharedSource:
    """Compares a batch that was spread over several objects with the log, as a whole.

    Which payload went where only the parser knows, so sums of hashes are compared: they
    show whether the batch is complete.
    """

    def __init__(
        self, archive: Archive, place: Place, log_format: TextFormat, report: PartitionReport
    ) -> None:
        self.range, self._objects = place
        self._archive = archive
        self._format = log_format
        self._report = report
        self._rows = 0
        self._sum = 0

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Add rows of the log; all count as there until ``finish``."""
        rendered = self._format.render(records.column("value")).to_pybytes()
        lines = rendered.split(self._format.delimiter)[:-1]
        self._rows += len(lines)
        # A sum, because the order in which the objects hold the payloads is not known; Python's
        # integers do not overflow.
        self._sum += sum(map(hash, lines))
        return records

    def close(self) -> None:
        """Nothing is open between calls."""

    def finish(self) -> None:
        """Compare the sums."""
        rows = total = 0
        for archived in self._objects:
            try:
                for batch in self._archive.read(archived):
                    lines = batch.column("value").to_pylist()
                    rows += len(lines)
                    total += sum(map(hash, lines))
            except CorruptFile as error:
                start = archived.first_offset
                text = str(error).removeprefix(f"{archived.key}: ")
                self._report.found_range(
                    FindingKind.CORRUPT, start, next_offset(start), key=archived.key, text=text
                )
        if (rows, total) != (self._rows, self._sum):
            kind = (
                FindingKind.MISSING
                if rows < self._rows
                else FindingKind.EXTRA
                if rows > self._rows
                else FindingKind.DIFFERENT
            )
            self._report.found_range(
                kind,
                self.range.start,
                self.range.end,
                count=max(1, abs(rows - self._rows)),
                text=f"{how_many(rows, 'line')} in {how_many(len(self._objects), 'text object')},"
                f" {self._rows:,} in the log",
            )
