"""The commit of a cycle: reads ledger and staging, commits every table, releases manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from secor.core.errors import LedgerCorrupt, TableStopped
from secor.core.model import Entry, TopicPartition
from secor.core.ports import CLOCKS_DIFFER, Clock, OffsetLedger
from secor.tables.commit.backlog import (
    backlog,
    backlog_by_table,
    has_refused,
    is_committed,
    is_done,
    is_of_earlier_topic,
    lacks,
)
from secor.tables.commit.commit_result import CommitRequest, Result, TableResult
from secor.tables.commit.selection import REPLACED
from secor.tables.commit.table_commit import GONE, TableCommitter
from secor.tables.cycle import valid_through
from secor.tables.lag import Feeds, lacking_by_table, lag_by_table
from secor.tables.observer import TableObserver
from secor.tables.staging.staged_manifests import ManifestNeeded, Staged, Staging

LOST_ROWS = (GONE, REPLACED)
"""Why tables are stopped that no longer have what they had."""


class GroupTopics(Protocol):
    """The brokers' view of the topics of the group.  Raises ``Unavailable``."""

    def partitions(self) -> frozenset[TopicPartition]:
        """Return all topic partitions that the group reads."""

    def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where their logs end: the last stable offsets, as far as they are known."""

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where reading begins without an entry (``kafka.reset``), as far as known."""

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return where their logs end, open transactions included, as far as it is known."""

    def ids(self) -> Mapping[str, str | None]:
        """Return Kafka's ids of the group's topics by name; None where brokers have none."""


Item = TypeVar("Item")
Value = TypeVar("Value")


class Parallel(Protocol):
    """Calls a function for each item, side by side or not; gives the results in order."""

    def __call__(
        self, function: Callable[[Item], Value], items: Sequence[Item], /
    ) -> Iterable[Value]:
        """Raise what one of the calls raises."""


def one_by_one(function: Callable[[Item], Value], items: Sequence[Item], /) -> list[Value]:
    """Call ``function`` for each item, in order."""
    return [function(item) for item in items]


class CycleCommit:
    """Commits what is staged to every table; called once a cycle, from one thread."""

    def __init__(
        self,
        *,
        topics: GroupTopics,
        ledger: OffsetLedger,
        staging: Staging,
        committer: TableCommitter,
        clock: Clock,
        observer: TableObserver,
        keep: float = 3600.0,
        parallel: Parallel = one_by_one,
        tables: Iterable[str] = (),
        feeds: Feeds = lambda table, topic: True,
    ) -> None:
        """``keep`` is in seconds: manifests stay for so long, whether tables need them or not.

        ``tables`` are those that are known by name; ``feeds`` says which topics they are of.
        """
        self._topics = topics
        self._ledger = ledger
        self._staging = staging
        self._committer = committer
        self._clock = clock
        self._observer = observer
        self._keep = keep
        self._parallel = parallel
        self._tables = set(tables)
        self._feeds = feeds
        self._greatest: dict[TopicPartition, int] = {}
        """The greatest timestamp of each topic partition, in milliseconds."""
        self._from_future: set[TopicPartition] = set()
        """Topic partitions with a timestamp from the future that was logged."""
        self._present_keys: dict[str, frozenset[str]] = {}
        """By table, the keys of manifests that it had when a cycle last saw it."""
        self._sources: set[TopicPartition] | None = None
        """Topic partitions with manifests, as the last listing showed them."""

    def __call__(
        self,
        commit: str,
        epoch: int,
        *,
        missing: frozenset[TopicPartition],
        committed: Callable[[TableResult], None],
    ) -> None:
        """Ledger first, then the listing (see ``Staging.read``), then every table.

        ``commit`` is the id of the cycle, ``missing`` are the topic partitions that have not
        answered; ``committed`` is called for each table that got something.  Raises
        ``SecorError``: all that is not committed is still staged.
        """
        partitions = self._topics.partitions()
        # Before the ends: a transaction that ends meanwhile must not look like an open one.
        high_watermarks = self._topics.high_watermarks(partitions)
        ends, present_ids = self._topics.ends(partitions), self._topics.ids()
        # Only at the start: afterwards the listing of each cycle gives the sources of the next.
        if self._sources is None:
            self._sources = {manifest.topic_partition for manifest in self._staging.find()}
        # Topics that are gone may have left manifests.  New ones wait for the next cycle.
        entries = self._read_ledger(partitions | self._sources)
        offsets = {
            key: entry.committed for key, entry in entries.items() if entry.committed is not None
        }
        topic_ids = {
            # The entry's id first: it is the one under which the rows were staged, while the broker
            # may have another topic of the name by now.
            key: entry.topic_id or present_ids.get(key.topic)
            for key, entry in entries.items()
        }
        # Ledger before listing: a manifest is put before its ledger entry moves, so below an
        # offset that was read first no manifest can be missing from the listing.
        staged = self._staging.read(offsets, topic_ids)
        self._sources = set(self._staging.sources)
        self._note_timestamps(staged)
        complete = frozenset(
            topic_partition
            for topic_partition in partitions
            if topic_partition in ends
            and topic_partition in high_watermarks
            and offsets.get(topic_partition, 0)
            >= ends[topic_partition]
            >= high_watermarks[topic_partition]
        )  # when their logs were asked, these held nothing that was not committed; the times of
        # what is behind an open transaction are not known

        now = int(self._clock.now() * 1000)

        def advance(previous: int | None) -> int | None:
            if missing:
                # They limit it, and nobody knows how far.
                return valid_through(previous, missing, {}, frozenset(), now)
            return valid_through(previous, partitions, self._greatest, complete, now)

        request = CommitRequest(commit, epoch, advance)
        results = self._commit_tables(staged, request, committed)
        # After all tables: a manifest goes only when each of its tables has it.
        self._release_done(staged, results, present_ids)
        new = [key for key, entry in entries.items() if entry.committed is None and key in ends]
        reached = {**self._topics.first_offsets(new), **offsets} if new else offsets
        self._report(staged, results, ends, reached)

    def _read_ledger(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Entry]:
        """Return the entries; an unreadable entry holds its partition back.

        They are read in parallel: a cycle must not wait for 1,000 answers in turn.
        """
        ordered = sorted(partitions)
        entries = {}
        for topic_partition, entry in zip(
            ordered, self._parallel(self._read_entry, ordered), strict=True
        ):
            if isinstance(entry, LedgerCorrupt):
                self._observer.cycle_failed(entry)
            else:
                entries[topic_partition] = entry
        return entries

    def _read_entry(self, topic_partition: TopicPartition) -> Entry | LedgerCorrupt:
        try:
            return self._ledger.read(topic_partition)
        except LedgerCorrupt as error:
            return error

    def _note_timestamps(self, staged: Sequence[Staged]) -> None:
        for item in staged:
            timestamp = item.manifest.greatest_timestamp if item.manifest is not None else None
            if timestamp is not None and timestamp > self._latest_timestamp():
                self._warn_of_future(item.topic_partition, timestamp)
            elif timestamp is not None:
                before = self._greatest.get(item.topic_partition, timestamp)
                self._greatest[item.topic_partition] = max(before, timestamp)

    def _latest_timestamp(self) -> float:
        """Return the greatest timestamp (ms) that a clock of ours and one of others may explain."""
        return (self._clock.now() + CLOCKS_DIFFER) * 1000

    def _warn_of_future(self, topic_partition: TopicPartition, timestamp: int) -> None:
        """Log the first of a topic partition: it says nothing of how far its messages are."""
        if topic_partition not in self._from_future:
            self._from_future.add(topic_partition)
            self._observer.timestamp_from_future(topic_partition, timestamp)

    def _commit_tables(
        self,
        staged: Sequence[Staged],
        request: CommitRequest,
        committed: Callable[[TableResult], None],
    ) -> dict[str, TableResult]:
        tables = sorted(
            {
                files.table
                for item in staged
                if item.manifest is not None
                for files in item.manifest.tables
            }
        )
        results = {}

        def commit_table(table: str) -> TableResult:
            return self._committer.commit(table, staged, request)

        for result in self._parallel(commit_table, tables):
            results[result.table] = result
            # It was listed in its short form; the next cycle reads it whole.
            if isinstance(result.error, ManifestNeeded):
                self._staging.forget([result.error.key])
            self._observer.table_committed(result)
            if result.result is Result.COMMITTED:
                committed(result)
        return results

    def _release_done(
        self,
        staged: Sequence[Staged],
        results: Mapping[str, TableResult],
        topic_ids: Mapping[str, str | None],
    ) -> None:
        """Forget the files of manifests that all their tables have; delete them some time after
        they were put.

        A put that was superseded may come late.  While the manifest exists it meets "already
        there"; afterwards it would be taken for new by a table that the range is not for.
        One of an earlier topic of the name goes at once: its ranges are in the way of the
        present topic's, and whatever comes late of it is known by its id.
        """
        now = self._clock.now()
        for item in staged:
            if not is_done(item, results):
                continue
            if is_of_earlier_topic(item, topic_ids):
                self._staging.delete_of_earlier_topic(item)
            elif now - item.listed.modified >= self._keep:
                if item.listed.replay:
                    # The record first, then the manifest: without the record, a process that wakes
                    # late would stage the replay once more, and the tables may have forgotten it.
                    self._committer.finish_replay(item)
                self._staging.delete(item.listed)
            elif not item.outlined and not item.listed.replay:
                self._staging.outline(item)

    def _with_present_keys(
        self, staged: Sequence[Staged], results: Mapping[str, TableResult]
    ) -> dict[str, TableResult]:
        """Return the results; of a table that could not be seen, with what it had before.

        Manifests stay for an hour: without that, all of them would count as not committed.
        """
        seen = dict(results)
        for table, result in results.items():
            if result.error is None:
                keys = (item.listed.key for item in staged if not lacks(item, table, results))
                self._present_keys[table] = frozenset(keys)
            elif not (isinstance(result.error, TableStopped) and result.error.reason in LOST_ROWS):
                seen[table] = replace(result, done=self._present_keys.get(table, frozenset()))
        return seen

    def _report(
        self,
        staged: Sequence[Staged],
        results: Mapping[str, TableResult],
        ends: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, int],
    ) -> None:
        results = self._with_present_keys(staged, results)
        waiting = [
            item
            for item in staged
            if not is_done(item, results) and not is_committed(item, results)
        ]
        self._tables |= results.keys()

        def is_behind(item: Staged, table: str) -> bool:
            # Besides a file that is refused, the table has what comes later.
            result = results.get(table)
            waits = result is not None and has_refused(item, result)
            return not waits and lacks(item, table, results)

        lacking = lacking_by_table(staged, is_behind)
        self._observer.staged(
            replace(
                backlog(waiting),
                by_table=backlog_by_table(staged, results),
                lag=lag_by_table(sorted(self._tables), self._feeds, ends, committed, lacking),
            )
        )
