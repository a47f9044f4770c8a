"""The metrics of one daemon of a restore: a process of its own, with no other metrics."""

from __future__ import annotations

import threading

from secor.service.metrics_registry import MetricsRegistry

SOURCE = ("topic", "partition")
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
KIB = 1024
BYTES = tuple(float(KIB * 8**power) for power in range(2, 8))
"""64 KiB to 2 GiB."""


class RestoreMetrics(MetricsRegistry):
    """Topics and partitions are the archive's."""

    def __init__(self) -> None:
        """Begin with every metric at nothing."""
        super().__init__()
        self._make_build_info()
        self.reported_at = self._gauge(
            "secor_reported_timestamp_seconds",
            (),
            "When the loop last renewed these metrics, in seconds since 1970.",
        )
        self._lock = threading.Lock()
        self._failing: dict[tuple[str, str], str] = {}
        self._make_flow()
        self._make_state()

    def _make_flow(self) -> None:
        self.messages = self._counter(
            "secor_restore_messages_total", ("topic",), "Messages in committed transactions."
        )
        self.bytes = self._counter(
            "secor_restore_bytes_total", ("topic",), "Bytes of these messages in memory."
        )
        self.transactions = self._counter(
            "secor_restore_transactions_total",
            ("result",),
            "Transactions by how they ended: committed, aborted (the broker wanted it: its messages"
            " are written again), skipped (the source wanted it).",
        )
        self.transaction_seconds = self._histogram(
            "secor_restore_transaction_duration_seconds",
            SECONDS,
            "From the beginning of a transaction to its commit.",
        )
        self.transaction_bytes = self._histogram(
            "secor_restore_transaction_bytes", BYTES, "Bytes of a committed transaction."
        )
        self.errors = self._counter(
            "secor_restore_errors_total",
            ("error",),
            "Errors that ended a transaction or the opening of source partitions, by error.",
        )

    def _make_state(self) -> None:
        self.open_transaction = self._gauge(
            "secor_restore_open_transaction_seconds",
            (),
            "Age of the oldest open transaction: readers of its targets wait for it; 0 without.",
        )
        self.left = self._gauge(
            "secor_restore_left_offsets", SOURCE, "Archived offsets that are not written yet."
        )
        self.failing = self._gauge(
            "secor_restore_failing",
            (*SOURCE, "reason"),
            "1 while a source partition waits for a person; it is tried again now and then.",
        )
        self.source_partitions = self._gauge(
            "secor_restore_source_partitions",
            ("phase",),
            "Source partitions of this process: closed, opening, ready, working, exhausted,"
            " failed.",
        )
        self.state = self._gauge(
            "secor_restore_state",
            ("state",),
            "1 for what is wanted of the job: running, paused or stopped.",
        )

    def fail(self, topic: str, partition: int, reason: str) -> None:
        """Say that a source partition waits for a person, and why."""
        with self._lock:
            self._clear(topic, str(partition))
            self._failing[topic, str(partition)] = reason
            self.failing.labels(topic, str(partition), reason).set(1)

    def run(self, topic: str, partition: int) -> None:
        """Say that a source partition does not wait for a person."""
        with self._lock:
            self._clear(topic, str(partition))

    def _clear(self, topic: str, partition: str) -> None:
        reason = self._failing.pop((topic, partition), None)
        if reason is not None:
            self.failing.remove(topic, partition, reason)
