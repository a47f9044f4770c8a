"""Metrics of each topic partition."""

from __future__ import annotations

from secor.consume.partition_status import Status
from secor.core.ports import Clock
from secor.service.metrics import Metrics
from secor.service.monitoring.lag import (
    lag_offsets,
    lag_seconds,
    waiting_seconds,
    withheld_seconds,
)


class PartitionGauges:
    """Sets the series of one partition from its status."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        """Set nothing yet."""
        self._metrics = metrics
        self._clock = clock

    def measure(self, status: Status, waiting_since: float | None) -> None:
        """Set them; an open intent of an earlier process waits since then (monotonic seconds)."""
        metrics, where = self._metrics, status.topic_partition
        metrics.of(metrics.messages_lost, where)  # zeros, for alerts to see the increase
        metrics.of(metrics.uploads, where, "committed")
        now = self._clock.monotonic()
        behind = lag_offsets(status)
        if behind is None:
            metrics.drop(metrics.lag_offsets, where)
        else:
            metrics.of(metrics.lag_offsets, where).set(behind)
        metrics.of(metrics.lag_seconds, where).set(lag_seconds(status, self._clock.now(), now))
        metrics.of(metrics.oldest_uncommitted, where).set(waiting_seconds(status, now) or 0.0)
        withheld = 0 if status.withheld is None else status.withheld.offsets
        metrics.of(metrics.withheld_offsets, where).set(withheld)
        waits = withheld_seconds(status, self._clock.now())
        metrics.of(metrics.withheld_seconds, where).set(waits)
        if status.committed_at is not None:
            metrics.of(metrics.commit_age, where).set(now - status.committed_at)
        age = 0.0 if waiting_since is None else now - waiting_since
        metrics.of(metrics.intent_open, where).set(age)
