"""Objects of a sink of Kafka Connect, which record no offsets: the messages that each holds
follow from its name, its number of rows, and the directories that the parser gives.

An object holds the first messages of its directory from its offset on, as many as it has rows.  So
messages that the sink has stored twice are known, and the objects that they are in.  Where its
directories are not those of the parser (they follow its clock), numbers are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from secor.archive.objects import Archive, ArchivedObject
from secor.core.model import OffsetRange, TopicPartition, next_offset
from secor.core.text import how_many
from secor.verify.archive.compare import ObjectRecords, offsets_of
from secor.verify.archive.connector_accounts import Described, DirectoryAccount, Rows
from secor.verify.archive.parsed_objects import CountedSource, Parsing, number_of_rows
from secor.verify.archive.report import PartitionReport
from secor.verify.archive.text_objects import SharedSource
from secor.verify.finding import FindingKind

_NONE = np.empty(0, np.int64)


def is_connectors(archived: ArchivedObject) -> bool:
    """Return whether a connector has stored an object: ours have metadata under its names, too."""
    return archived.name.of_connect is not None and archived.info is None


class _Numbers:
    """Numbers of messages, of all directories together, between batches of our own."""

    def __init__(
        self,
        described: Sequence[Described],
        batches: Sequence[tuple[int, int]],
        archive: Archive,
        rows_of: Rows,
        topic_partition: TopicPartition,
        compared: OffsetRange,
    ) -> None:
        self.report = PartitionReport(topic_partition)
        self._rows_of = rows_of
        self._beyond = [pair[0] for pair in described if pair[0].name.start_offset >= compared.end]
        self._batch_starts = np.array([start for start, _ in batches], np.int64)
        ends = [compared.start, *(end for _, end in batches)]
        self._sources: list[CountedSource | SharedSource | None] = []
        for run, (start, end) in enumerate(
            zip(ends, [*self._batch_starts.tolist(), compared.end], strict=True)
        ):
            own = [pair for pair in described if self._run_of(pair[0]) == run]
            # How many of its rows lie above is not known: such a run is not compared by numbers.
            below = any(pair[0].name.start_offset < compared.start for pair in own)
            own = [pair for pair in own if pair[0].name.start_offset < compared.end]
            place = (OffsetRange(start, max(start, end)), [archived for archived, _ in own])
            formats = {log_format for _, log_format in own}
            log_format = formats.pop() if len(formats) == 1 else None
            if below:
                self._sources.append(None)
            elif log_format is None:
                self._sources.append(CountedSource(archive, place, self.report, rows_of))
            else:
                self._sources.append(SharedSource(archive, place, log_format, self.report))

    def _run_of(self, archived: ArchivedObject) -> int:
        return int(self._batch_starts.searchsorted(archived.name.start_offset, side="right"))

    def take(self, records: pa.RecordBatch) -> None:
        """Take the log's next messages that no object of ours has to have."""
        runs = self._batch_starts.searchsorted(offsets_of(records), side="right")
        for run in np.unique(runs).tolist():
            source = self._sources[run]
            if source is not None:
                source.take(records.filter(pa.array(runs == run)))

    def finish(self) -> PartitionReport:
        """Return what is wrong."""
        for source in self._sources:
            if source is not None:
                source.finish()
        for archived in self._beyond:
            start = archived.name.start_offset
            self.report.found_range(
                FindingKind.EXTRA,
                start,
                next_offset(start),
                count=max(1, self._rows_of(archived)),
                key=archived.key,
                text="not committed",
            )
        return self.report


class ConnectorObjects:
    """A connector's objects of one topic partition, compared with the log as a whole."""

    def __init__(
        self,
        described: Sequence[Described],
        objects: Iterable[ArchivedObject],
        *,
        archive: Archive,
        report: PartitionReport,
        parsing: Parsing | None,
    ) -> None:
        """``objects`` are all of the topic partition; what is wrong goes to ``report``."""
        self._described = sorted(described, key=lambda pair: pair[0].name.start_offset)
        self._archive = archive
        self._report = report
        self._parsing = parsing
        self._ours: dict[str, list[tuple[OffsetRange, str]]] = {}
        batches = set()
        for archived in objects:
            if archived.info is not None and archived.info.batch.start < archived.info.batch.end:
                batches.add((archived.info.batch.start, archived.info.batch.end))
                if not archive.in_quarantine(archived):
                    own = self._ours.setdefault(archived.name.output_partition, [])
                    own.append((archived.info.batch, archived.key))
        self._batches = sorted(batches)
        for own in self._ours.values():
            own.sort(key=lambda pair: pair[0].start)
        # The last first: they are compared as the log comes to them.
        self._starts = [
            (archived.name.start_offset, archived.name.output_partition)
            for archived, _ in reversed(self._described)
        ]
        self._directories = {pair[0].name.output_partition for pair in self._described}
        self._only = next(iter(self._directories)) if len(self._directories) == 1 else None
        self._agrees = self._parsing is not None or self._only is not None
        self._rows: dict[str, int] = {}
        self._accounts: list[DirectoryAccount] = []
        self._numbers: _Numbers | None = None
        self._first = 0
        self._unplaced = self._counted = 0

    def begin(self, compared: OffsetRange) -> None:
        """Begin to compare with the messages of a range."""
        self._first = max(compared.start, self._described[0][0].name.start_offset)
        here = self._report.topic_partition
        # Of messages that the parser places nowhere a connector may have stored each, or none.
        for _ in range(1 if self._only is None else 2):
            account = DirectoryAccount(
                self._described, self._archive, self._rows_of, here, self._ours, compared.start
            )
            self._accounts.append(account)
        if self._only is None:
            self._numbers = _Numbers(
                self._described, self._batches, self._archive, self._rows_of, here, compared
            )

    def take(
        self, log: pa.RecordBatch, stored_rows: Sequence[ObjectRecords]
    ) -> list[ObjectRecords]:
        """Compare the log's next messages; return those that no other object has to have.

        They count as there until ``finish``.
        """
        log = log.slice(int(offsets_of(log).searchsorted(self._first)))
        if not log.num_rows:
            return []
        offsets = offsets_of(log)
        # Batches of our own are compared by other sources: a takeover has both kinds side by side.
        expected = ~_within(offsets, self._batches)
        if stored_rows:
            elsewhere = np.concatenate([offsets_of(part.records) for part in stored_rows])
            expected &= ~np.isin(offsets, elsewhere)
        self._account(log, expected)
        rows = log.filter(pa.array(expected))
        if not rows.num_rows:
            return []
        if self._numbers is not None:
            self._numbers.take(rows)
        bare = any(log_format is None for _, log_format in self._described)
        self._counted += rows.num_rows * bare
        return [ObjectRecords(rows, 1, True, self._described[0][0].key, bare)]

    def finish(self, end: int) -> None:
        """Report what was wrong; comparing has ended before offset ``end``."""
        for account in self._accounts:
            account.finish(end)
        # Nothing says which the connector did; the one with fewer findings explains its objects
        # better.
        best = min(self._accounts, key=lambda account: account.report.counts.total())
        chosen = best.report
        if best.unknown:
            objects = how_many(best.unknown, "object")
            self._report.notes.append(
                f"{objects} of the connector began below the first offset compared: what of them"
                " lies above it counts as there"
            )
        if self._numbers is not None and not self._agrees and chosen.counts.total():
            chosen = self._numbers.finish()
            self._report.notes.append(
                "the connector's directories are not those that the configuration gives: numbers of"
                " messages are compared, of all directories together"
            )
        else:
            self._report.counted += self._counted
            if best is self._accounts[0]:
                self._pass_over(self._unplaced)
        self._report.add(chosen)

    def _pass_over(self, messages: int) -> None:
        """Take back that messages count as there which the parser places nowhere."""
        report, bare = self._report, bool(self._counted)
        report.passed_over += messages
        report.compared -= messages
        if bare:
            report.offsets_only -= messages
            report.counted -= messages
        else:
            report.values_only -= messages

    def _account(self, log: pa.RecordBatch, expected: np.ndarray) -> None:
        offsets = offsets_of(log)
        placed = self._placed(log)
        self._compare_starts(offsets, placed)
        anywhere = np.zeros(len(offsets), bool)
        for directory, own in placed.items():
            rows = offsets.searchsorted(own)
            anywhere[rows] = True
            self._accounts[0].take(directory, log.take(pa.array(rows)), expected[rows])
        self._unplaced += int((expected & ~anywhere).sum())
        for account in self._accounts[1:]:
            account.take(self._only or "", log, expected)

    def _placed(self, log: pa.RecordBatch) -> Mapping[str, np.ndarray]:
        """Return the offsets of each directory; of a single one whatever the parser places."""
        if self._parsing is None:
            return {self._only or "": offsets_of(log)}
        placed = self._parsing.placed(self._report.topic_partition, log)
        if self._only is None or not placed:
            return placed
        return {self._only: np.sort(np.concatenate(list(placed.values())))}

    def _compare_starts(self, offsets: np.ndarray, placed: Mapping[str, np.ndarray]) -> None:
        """See whether objects begin with a message of their directory, or of another that begins
        there, too.
        """
        if self._only is not None or not self._agrees:
            return
        names: dict[int, list[str]] = {}
        while self._starts and self._starts[-1][0] <= offsets[-1]:
            start, directory = self._starts.pop()
            names.setdefault(start, []).append(directory)
        for start in names.keys() & set(offsets.tolist()):
            own = [placed.get(directory, _NONE) for directory in names[start]]
            if not any((placed_offsets == start).any() for placed_offsets in own):
                self._agrees = False

    def _rows_of(self, archived: ArchivedObject) -> int:
        """Return the number of rows of an object, which is read once."""
        if archived.key not in self._rows:
            self._rows[archived.key] = number_of_rows(self._archive, archived, self._report)
        return self._rows[archived.key]


def _within(offsets: np.ndarray, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return which of the offsets are in one of the ranges, which are sorted."""
    if not ranges:
        return np.zeros(len(offsets), bool)
    starts, ends = np.array(ranges, np.int64).T
    before = starts.searchsorted(offsets, side="right") - 1
    # The greatest end so far: ranges of several generations may overlap, and a short one may begin
    # within a long one.
    return (before >= 0) & (offsets < np.maximum.accumulate(ends)[before])
