"""The core's observer: it makes metrics, log lines and readiness."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog

from secor.consume.partition_status import ReadingState, Status
from secor.core.errors import (
    MessagesUnwritable,
    OutcomeUnknown,
    RecordRefused,
    SchemaGrew,
    SecorError,
    StopPartition,
    Unavailable,
)
from secor.core.model import OffsetRange, TopicPartition
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.monitoring.commit_log import CommitLog
from secor.service.monitoring.health import Health, reasons_to_wait
from secor.service.monitoring.lag import OpenTransactions
from secor.service.monitoring.partition_gauges import PartitionGauges
from secor.service.monitoring.troubles import EndedTrouble, Troubles

MOST_LISTED = 20
"""Fields that a log line names."""

MOST_LOGGED = 1000
"""Fields and topics that have lines of their own in the log of a process."""

DECLARE = "declare the schema (output.schema_file) if that is wrong, then 'secor quarantine replay'"


def _first(texts: Sequence[str]) -> list[str]:
    return [*texts[:MOST_LISTED], *(["..."] if len(texts) > MOST_LISTED else [])]


class Witness(Protocol):
    """Remembers what happened last; called from any thread."""

    def failed(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Something went wrong."""

    def committed(self, topic_partition: TopicPartition, seconds: float) -> None:
        """A batch that was ``seconds`` old was committed."""


class Telemetry:
    """The ``Observer`` of a process.

    Its calls may come from any thread; ``report`` is called by the loop, about once a second.
    """

    def __init__(
        self, metrics: Metrics, health: Health, clock: Clock, witness: Witness | None = None
    ) -> None:
        """Begin with no partition."""
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._witness = witness
        self._log = structlog.get_logger("secor.partition")
        self._lock = threading.Lock()
        self._left: set[TopicPartition] = set()
        self._logged: set[str] = set()
        self._touched: set[TopicPartition] = set()
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._statuses: Sequence[Status] = ()
        self._waiting_since: dict[TopicPartition, float] = {}
        self._troubles = Troubles(clock)
        self._transactions = OpenTransactions(clock)
        self._commits = CommitLog(clock)
        self._gauges = PartitionGauges(metrics, clock)
        metrics.before_reading(self._measure_partitions)

    # ------------------------------------------------------------ the observer

    def consumed(self, topic_partition: TopicPartition, messages: int, size: int) -> None:
        """Count messages in."""
        self._metrics.of(self._metrics.messages, topic_partition).inc(messages)
        self._metrics.of(self._metrics.bytes, topic_partition).inc(size)

    def quarantined(self, topic_partition: TopicPartition, stage: str, messages: int) -> None:
        """Count messages that cannot be parsed."""
        self._metrics.of(self._metrics.quarantined, topic_partition, stage).inc(messages)

    def filtered(self, topic_partition: TopicPartition, messages: int) -> None:
        """Count messages left out on purpose."""
        self._metrics.of(self._metrics.filtered, topic_partition).inc(messages)

    def erased(self, topic_partition: TopicPartition, messages: int) -> None:
        """Count messages of erased keys that are not stored."""
        self._metrics.of(self._metrics.erased, topic_partition).inc(messages)

    def other_events(self, topic_partition: TopicPartition, kind: str, messages: int) -> None:
        """Count messages that change no row."""
        self._metrics.of(self._metrics.other_events, topic_partition, kind).inc(messages)

    def undeclared(self, topic_partition: TopicPartition, field: str, values: int) -> None:
        """Count values without a column; log the first of each field."""
        self._metrics.of(self._metrics.undeclared, topic_partition).inc(values)
        if self._is_news(f"undeclared {topic_partition.topic} {field}"):
            remedy = "add the column to the table if the values are wanted"
            self._log_event(
                "warning", "undeclared_values", topic_partition, field=field, remedy=remedy
            )

    def infinite_values(self, topic_partition: TopicPartition, values: int) -> None:
        """Count infinite values, which become null; log the first of each topic."""
        self._metrics.of(self._metrics.infinite_values, topic_partition).inc(values)
        if self._is_news(f"infinite {topic_partition.topic}"):
            remedy = "they are null in the table; secor verify --source names their rows"
            self._log_event("warning", "infinite_values", topic_partition, remedy=remedy)

    def from_future(self, topic_partition: TopicPartition, messages: int, timestamp: int) -> None:
        """Count messages with times in the future; log the first of each topic."""
        self._metrics.of(self._metrics.from_future, topic_partition).inc(messages)
        if self._is_news(f"from the future {topic_partition.topic}"):
            self._log_event(
                "warning",
                "timestamp_from_future",
                topic_partition,
                message_timestamp=timestamp,
                next="stored as it came; look at the clocks of the producers",
            )

    def _is_news(self, fact: str) -> bool:
        """Return true for the first time that a fact is to be logged."""
        with self._lock:
            is_news = fact not in self._logged and len(self._logged) < MOST_LOGGED
            if is_news:
                self._logged.add(fact)
        return is_news

    def put(self, topic_partition: TopicPartition, size: int, seconds: float) -> None:
        """Count an object out."""
        self._metrics.of(self._metrics.uploaded_objects, topic_partition).inc()
        self._metrics.of(self._metrics.uploaded_bytes, topic_partition).inc(size)
        self._metrics.upload_duration.observe(seconds)
        self._touch(topic_partition)

    def uploaded(self, topic_partition: TopicPartition, outcome: str, seconds: float) -> None:
        """Count an upload by its outcome."""
        self._metrics.of(self._metrics.uploads, topic_partition, outcome).inc()
        if outcome == "committed":
            self._metrics.batch_age.observe(seconds)
            if self._witness is not None:
                self._witness.committed(topic_partition, seconds)
        self._touch(topic_partition)
        self._log_event(
            "debug", "uploaded", topic_partition, outcome=outcome, age=round(seconds, 3)
        )

    def committed(
        self,
        topic_partition: TopicPartition,
        batch: OffsetRange,
        objects: int,
        size: int,
        losses: Mapping[str, int],
        seconds: float,
    ) -> None:
        """Log what is stored, count what it lost, and close the errors that are over."""
        for kind, messages in losses.items():
            if messages:
                self._metrics.of(self._metrics.losses, topic_partition, kind).inc(messages)
        self._touch(topic_partition)
        self._commits.committed(topic_partition, batch, objects, size, seconds)
        self._log_ended(self._troubles.committed(topic_partition))

    def ready(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Count the delay; a producer's clock may be ahead."""
        self._metrics.delay.observe(max(0.0, seconds))

    def retried(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Count another try."""
        self._failed(topic_partition, error)
        self._metrics.retries.labels(snake(type(error))).inc()
        self._log_failure("retried", topic_partition, error)

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        """Count what recovery found."""
        self._metrics.of(self._metrics.adopted_objects, topic_partition).inc(objects)
        self._touch(topic_partition)
        self._log_event("info", "adopted", topic_partition, objects=objects)

    def superseded(self, topic_partition: TopicPartition) -> None:
        """Count an intent of another configuration."""
        self._metrics.of(self._metrics.superseded, topic_partition).inc()
        self._touch(topic_partition)
        self._log_event("info", "superseded", topic_partition)

    def waits(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Log why a batch is not stored yet."""
        self._log_event("info", "superseded_waits", topic_partition, seconds=round(seconds, 1))

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Count what retention took."""
        self._metrics.of(self._metrics.messages_lost, topic_partition).inc(end - start)
        self._touch(topic_partition)
        self._log_event("error", "messages_lost", topic_partition, start=start, end=end)

    def died(self, topic_partition: TopicPartition, suspected: OffsetRange) -> None:
        """Log the messages that an earlier process of this machine died over."""
        span = {"start": suspected.start, "end": suspected.end}
        self._log_event("warning", "died_parsing", topic_partition, **span)

    def left_out(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """Log the message that is in quarantine unparsed."""
        self._log_event("error", "message_left_out", topic_partition, offset=offset, reason=reason)

    def schema_grew(
        self, topic: str, version: int, fields: Sequence[str], outvoted: Sequence[str]
    ) -> None:
        """Log the fields that a topic has now, and which of their values are in quarantine."""
        grown = {"topic": topic, "version": version, "fields": _first(fields)}
        if outvoted:
            self._log.warning("schema_grew", **grown, quarantined=_first(outvoted), remedy=DECLARE)
        else:
            self._log.info("schema_grew", **grown)

    def restarted(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Count a new beginning."""
        if not isinstance(error, SchemaGrew):  # that is no fault
            self._failed(topic_partition, error)
        self._metrics.of(self._metrics.restarts, topic_partition, snake(type(error))).inc()
        self._log_cause(topic_partition, error)
        self._log_failure("restarted", topic_partition, error)

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Show that a person must look."""
        self._failed(topic_partition, error)
        reason = error.reason if isinstance(error, StopPartition) else snake(type(error))
        self._metrics.runs(topic_partition)
        # After ``runs`` has taken away an earlier reason: a partition has one series of these at
        # most.
        self._metrics.of(self._metrics.partition_stopped, topic_partition, reason).set(1)
        self._log_cause(topic_partition, error)
        self._log_event("error", "stopped", topic_partition, error=str(error), reason=reason)

    def running(self, topic_partition: TopicPartition) -> None:
        """Show that it reads."""
        self._metrics.runs(topic_partition)
        self._log_event("info", "running", topic_partition)

    def fetch_restarted(
        self, topic_partition: TopicPartition, offset: int, end: int, seconds: float, cause: str
    ) -> None:
        """Count a fetch that begins anew: nothing came from ``offset`` on for ``seconds``."""
        self._metrics.of(self._metrics.fetch_restarts, topic_partition).inc()
        self._touch(topic_partition)
        self._log_event(
            "warning",
            "fetch_restarted",
            topic_partition,
            offset=offset,
            end=end,
            seconds=round(seconds),
            cause=cause,
        )

    def left(self, topic_partition: TopicPartition) -> None:
        """Forget a partition."""
        with self._lock:
            self._left.add(topic_partition)
        self._metrics.forget(topic_partition)
        self._log_event("info", "left", topic_partition)

    # -------------------------------------------------------------- the report

    def report(self, statuses: Sequence[Status], *, ledger_up: bool) -> None:
        """Set what is measured rather than counted, and return whether the process is ready.

        What is measured of each partition is set when somebody reads the metrics.
        """
        assigned = frozenset(status.topic_partition for status in statuses)
        if assigned != self._assigned:
            self._metrics.rebalances.inc()
            self._assigned = assigned
        self._forget_latecomers(assigned)
        self._metrics.assigned_partitions.set(len(assigned))
        self._metrics.starting.set(0)
        self._metrics.ledger_up.set(ledger_up)
        self._metrics.reported.set(self._clock.now())
        self._metrics.memory_bytes.set(sum(status.buffered for status in statuses))
        self._metrics.local_bytes.set(sum(status.local for status in statuses))
        now, earlier = self._clock.monotonic(), self._waiting_since
        waiting = [status.topic_partition for status in statuses if status.intent_end is not None]
        with self._lock:
            self._statuses = statuses
            self._waiting_since = {where: earlier.get(where, now) for where in waiting}
        self._log_ended(self._troubles.look(statuses))
        self._commits.look()
        stopped = sum(status.state is ReadingState.STOPPED for status in statuses)
        reasons = reasons_to_wait(assigned=len(assigned), stopped=stopped, ledger_up=ledger_up)
        remarks = self._transactions.look(statuses)
        self._health.waiting([*reasons, *self._troubles.reasons()], remarks)

    def _measure_partitions(self) -> None:
        for status in self._statuses:
            where = status.topic_partition
            # A partition that leaves now is forgotten after this, with all that is set here.
            # Locked for each alone: the loop does not wait for all of them.
            with self._lock:
                if where not in self._left:
                    self._gauges.measure(status, self._waiting_since.get(where))

    def _failed(self, topic_partition: TopicPartition, error: SecorError) -> None:
        if self._witness is not None:
            self._witness.failed(topic_partition, error)

    def _log_cause(self, where: TopicPartition, error: SecorError) -> None:
        """Log the traceback where a library, a plug-in or Secor failed over messages.

        It may be a defect.  The search for the messages that follows raises no cause again.
        """
        cause = error.__cause__
        if isinstance(error, MessagesUnwritable | RecordRefused) and cause is not None:
            self._log_event("error", "failed_over_messages", where, exc_info=cause)

    def _log_failure(self, event: str, where: TopicPartition, error: SecorError) -> None:
        """Log an error: as a warning where a person has to act and was not warned yet."""
        level = self._troubles.happened(where, error)
        fields = {"error": str(error), "kind": snake(type(error))}
        if level == "warning" and isinstance(error, Unavailable | OutcomeUnknown):
            fields["next"] = "tried again until it answers; secor doctor looks at all servers"
        self._log_event(level, event, where, **fields)

    def _log_ended(self, ended: Sequence[EndedTrouble]) -> None:
        for trouble in ended:
            self._log.info(
                "over",
                kind=snake(trouble.kind),
                seconds=round(trouble.seconds),
                times=trouble.count,
            )

    def _touch(self, topic_partition: TopicPartition) -> None:
        """Remember that a series may have been made anew after its partition had left."""
        with self._lock:
            if topic_partition in self._left:
                self._touched.add(topic_partition)

    def _forget_latecomers(self, assigned: frozenset[TopicPartition]) -> None:
        with self._lock:
            # First those that came back: their series are wanted again.
            self._left -= assigned
            late = self._touched - assigned
            self._touched = set()
        for topic_partition in late:
            self._metrics.forget(topic_partition)

    def _log_event(self, level: str, event: str, where: TopicPartition, **fields: object) -> None:
        log = getattr(self._log, level)
        log(event, topic=where.topic, partition=where.partition, **fields)


def snake(kind: type[SecorError]) -> str:
    """Return the name of an error's class as a label: ``lease_lost``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
