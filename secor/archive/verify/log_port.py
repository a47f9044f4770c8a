"""The port of verification to Kafka: the range of a log and its messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from secor.core.model import Chunk, LogRange, TopicPartition


class Log(Protocol):
    """The topics as they are in Kafka.  All raise ``Unavailable``."""

    def read(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Give the committed messages of ``[start, end)``; the last chunk reaches ``end``."""

    def log_range(self, topic_partition: TopicPartition) -> LogRange:
        """Return the first offset and the last stable offset."""
