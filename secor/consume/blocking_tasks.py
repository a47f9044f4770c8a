"""Blocking work, off the loop: positions are found, sealed batches uploaded, results come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.batch.batch import SealedBatch
from secor.commit.uploader import Outcome, Uploader
from secor.consume.partition import Partition
from secor.consume.positioning import Position, Positioning
from secor.core.errors import SecorError
from secor.core.ports import Clock, Executor


@dataclass(frozen=True, slots=True)
class Positioned:
    """Where a topic partition begins, or why nobody can tell."""

    partition: Partition
    result: Position | SecorError


@dataclass(frozen=True, slots=True)
class Uploaded:
    """How the ritual of a batch ended."""

    partition: Partition
    batch: SealedBatch
    outcome: Outcome


class Errands:
    """Gives work to an executor, for each partition one piece at a time."""

    def __init__(
        self, executor: Executor, positioning: Positioning, uploader: Uploader, clock: Clock
    ) -> None:
        self._executor = executor
        self._positioning = positioning
        self._uploader = uploader
        self._clock = clock

    def finished(self) -> Sequence[object]:
        """Return ``Positioned`` and ``Uploaded`` since the last call."""
        return self._executor.finished()

    def position(self, partition: Partition) -> None:
        """Have its position found."""
        partition.in_work = True
        key, since = partition.topic_partition, self._clock.monotonic()

        def find() -> Positioned:
            found = self._positioning.find(key, since, lambda: partition.wanted)
            return Positioned(partition, found)

        self._executor.submit(find)

    def upload(self, partition: Partition) -> None:
        """Have its first sealed batch uploaded, unless it has to wait."""
        if not partition.queue or partition.in_work:
            return
        if self._clock.monotonic() < partition.not_before:
            return
        batch = partition.queue[0]
        partition.in_work = True
        self._executor.submit(
            lambda: Uploaded(
                partition, batch, self._uploader.upload(batch, lambda: partition.wanted)
            )
        )
