"""What the core does, as metrics and log lines."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from secor.errors import SecorError, StopPartition
from secor.health import Health, reasons_to_wait
from secor.metrics import Metrics
from secor.model import TopicPartition
from secor.partition import State, Status
from secor.ports import Clock


class Reporter:
    """An ``Observer`` that counts and logs, and turns the loop's status into gauges."""

    def __init__(self, metrics: Metrics, health: Health, clock: Clock) -> None:
        """Log through structlog's configuration."""
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._rebalances = 0
        self._log = structlog.get_logger("secor.core")

    # ------------------------------------------------------------- events

    def consumed(self, topic_partition: TopicPartition, messages: int, size: int) -> None:
        """Count messages and bytes."""
        self._metrics.of(self._metrics.messages, topic_partition).inc(messages)
        self._metrics.of(self._metrics.bytes, topic_partition).inc(size)

    def put(self, topic_partition: TopicPartition, size: int, seconds: float) -> None:
        """Count objects and bytes."""
        self._metrics.of(self._metrics.uploaded_objects, topic_partition).inc()
        self._metrics.of(self._metrics.uploaded_bytes, topic_partition).inc(size)

    def uploaded(self, topic_partition: TopicPartition, outcome: str, seconds: float) -> None:
        """Count the outcome and how long it took."""
        self._metrics.of(self._metrics.uploads, topic_partition, outcome).inc()
        if outcome == "committed":
            self._metrics.upload_duration.observe(seconds)

    def retried(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Count and warn."""
        self._metrics.retries.labels(type(error).__name__).inc()
        self._warn("retrying", topic_partition, error)

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        """Count and log."""
        self._metrics.of(self._metrics.adopted_objects, topic_partition).inc(objects)
        self._log.info("adopted", topic_partition=str(topic_partition), objects=objects)

    def superseded(self, topic_partition: TopicPartition) -> None:
        """Count and warn."""
        self._metrics.of(self._metrics.superseded, topic_partition).inc()
        self._log.warning(
            "superseded",
            topic_partition=str(topic_partition),
            why="the open intent was recorded under another configuration",
        )

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Count and raise the alarm."""
        self._metrics.of(self._metrics.messages_lost, topic_partition).inc(end - start)
        self._log.error(
            "messages_lost",
            topic_partition=str(topic_partition),
            start=start,
            end=end,
            why="retention deleted them before they were stored",
        )

    def restarted(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Count and warn."""
        reason = type(error).__name__
        self._metrics.of(self._metrics.restarts, topic_partition, reason).inc()
        self._warn("restarted", topic_partition, error)

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Show and raise the alarm."""
        reason = error.reason if isinstance(error, StopPartition) else type(error).__name__
        stopped = self._metrics.of(self._metrics.partition_stopped, topic_partition, reason)
        stopped.set(1)
        self._log.error(
            "stopped", topic_partition=str(topic_partition), reason=reason, why=str(error)
        )

    def running(self, topic_partition: TopicPartition) -> None:
        """Take the alarm back."""
        self._metrics.runs(topic_partition)
        self._log.info("reading", topic_partition=str(topic_partition))

    def left(self, topic_partition: TopicPartition) -> None:
        """Remove its series."""
        self._metrics.forget(topic_partition)
        self._log.info("revoked", topic_partition=str(topic_partition))

    def _warn(self, event: str, topic_partition: TopicPartition, error: SecorError) -> None:
        self._log.warning(
            event,
            topic_partition=str(topic_partition),
            error=type(error).__name__,
            why=str(error),
        )

    # ------------------------------------------------------------- gauges

    def report(self, statuses: Sequence[Status], *, ledger_up: bool, rebalances: int) -> None:
        """Set the gauges and the readiness."""
        metrics = self._metrics
        for status in statuses:
            self._gauges(status)
        # An upload that outlives its assignment counts, and so makes series again.
        for gone in metrics.partitions() - {status.topic_partition for status in statuses}:
            metrics.forget(gone)
        metrics.assigned_partitions.set(len(statuses))
        metrics.ledger_up.set(ledger_up)
        metrics.local_bytes.set(sum(status.local for status in statuses))
        metrics.memory_bytes.set(sum(status.buffered for status in statuses))
        metrics.rebalances.inc(rebalances - self._rebalances)
        self._rebalances = rebalances
        self._health.waiting(reasons_to_wait(assigned=len(statuses), ledger_up=ledger_up))

    def _gauges(self, status: Status) -> None:
        monotonic = self._clock.monotonic()

        def age(since: float | None) -> float:
            return 0.0 if since is None else monotonic - since

        metrics, tp = self._metrics, status.topic_partition
        metrics.of(metrics.oldest_uncommitted, tp).set(age(status.oldest_batch))
        metrics.of(metrics.commit_age, tp).set(age(status.committed_at))
        waiting = status.intent_end is not None and status.state is State.READING
        metrics.of(metrics.intent_open, tp).set(age(status.committed_at) if waiting else 0)
        if status.committed is None or status.known_end is None:
            return
        metrics.of(metrics.lag_offsets, tp).set(max(0, status.known_end - status.committed))
        behind = status.next_offset is None or status.next_offset < status.known_end
        metrics.of(metrics.lag_seconds, tp).set(self._lag_seconds(status) if behind else 0)

    def _lag_seconds(self, status: Status) -> float:
        if status.last_timestamp is None:
            return 0.0
        return max(0.0, self._clock.now() - status.last_timestamp / 1000)


def status_line(statuses: Sequence[Status]) -> str:
    """Return one line for people: what this process does, or why it does nothing."""
    if not statuses:
        return "no topic partitions assigned"
    states = {state: sum(s.state is state for s in statuses) for state in State}
    parts = [f"{count} {state}" for state, count in states.items() if count]
    lag = sum(
        max(0, s.known_end - s.committed)
        for s in statuses
        if s.known_end is not None and s.committed is not None
    )
    return f"{len(statuses)} topic partitions ({', '.join(parts)}), {lag:,} messages behind"
