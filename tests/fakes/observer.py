"""An observer that looks away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secor.core.errors import SecorError
from secor.core.model import OffsetRange, TopicPartition


class SilentObserver:
    """Takes everything and tells nobody."""

    def consumed(self, topic_partition: TopicPartition, messages: int, size: int) -> None:
        """Nothing."""

    def quarantined(self, topic_partition: TopicPartition, stage: str, messages: int) -> None:
        """Nothing."""

    def other_events(self, topic_partition: TopicPartition, kind: str, messages: int) -> None:
        """Nothing."""

    def erased(self, topic_partition: TopicPartition, messages: int) -> None:
        """Nothing."""

    def filtered(self, topic_partition: TopicPartition, messages: int) -> None:
        """Nothing."""

    def undeclared(self, topic_partition: TopicPartition, field: str, values: int) -> None:
        """Nothing."""

    def infinite_values(self, topic_partition: TopicPartition, values: int) -> None:
        """Nothing."""

    def from_future(self, topic_partition: TopicPartition, messages: int, timestamp: int) -> None:
        """Nothing."""

    def put(self, topic_partition: TopicPartition, size: int, seconds: float) -> None:
        """Nothing."""

    def uploaded(self, topic_partition: TopicPartition, outcome: str, seconds: float) -> None:
        """Nothing."""

    def committed(
        self,
        topic_partition: TopicPartition,
        batch: OffsetRange,
        objects: int,
        size: int,
        losses: Mapping[str, int],
        seconds: float,
    ) -> None:
        """Nothing."""

    def ready(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Nothing."""

    def retried(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Nothing."""

    def adopted(self, topic_partition: TopicPartition, objects: int) -> None:
        """Nothing."""

    def superseded(self, topic_partition: TopicPartition) -> None:
        """Nothing."""

    def waits(self, topic_partition: TopicPartition, seconds: float) -> None:
        """Nothing."""

    def lost(self, topic_partition: TopicPartition, start: int, end: int) -> None:
        """Nothing."""

    def schema_grew(
        self, topic: str, version: int, fields: Sequence[str], outvoted: Sequence[str]
    ) -> None:
        """Nothing."""

    def died(self, topic_partition: TopicPartition, suspected: OffsetRange) -> None:
        """Nothing."""

    def left_out(self, topic_partition: TopicPartition, offset: int, reason: str) -> None:
        """Nothing."""

    def restarted(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Nothing."""

    def stopped(self, topic_partition: TopicPartition, error: SecorError) -> None:
        """Nothing."""

    def running(self, topic_partition: TopicPartition) -> None:
        """Nothing."""

    def left(self, topic_partition: TopicPartition) -> None:
        """Nothing."""
