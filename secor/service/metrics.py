"""Every metric of the process: name, type, labels and help in one place.

``config/METRICS.md`` is the same list for people.
"""

from __future__ import annotations

import threading
from typing import TypeVar, cast

from prometheus_client import Counter, Gauge, Histogram

from secor.core.model import TopicPartition
from secor.service.metrics_registry import MetricsRegistry
from secor.service.table_metrics import TableMetrics

PARTITION = ("topic", "partition")
PUT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
BATCH_SECONDS = (1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)


Metric = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge)


class Metrics(MetricsRegistry):
    """The metrics of one process, in a registry of its own.

    Series of partitions are made by ``of`` and vanish by ``forget``.
    """

    def __init__(self) -> None:
        """Begin with every metric at nothing."""
        super().__init__()
        self._lock = threading.Lock()
        self._series: dict[TopicPartition, dict[tuple[Metric, tuple[str, ...]], Metric]] = {}
        self._make_flow()
        self._make_progress()
        self._make_incidents()
        self._make_process()
        self.tables = TableMetrics(self._counter, self._gauge, self._histogram)

    def _make_flow(self) -> None:
        self.messages = self._counter(
            "secor_messages_total", PARTITION, "Messages written to local files."
        )
        self.bytes = self._counter(
            "secor_bytes_total", PARTITION, "Bytes of keys and values of these messages."
        )
        self.quarantined = self._counter(
            "secor_quarantined_total",
            (*PARTITION, "reason"),
            "Messages put into quarantine, by the stage of parsing that could not take them.",
        )
        self.filtered = self._counter(
            "secor_filtered_total",
            PARTITION,
            "Messages left out on purpose: by a filter, or because they change no row.",
        )
        self.erased = self._counter(
            "secor_erased_total",
            PARTITION,
            "Messages of erased keys that were not stored (erase.apply).",
        )
        self.other_events = self._counter(
            "secor_other_events_total",
            (*PARTITION, "kind"),
            "Messages left out because they change no row: heartbeat, message, notification, "
            "schema_change, signal, tombstone, transaction, truncate.",
        )
        self.undeclared = self._counter(
            "secor_undeclared_values_total",
            PARTITION,
            "Values that are left out although the table has evolve: of no type yet, or of a name "
            "that no column may have.",
        )
        self.infinite_values = self._counter(
            "secor_infinite_values_total",
            PARTITION,
            "Infinite dates, timestamps and decimals in changes, those of former rows included: no "
            "column holds them, and they become null.",
        )
        self.from_future = self._counter(
            "secor_future_timestamps_total",
            PARTITION,
            "Messages with a timestamp more than a minute ahead of the clock when they were read.",
        )
        self.losses = self._counter(
            "secor_text_losses_total",
            (*PARTITION, "reason"),
            "Messages stored as text that hold its delimiter, which a reader splits there, or have "
            "no value and are left out: delimiter_in_value, no_value.",
        )
        self.uploaded_objects = self._counter(
            "secor_uploaded_objects_total", PARTITION, "Objects put into the store."
        )
        self.uploaded_bytes = self._counter(
            "secor_uploaded_bytes_total", PARTITION, "Bytes of these objects."
        )
        self.adopted_objects = self._counter(
            "secor_adopted_objects_total", PARTITION, "Objects that recovery found in place."
        )
        self.uploads = self._counter(
            "secor_uploads_total",
            (*PARTITION, "outcome"),
            "Uploads of batches by how they ended: committed, restart, stop, later.",
        )
        self.upload_duration = self._histogram(
            "secor_upload_duration_seconds", PUT_SECONDS, "Time to put one object into the store."
        )
        self.batch_age = self._histogram(
            "secor_batch_age_seconds",
            BATCH_SECONDS,
            "Age of a batch at its commit, from its first message on.",
        )
        self.delay = self._histogram(
            "secor_delay_seconds",
            (*BATCH_SECONDS, 21600.0, 86400.0),
            "From the timestamp of a batch's first message to its commit.",
        )

    def _make_progress(self) -> None:
        self.lag_offsets = self._gauge(
            "secor_lag_offsets",
            PARTITION,
            "Offsets between the committed one and the log's end, without those behind an open "
            "transaction.",
        )
        self.lag_seconds = self._gauge(
            "secor_lag_seconds", PARTITION, "Age of the last message read; 0 at the log's end."
        )
        self.oldest_uncommitted = self._gauge(
            "secor_oldest_uncommitted_seconds",
            PARTITION,
            "How long the oldest message in local files has waited for its commit.",
        )
        self.withheld_offsets = self._gauge(
            "secor_withheld_offsets",
            PARTITION,
            "Offsets of the log that nobody may read before an open transaction ends.",
        )
        self.withheld_seconds = self._gauge(
            "secor_withheld_seconds",
            PARTITION,
            "How long they have been waiting, from the start of that transaction on if it is "
            "known; 0 without any.",
        )
        self.commit_age = self._gauge(
            "secor_commit_age_seconds", PARTITION, "Time since the last commit or the assignment."
        )
        self.intent_open = self._gauge(
            "secor_intent_open_seconds",
            PARTITION,
            "How long an intent of an earlier process has been waiting for its end to be read.",
        )

    def _make_incidents(self) -> None:
        self.messages_lost = self._counter(
            "secor_messages_lost_total",
            PARTITION,
            "Offsets that retention removed before they were stored.",
        )
        self.partition_stopped = self._gauge(
            "secor_partition_stopped",
            (*PARTITION, "reason"),
            "1 while a partition goes no further until a person has looked.",
        )
        self.superseded = self._counter(
            "secor_superseded_total", PARTITION, "Intents of another configuration replaced."
        )
        self.restarts = self._counter(
            "secor_restarts_total",
            (*PARTITION, "reason"),
            "Local files dropped to begin again at the ledger's entry, by error.",
        )
        self.retries = self._counter(
            "secor_retries_total", ("error",), "Uploads and positionings tried again, by error."
        )
        self.fetch_restarts = self._counter(
            "secor_fetch_restarts_total",
            PARTITION,
            "Fetches that were restarted: nothing came for a while, though the log went on.",
        )
        self.rebalances = self._counter(
            "secor_rebalances_total", (), "Times that the assigned partitions were seen to change."
        )

    def _make_process(self) -> None:
        self._make_build_info()
        self.starting = self._gauge(
            "secor_starting", (), "1 until store, ledger and brokers have answered, then 0."
        )
        self.ledger_up = self._gauge("secor_ledger_up", (), "1 while the ledger answers, else 0.")
        self.kafka_up = self._gauge(
            "secor_kafka_up",
            (),
            "1 while the group's coordinator and the leaders of all assigned partitions answer, "
            "else 0.",
        )
        self.assigned_partitions = self._gauge(
            "secor_assigned_partitions", (), "Partitions that this process reads."
        )
        self.open_files = self._gauge("secor_open_files", (), "Local files open for writing.")
        self.local_bytes = self._gauge("secor_local_bytes", (), "Bytes of local files.")
        self.local_bytes_limit = self._gauge(
            "secor_local_bytes_limit", (), "limits.local_bytes: near it reading waits."
        )
        self.local_free_bytes = self._gauge(
            "secor_local_free_bytes", (), "Bytes free on the file system of local.directory."
        )
        self.memory_bytes = self._gauge(
            "secor_memory_bytes", (), "Bytes of open batches that are held in memory."
        )
        self.memory_bytes_limit = self._gauge(
            "secor_memory_bytes_limit", (), "limits.memory: near it reading waits."
        )
        self.cluster_kept = self._gauge(
            "secor_cluster_kept_timestamp_seconds",
            ("kind",),
            "When groups' offsets, ACLs, quotas or schemas were last looked at to keep them, in "
            "seconds since 1970; only in the process that does it.",
        )
        self.cluster_failures = self._counter(
            "secor_cluster_failures_total",
            ("kind",),
            "Looks at them that failed, or found groups that this user may not see.",
        )
        self.reported = self._gauge(
            "secor_reported_timestamp_seconds",
            (),
            "When the loop last renewed these metrics, in seconds since 1970.",
        )

    def of(self, metric: M, topic_partition: TopicPartition, *others: str) -> M:
        """Return the series of one partition; ``others`` are the labels after these two."""
        with self._lock:
            series = self._series.setdefault(topic_partition, {})
            metric_object = series.get((metric, others))
            if metric_object is None:
                values = (topic_partition.topic, str(topic_partition.partition), *others)
                metric_object = series[metric, others] = metric.labels(*values)
        return cast("M", metric_object)

    def drop(self, metric: Metric, topic_partition: TopicPartition) -> None:
        """Remove one series of a partition: what it measures is not known."""
        with self._lock:
            if self._series.get(topic_partition, {}).pop((metric, ()), None) is not None:
                metric.remove(topic_partition.topic, str(topic_partition.partition))

    def forget(self, topic_partition: TopicPartition) -> None:
        """Remove all series of a partition that this process no longer reads."""
        with self._lock:
            for metric, others in self._series.pop(topic_partition, {}):
                metric.remove(topic_partition.topic, str(topic_partition.partition), *others)

    def runs(self, topic_partition: TopicPartition) -> None:
        """Remove what says that the partition is stopped, whatever the reason was."""
        with self._lock:
            series = self._series.get(topic_partition, {})
            for metric, others in list(series):
                if metric is self.partition_stopped:
                    metric.remove(topic_partition.topic, str(topic_partition.partition), *others)
                    del series[metric, others]
