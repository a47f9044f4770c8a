"""Objects of parsed messages: what they record, and what parsing leaves out on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import DATA, Chunk, OffsetRange, Part, TopicPartition, next_offset
from secor.core.ports import MessageParser
from secor.core.text import how_many
from secor.formats.text import TextFormat
from secor.verify.archive.compare import offsets_of
from secor.verify.archive.report import PartitionReport
from secor.verify.finding import FindingKind

LOSSLESS = ".seq"
"""Of the formats of a partition group, the one that stores messages as they came."""


class Recorded(Enum):
    """The record of its messages that an object has."""

    MESSAGES = "messages"
    PAYLOADS = "payloads"
    OFFSETS = "offsets"
    NUMBER = "number"


class Recordings:
    """The recordings of objects; opens one object of each fingerprint at most.

    A fingerprint covers the settings that decide it.  ``parsed`` says that the group stores
    decoded fields, which are not compared with what came from Kafka; nor are ``other_values``,
    which a plug-in has given.
    """

    def __init__(self, archive: Archive, *, parsed: bool, other_values: bool = False) -> None:
        self._archive = archive
        self._parsed = parsed
        self._other_values = other_values
        self._known: dict[tuple[str, str], Recorded] = {}

    def of(self, archived: ArchivedObject) -> Recorded:
        """Return what an object records."""
        log_format = self._archive.format_of(archived)
        if isinstance(log_format, TextFormat):
            return Recorded.NUMBER if self._other_values else Recorded.PAYLOADS
        if not self._parsed or log_format.extension == LOSSLESS:
            return Recorded.OFFSETS if self._other_values else Recorded.MESSAGES
        if archived.info is None:
            return self._look(archived) or Recorded.OFFSETS
        # Opening each would double the time; what decides it is the same for all of a fingerprint.
        settings = (archived.info.fingerprint, archived.name.extension)
        if settings not in self._known:
            what = self._look(archived)
            if what is None:
                return Recorded.OFFSETS  # its later reader reports what is wrong
            self._known[settings] = what
        return self._known[settings]

    def _look(self, archived: ArchivedObject) -> Recorded | None:
        """Look into an object of decoded fields; None where it does not show."""
        try:
            first = next(self._archive.read(archived), None)
        except CorruptFile:
            return None
        if first is None or not first.num_rows:
            return None
        return Recorded.NUMBER if first.column("offset").null_count else Recorded.OFFSETS


@dataclass(frozen=True, slots=True)
class Parsing:
    """The present parsing of a topic, which distinguishes filtered messages from lost ones.

    ``other_values`` says that a plug-in gives the values to store.
    """

    parser: MessageParser
    other_values: bool = False

    def left_out(self, topic_partition: TopicPartition, records: pa.RecordBatch) -> np.ndarray:
        """Return the offsets of messages that the parser puts nowhere."""
        # By offset, not by number: a parser may split one message into several parts.
        offsets = offsets_of(records)
        kept = [offsets_of(part.records) for part in self._parts(topic_partition, records)]
        placed = np.concatenate(kept) if kept else np.empty(0, np.int64)
        return offsets[~np.isin(offsets, placed)]

    def placed(
        self, topic_partition: TopicPartition, records: pa.RecordBatch
    ) -> Mapping[str, np.ndarray]:
        """Return the offsets of the messages of each directory of the topic, in their order."""
        return {
            part.output_partition: offsets_of(part.records)
            for part in self._parts(topic_partition, records)
            if part.stream == DATA
        }

    def _parts(self, topic_partition: TopicPartition, records: pa.RecordBatch) -> Sequence[Part]:
        if not records.num_rows:
            return ()
        end = next_offset(int(offsets_of(records)[-1]))
        return self.parser.split(Chunk(topic_partition, records, end))


def without(records: pa.RecordBatch, offsets: np.ndarray) -> pa.RecordBatch:
    """Return the rows of ``records`` that have none of the ``offsets``."""
    if not len(offsets):
        return records
    return records.filter(pa.array(~np.isin(offsets_of(records), offsets)))


class CountedSource:
    """A comparer of numbers of messages: for a batch with objects that record nothing else to
    compare with the log.
    """

    def __init__(
        self,
        archive: Archive,
        place: tuple[OffsetRange, Sequence[ArchivedObject]],
        report: PartitionReport,
        rows_of: Callable[[ArchivedObject], int] | None = None,
    ) -> None:
        """``rows_of`` says how many rows an object has; without it they are read."""
        self.range, self._objects = place
        self._report = report
        self._rows_of = rows_of or partial(number_of_rows, archive, report=report)
        self._rows = 0

    def take(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows of the log; all count as there until ``finish``."""
        self._rows += records.num_rows
        return records

    def close(self) -> None:
        """Nothing is open between calls."""

    def finish(self) -> None:
        """Compare the numbers."""
        rows = sum(self._rows_of(archived) for archived in self._objects)
        self._report.counted += min(rows, self._rows)
        if rows != self._rows:
            self._report.found_range(
                FindingKind.MISSING if rows < self._rows else FindingKind.EXTRA,
                self.range.start,
                self.range.end,
                count=abs(rows - self._rows),
                text=f"{how_many(rows, 'row')} in {how_many(len(self._objects), 'object')}, the log"
                f" has {how_many(self._rows, 'message')} for them",
            )


def number_of_rows(archive: Archive, archived: ArchivedObject, report: PartitionReport) -> int:
    """Return how many rows an object has; what is wrong with it goes to ``report``."""
    rows = 0
    try:
        rows = sum(batch.num_rows for batch in archive.read(archived))
        if archived.info and archived.info.records != rows:
            raise CorruptFile(
                f"{archived.key}: its metadata says {archived.info.records} records, it holds"
                f" {rows}"
            )
    except CorruptFile as error:
        start = archived.first_offset
        text = str(error).removeprefix(f"{archived.key}: ")
        report.found_range(
            FindingKind.CORRUPT, start, next_offset(start), key=archived.key, text=text
        )
    return rows
