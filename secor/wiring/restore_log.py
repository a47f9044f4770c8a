"""The target's logs, for the threads of a restore."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from secor.adapters.kafka import KafkaReader
from secor.core.model import Chunk, TopicPartition


class LockedLog:
    """A ``TargetLog`` for any number of threads over one reader, which is for one."""

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions."""
        with self._lock:
            return self._reader.partitions(topic)

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        with self._lock:
            return self._reader.cluster_id()

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str | None]:
        """Return the ids of topics by name; None where the brokers have no ids."""
        if not topics:
            return {}
        with self._lock:
            return self._reader.group_topic_ids(topics, None, None)

    def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        """Return the first offset of a time in milliseconds or later; None where there is none."""
        with self._lock:
            return self._reader.offset_at(topic_partition, timestamp)

    def end(self, topic_partition: TopicPartition, *, committed: bool) -> int:
        """Return where the log ends."""
        with self._lock:
            return self._reader.end(topic_partition, committed=committed)

    def start(self, topic_partition: TopicPartition) -> int:
        """Return where the log begins."""
        with self._lock:
            return self._reader.log_range(topic_partition).start

    def know_leaders(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Ask for the leaders of many partitions at once, about to be asked about one by one.

        Otherwise each topic waits half a second for metadata of its own.
        """
        wanted = list(topic_partitions)
        if wanted:
            with self._lock:
                self._reader.ends(wanted)

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give committed messages, from the log's start if ``start`` is below it."""
        with self._lock:
            begin = max(start, self._reader.log_range(topic_partition).start)
            if begin < end:
                yield from self._reader.read(topic_partition, begin, end)
