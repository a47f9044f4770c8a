"""What a writer is told, and what it tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from secor.core.model import TopicPartition
from secor.core.transactions import ProduceAnswer


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """Times in seconds; ``batch_bytes`` before compression, which is also a request's size.

    ``transactional`` is False where batches are visible at once and a commit changes nothing.
    """

    transaction_timeout: float = 60.0
    request_timeout: float = 10.0
    initialise_timeout: float = 120.0
    batch_bytes: int = 1_000_000
    batch_records: int = 20_000
    codec: str = "none"
    transactional: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one batch of a transaction stands on the target, record after record.

    ``first`` and ``last`` are the source offsets of its first and last record.
    """

    topic_partition: TopicPartition
    base_offset: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch whose answer is not known yet; ``first`` and ``last`` as those of a placement."""

    topic_partition: TopicPartition
    batch: bytes
    records: int
    first: int
    last: int
    answer: Callable[[], ProduceAnswer] | None
