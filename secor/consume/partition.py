"""One assigned topic partition: its states, its open batch, the batches that wait for upload."""

from __future__ import annotations

from collections import deque

from secor.batch.batch import Batch
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.consume.arrived import Arrived
from secor.consume.partition_states import PartitionStates
from secor.consume.positioning import Position
from secor.core.errors import SecorError
from secor.core.model import TopicPartition


class Partition:
    """What is known of one topic partition from its assignment, or restart, to its end."""

    def __init__(self, topic_partition: TopicPartition, states: PartitionStates) -> None:
        """Begin with neither position nor batch."""
        self.topic_partition = topic_partition
        self.states = states
        self.position: Position | None = None
        self.error: SecorError | None = None
        self.batch: Batch | None = None
        self.sealed: deque[SealedBatch] = deque()
        self.committed: int | None = None
        self.committed_at: float | None = None
        self.stopped_at: float | None = None
        self.last_timestamp: int | None = None
        self.waiting: Arrived | None = None
        """What waits behind a full batch that may not be sealed yet."""
        self.unkept: SecorError | None = None
        """Why the open batch was dropped where it should have been kept."""

    def report_as(self, earlier: Partition) -> None:
        """Report what the ``earlier`` reading knew, so that lag and ages go on meanwhile."""
        self.committed, self.committed_at = earlier.committed, earlier.committed_at
        self.stopped_at, self.last_timestamp = earlier.stopped_at, earlier.last_timestamp

    @property
    def plan(self) -> TopicPlan | None:
        """How its messages are stored, once its position is known."""
        return self.position.plan if self.position is not None else None

    @property
    def upload_on_shutdown(self) -> bool:
        """The open batch is to be uploaded when the process ends."""
        return self.plan is not None and self.plan.upload_on_shutdown

    @property
    def upload_on_revoke(self) -> bool:
        """The open batch is to be uploaded when the topic partition goes."""
        return self.plan is not None and self.plan.upload_on_revoke

    @property
    def waiting_size(self) -> int:
        """Bytes in memory that wait behind a full batch."""
        return self.waiting.size if self.waiting is not None else 0

    def seal(self, reason: Reason) -> None:
        """Move the open batch to the sealed ones.  Raises ``LocalFilesExhausted``."""
        assert self.batch is not None
        self.sealed.append(self.batch.seal(reason))
        self.batch = None

    def drop_batch(self) -> None:
        """Delete the open batch's local files."""
        if self.batch is not None:
            self.batch.drop()
            self.batch = None

    def drop_sealed(self, *, keep: int = 0) -> None:
        """Delete the sealed batches after the first ``keep``."""
        while len(self.sealed) > keep:
            self.sealed.pop().delete()
