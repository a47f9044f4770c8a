"""One assigned topic partition: its states, its open batch, the batches that wait for upload."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from secor.batch.batch import Batch
from secor.batch.cut import held_bytes
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import SealedBatch
from secor.consume.partition_states import PartitionStates
from secor.consume.positioning import StartPosition
from secor.core.errors import CorruptBatch, SecorError
from secor.core.model import Chunk, TopicPartition
from secor.core.ports import Fetched

LARGE = 16 << 20
"""A chunk of so many bytes is one large message; all of its fetch is nearly as large."""


class ArrivedChunks:
    """Chunks in the order of offsets, decoded one by one; ``size`` is what they hold.

    A large chunk is given when the one behind it is decoded as well: mostly there is none, and
    the fetch is given up before a file is made, which takes several times as much memory.
    """

    def __init__(self, fetched: Fetched) -> None:
        """Decode nothing yet."""
        self._fetches: deque[tuple[Iterator[Chunk], int]] = deque()
        self._fetches.append((fetched.chunks(), fetched.size))
        self._decoded: deque[Chunk | CorruptBatch] = deque()

    def next(self) -> Chunk | None:
        """Return the next chunk; None at the end.  Raises ``CorruptBatch``."""
        if not self._decoded:
            self._decode()
        if not self._decoded:
            return None
        decoded = self._decoded.popleft()
        if isinstance(decoded, CorruptBatch):
            raise decoded
        # Look ahead: when the fetch has nothing behind its one large message, its memory is free
        # before a file is written.
        if not self._decoded and held_bytes(decoded) >= LARGE:
            self._decode()
        return decoded

    def _decode(self) -> None:
        """Decode a chunk more, if there is one; fetches that are at their end are given up."""
        while self._fetches:
            try:
                chunk = next(self._fetches[0][0], None)
            except CorruptBatch as error:
                self._decoded.append(error)
                return
            if chunk is not None:
                self._decoded.append(chunk)
                return
            self._fetches.popleft()

    def put_back(self, rest: Chunk) -> None:
        """Have ``rest``, the end of the chunk that was given last, come next."""
        self._decoded.appendleft(rest)

    def extend(self, later: ArrivedChunks | None) -> None:
        """Take what was fetched after this, if anything."""
        if later is not None:
            # ``later`` comes from the poll that was last, so nobody has read of it. Chunks of its
            # own would get behind fetches here and come out of order.
            assert not later._decoded
            self._fetches += later._fetches

    @property
    def size(self) -> int:
        """Bytes in memory, at most: of fetches that are not decoded whole, and of chunks."""
        decoded = sum(held_bytes(part) for part in self._decoded if isinstance(part, Chunk))
        return decoded + sum(size for _, size in self._fetches)


class Partition:
    """The state of one topic partition from its assignment, or restart, to its end."""

    def __init__(self, topic_partition: TopicPartition, states: PartitionStates) -> None:
        """Begin with neither position nor batch."""
        self.topic_partition = topic_partition
        self.states = states
        self.position: StartPosition | None = None
        self.error: SecorError | None = None
        self.batch: Batch | None = None
        self.sealed: deque[SealedBatch] = deque()
        self.committed: int | None = None
        self.committed_at: float | None = None
        self.stopped_at: float | None = None
        self.last_timestamp: int | None = None
        self.waiting: ArrivedChunks | None = None
        """What waits behind a full batch that may not be sealed yet."""
        self.unkept: SecorError | None = None
        """Why the open batch was dropped where it should have been kept."""

    def report_as(self, earlier: Partition) -> None:
        """Report what the ``earlier`` reading knew, so that lag and ages go on meanwhile."""
        self.committed, self.committed_at = earlier.committed, earlier.committed_at
        self.stopped_at, self.last_timestamp = earlier.stopped_at, earlier.last_timestamp

    @property
    def plan(self) -> TopicPlan | None:
        """The plan that stores its messages, once its position is known."""
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
        # ``batch`` stays until the seal has succeeded: one that fails still has local files to
        # drop.
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
            # From the end: the first one may be in the hands of an upload thread.
            self.sealed.pop().delete()
