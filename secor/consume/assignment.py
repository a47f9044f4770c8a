"""The topic partitions of this member: assigned ones, and retired ones that still upload."""

from __future__ import annotations

from collections.abc import Iterator

from secor.consume.partition import Partition
from secor.consume.partition_states import PartitionStates, Reading, Waits
from secor.core.model import TopicPartition


class Assignment:
    """Assigned partitions, and retired ones whose sealed batches are still on their way."""

    def __init__(self, waits: Waits) -> None:
        """Begin with none."""
        self._waits = waits
        self._assigned: dict[TopicPartition, Partition] = {}
        self._retired: list[Partition] = []
        self._revoked: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        """Yield the assigned partitions; they may change meanwhile."""
        return iter(list(self._assigned.values()))

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition if it is assigned."""
        return self._assigned.get(topic_partition)

    @property
    def retired(self) -> tuple[Partition, ...]:
        """Partitions that are no longer read and had not ended at the last ``forget_ended``."""
        return tuple(self._retired)

    def must_wait(self, partition: Partition) -> bool:
        """Tell whether it waits for an earlier reading of the same topic partition to end."""
        key = partition.topic_partition
        return partition.states.reading is Reading.WAITING and any(
            old.topic_partition == key and not old.states.ended for old in self._retired
        )

    def begin(self, topic_partition: TopicPartition, wake_at: float) -> Partition:
        """Add it in its first state, until ``wake_at`` (monotonic seconds)."""
        partition = Partition(topic_partition, PartitionStates(wake_at, self._waits))
        self._assigned[topic_partition] = partition
        return partition

    def retire(self, partition: Partition) -> None:
        """Take it out of the assigned ones."""
        del self._assigned[partition.topic_partition]
        self._retired.append(partition)

    def revoke(self, topic_partition: TopicPartition) -> None:
        """Remember to release it when nothing of it is in work any more."""
        self._revoked.add(topic_partition)

    def forget_ended(self) -> list[TopicPartition]:
        """Forget retired partitions that have ended; return revoked ones to release now."""
        self._retired = [partition for partition in self._retired if not partition.states.ended]
        in_work = {partition.topic_partition for partition in self._retired}
        release = sorted(self._revoked - in_work)
        self._revoked &= in_work
        return release
