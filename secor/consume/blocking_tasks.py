"""Blocking work off the loop: finds positions and uploads sealed batches in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.batch.sealed import SealedBatch
from secor.commit.uploader import Outcome, Uploader
from secor.consume.partition import Partition
from secor.consume.partition_states import Reading, Uploading
from secor.consume.positioning import PositionFinder, StartPosition
from secor.core.errors import MessagesUnwritable, SecorError
from secor.core.ports import Clock, Executor


@dataclass(frozen=True, slots=True)
class PositionResult:
    """The position at which a topic partition begins, or the error of the search."""

    partition: Partition
    result: StartPosition | SecorError


@dataclass(frozen=True, slots=True)
class UploadResult:
    """The result of uploading a batch."""

    partition: Partition
    batch: SealedBatch
    outcome: Outcome


class BlockingTasks:
    """Gives tasks to an executor.  By the state tables a partition has at most one."""

    def __init__(
        self, executor: Executor, positioning: PositionFinder, uploader: Uploader, clock: Clock
    ) -> None:
        self._executor = executor
        self._positioning = positioning
        self._uploader = uploader
        self._clock = clock

    def finished(self) -> Sequence[object]:
        """Return ``PositionResult`` and ``UploadResult`` since the last call."""
        return self._executor.finished()

    def suspect(self, partition: Partition, error: MessagesUnwritable) -> bool:
        """Have messages tried one by one from the next position on; False where none can be."""
        return self._positioning.suspect(partition.topic_partition, error)

    def locate(self, partition: Partition) -> None:
        """Have its position found, for as long as somebody wants to know it."""
        key, since, states = partition.topic_partition, self._clock.monotonic(), partition.states

        def find() -> PositionResult:
            position = self._positioning.find(
                key, since, lambda: states.reading is Reading.LOCATING
            )
            return PositionResult(partition, position)

        self._executor.submit(find)

    def upload(self, partition: Partition) -> None:
        """Have its first sealed batch uploaded, for as long as somebody wants it."""
        # Taken in the loop, not in the thread: the deque belongs to the loop.
        batch, states = partition.sealed[0], partition.states

        def upload() -> UploadResult:
            # The state is read by the thread without a lock: it is one reference, and an answer
            # that is a moment old costs one attempt more, never a wrong commit.
            outcome = self._uploader.upload(batch, lambda: states.uploading is Uploading.UPLOADING)
            return UploadResult(partition, batch, outcome)

        self._executor.submit(upload)
