"""What was last known of partitions that are not read now, for their lag and age to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from secor.consume.partition_status import State, Status
from secor.core.model import TopicPartition
from secor.core.ports import Clock


class LastKnown:
    """Completes statuses: a partition that restarts or stops forgets where it was."""

    def __init__(self, clock: Clock) -> None:
        """Know nothing yet."""
        self._clock = clock
        self._read: dict[TopicPartition, Status] = {}
        self._stopped_at: dict[TopicPartition, float] = {}

    def complete(self, statuses: Sequence[Status]) -> list[Status]:
        """Return the statuses with what was last known where they say nothing.

        A partition that is stopped, and looked at again each minute, is shown as stopped since
        it first was.
        """
        assigned = {status.topic_partition for status in statuses}
        for known in (self._read, self._stopped_at):
            for gone in known.keys() - assigned:
                del known[gone]
        return [self._complete(status) for status in statuses]

    def _complete(self, status: Status) -> Status:
        key = status.topic_partition
        if status.state is State.READING:
            self._read[key] = status
            self._stopped_at.pop(key, None)
            return status
        if status.state is State.STOPPED:
            self._stopped_at.setdefault(key, self._clock.monotonic())
        known = self._read.get(key)
        if known is not None:
            status = replace(
                status,
                committed=known.committed if status.committed is None else status.committed,
                committed_at=(
                    known.committed_at if status.committed_at is None else status.committed_at
                ),
                last_timestamp=known.last_timestamp,
            )
        return replace(status, stopped_at=self._stopped_at.get(key))
