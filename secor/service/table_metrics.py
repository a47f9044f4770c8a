"""The metrics of a coordinator, by table."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

TABLE = ("table",)
COMMIT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class TableMetrics:
    """Metrics of tables, made by ``Metrics``; the coordinator reports all tables."""

    def __init__(
        self,
        counter: Callable[[str, tuple[str, ...], str], Counter],
        gauge: Callable[[str, tuple[str, ...], str], Gauge],
        histogram: Callable[[str, tuple[float, ...], str], Histogram],
    ) -> None:
        """Each maker takes a name, labels or buckets, and the help."""
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}
        self._make_commits(counter, gauge, histogram)
        self._make_cycles(counter, gauge, histogram)

    def _make_commits(
        self,
        counter: Callable[[str, tuple[str, ...], str], Counter],
        gauge: Callable[[str, tuple[str, ...], str], Gauge],
        histogram: Callable[[str, tuple[float, ...], str], Histogram],
    ) -> None:
        self.commits = counter(
            "secor_table_commits_total",
            ("table", "result"),
            "Tables in cycles by how they ended: committed, nothing, stopped, failed.",
        )
        self.rows = counter("secor_table_rows_total", TABLE, "Rows committed to the table.")
        self.files = counter("secor_table_files_total", TABLE, "Data files committed to it.")
        self.unordered = counter(
            "secor_table_unordered_keys_total",
            TABLE,
            "Keys changed in several topic partitions in one commit: time decided.",
        )
        self.unknown_values = counter(
            "secor_table_unknown_values_total",
            TABLE,
            "Values that updates left out of rows that the table did not have: they are null.",
        )
        self.conflicts = counter(
            "secor_table_conflicts_total",
            TABLE,
            "Attempts that were refused because the table had changed; they are repeated.",
        )
        self.unknown = counter(
            "secor_table_unknown_total",
            TABLE,
            "Attempts without an answer; the next look at the table settles them.",
        )
        self.commit_seconds = histogram(
            "secor_table_commit_duration_seconds",
            COMMIT_SECONDS,
            "Time to commit one table, all attempts together.",
        )
        self.committed_at = gauge(
            "secor_table_committed_timestamp_seconds",
            TABLE,
            "When the table was last committed, in seconds since 1970.",
        )
        self.valid_through = gauge(
            "secor_table_valid_through_timestamp_seconds",
            TABLE,
            "The table has every message up to this time, in seconds since 1970.",
        )
        self.lag = gauge(
            "secor_table_lag_offsets",
            TABLE,
            "Offsets of its topics that the table did not have when the last cycle ended, without "
            "those behind an open transaction.",
        )
        self.stopped = gauge(
            "secor_table_stopped",
            ("table", "reason"),
            "1: nothing is committed to the table until a person has looked.",
        )
        self.partitions_stopped = gauge(
            "secor_table_stopped_partitions",
            TABLE,
            "Topic partitions that the table takes nothing of until a person has looked.",
        )
        self.refused_files = gauge(
            "secor_table_refused_files",
            TABLE,
            "Staged files that cannot be committed; the table takes the others.",
        )

    def _make_cycles(
        self,
        counter: Callable[[str, tuple[str, ...], str], Counter],
        gauge: Callable[[str, tuple[str, ...], str], Gauge],
        histogram: Callable[[str, tuple[float, ...], str], Histogram],
    ) -> None:
        self.leading = gauge("secor_coordinating", (), "1: this process coordinates the commits.")
        self.epoch = gauge(
            "secor_coordinator_epoch",
            (),
            "When this process took over the coordination, in seconds since 1970.",
        )
        self.cycles = counter(
            "secor_cycles_total",
            ("result",),
            "Cycles by how they ended: complete, partial (some partitions did not answer), failed.",
        )
        self.cycle_seconds = histogram(
            "secor_cycle_duration_seconds", COMMIT_SECONDS, "Time of a cycle, waiting included."
        )
        self.staged_manifests = gauge(
            "secor_staged_manifests", (), "Batches that are not in all of their tables yet."
        )
        self.staged_files = gauge("secor_staged_files", (), "Data files of these batches.")
        self.staged_bytes = gauge("secor_staged_bytes", (), "Bytes of these files.")
        self.staged_oldest = gauge(
            "secor_staged_oldest_timestamp_seconds",
            (),
            "When the oldest of these batches was staged, in seconds since 1970; 0 without any.",
        )
        self.events = counter(
            "secor_control_events_total",
            ("direction", "kind"),
            "Events sent to and received from the control topic; kind unknown for what is none.",
        )

    def stop(self, table: str, reason: str) -> None:
        """Say that a table is stopped, and why."""
        with self._lock:
            self._clear(table)
            self._reasons[table] = reason
            self.stopped.labels(table, reason).set(1)

    def run(self, table: str) -> None:
        """Say that a table is not stopped."""
        with self._lock:
            self._clear(table)

    def step_down(self) -> None:
        """Forget how tables are: the process that coordinates knows."""
        with self._lock:
            self._reasons.clear()
            for gauge in (self.lag, self.stopped, self.partitions_stopped, self.refused_files):
                gauge.clear()

    def _clear(self, table: str) -> None:
        reason = self._reasons.pop(table, None)
        if reason is not None:
            self.stopped.remove(table, reason)
