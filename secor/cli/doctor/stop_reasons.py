"""Reasons why partitions of a group are stopped, for the commands that show progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from secor.archive.repair.stop_reason import divergence, first_object, stop_reason
from secor.cli.open_archive import archive_of, earlier_routes
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    LedgerCorrupt,
    LedgerLost,
    StopPartition,
    TableUnusable,
    Unavailable,
)
from secor.core.model import Entry, LogRange, TopicPartition
from secor.core.ports import ObjectStore, OffsetLedger

CLOCK = SystemClock()


class TopicIds(Protocol):
    """A view of the brokers: ids of topics."""

    def topic_id(self, topic: str) -> str | None:
        """Return a topic's id; None where brokers have none."""

    def cluster_id(self) -> str:
        """Return the id of the cluster."""


class LogRanges(Protocol):
    """A view of the brokers: ranges of logs."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return the offsets that the log has."""

    def epoch_end(self, topic_partition: TopicPartition, leader_epoch: int) -> int | None:
        """Return where a leader epoch ends in the log; None where its leader does not say."""


class StopReasons:
    """Finds them; the store is opened only if an entry is missing."""

    def __init__(self, config: Config, brokers: TopicIds, opened: ExitStack) -> None:
        """``opened`` closes what is opened here."""
        self._config = config
        self._brokers = brokers
        self._opened = opened
        self._ids: dict[str, str | None] = {}
        self._noted: dict[str, str | None] = {}
        self._store: ObjectStore | None = None
        self._refuse_lost: Callable[[TopicPartition, str | None, float], None] | None = None

    def find(
        self, topic_partition: TopicPartition, entry: Entry, log: LogRange
    ) -> StopPartition | None:
        """Return why this topic partition is stopped; None if it is not."""
        topic = topic_partition.topic
        if topic not in self._ids:
            self._ids[topic] = self._brokers.topic_id(topic)
        reason = stop_reason(
            topic_partition,
            entry,
            log,
            self._ids[topic],
            first_object=partial(self._first_object, topic_partition),
            stops_at_loss=self._config.kafka.on_data_loss == "stop",
            starts=self._config.kafka.reset != "none",
        )
        if reason is None and entry.committed is None and self._config.group.kind == "table":
            return self._known_to_tables(topic_partition, self._ids[topic])
        return reason

    def look(
        self, ledger: OffsetLedger, brokers: LogRanges, topic_partition: TopicPartition
    ) -> tuple[Entry, LogRange, StopPartition | None]:
        """Return the entry (an empty one where it is unreadable), the log, and what stops it."""
        entry, corrupt = Entry(None), None
        try:
            entry = ledger.read(topic_partition)
        except LedgerCorrupt as error:
            corrupt = error
        # After the entry: a commit in between would look like a log that lost its end.
        log = brokers.log_range(topic_partition)
        stopped = corrupt or self.find(topic_partition, entry, log)
        if stopped is None:
            stopped = divergence(topic_partition, entry, log, brokers.epoch_end)
        waits = log.end > (log.start if entry.committed is None else entry.committed)
        if stopped is None and waits and self._config.group.kind == "table":
            stopped = self._without_plan(topic_partition.topic)
        return entry, log, stopped

    def _first_object(self, topic_partition: TopicPartition) -> str | None:
        """Look into the store; one that does not answer is another command's business."""
        config, topic = self._config, topic_partition.topic
        if config.group.kind == "table":
            return None  # its data files belong to tables, not to names
        try:
            store = self._open_store()
            archive = archive_of(config, topic, store, earlier_routes(config, store))
            generation = config.for_topic(topic).output.generation
            return first_object(archive, topic_partition, generation)
        except (AccessDenied, Unavailable):
            return None

    def _without_plan(self, topic: str) -> StopPartition | None:
        """Return why a daemon could make no plan for a topic that has messages to stage."""
        from secor.tables.commit.plan_notes import PlanNotes

        if topic not in self._noted:
            try:
                notes = PlanNotes(self._open_store(), self._config.output.prefix)
                self._noted[topic] = next(notes.stops(topic), None)
            except (AccessDenied, Unavailable):
                return None
        why = self._noted[topic]
        return None if why is None else TableUnusable(why)

    def _known_to_tables(
        self, topic_partition: TopicPartition, topic_id: str | None
    ) -> StopPartition | None:
        """Look into tables and manifests; what does not answer is another command's business."""
        from secor.wiring.table_catalogs import open_tables
        from secor.wiring.table_entries import guard_of_first_entries

        try:
            if self._refuse_lost is None:
                catalog, _ = open_tables(self._config)
                self._refuse_lost = guard_of_first_entries(
                    self._config, catalog, self._open_store(), self._brokers.cluster_id, CLOCK
                )
            self._refuse_lost(topic_partition, topic_id, 0.0)
        except StopPartition as error:
            return error
        except (AccessDenied, ConfigurationError, Unavailable):
            pass
        return None

    def _open_store(self) -> ObjectStore:
        from secor.wiring.clients import open_store

        if self._store is None:
            self._store = self._opened.enter_context(open_store(self._config))
        return self._store


def next_to_store(
    config: Config, committed: int | None, log: LogRange, stopped: StopPartition | None
) -> int | None:
    """Return the offset of the next message to store: without an entry by the reset rule.

    None where an entry is lost or unreadable, so that nobody knows.
    """
    if committed is not None or isinstance(stopped, LedgerLost | LedgerCorrupt):
        return committed
    return log.end if config.kafka.reset == "latest" else log.start


def sentence(topic_partition: TopicPartition, error: StopPartition) -> str:
    """Return ``stopped (reason): why and what to do``, for a line that names the partition."""
    return f"stopped ({error.reason}): {str(error).removeprefix(f'{topic_partition}: ')}"
