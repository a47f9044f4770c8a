"""Traces of a job's earlier run: its offsets, and the targets that it has written to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from secor.core.model import OffsetRange, TopicPartition
from secor.jobs.restore.offsets import read_all_offsets, read_pairs
from secor.restore.control import JobRecord
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import StoredOffset
from secor.restore.pairs import Pair
from secor.restore.ports import TargetLog
from secor.wiring.restore import Job


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job from its offsets topic; ``partitions`` are the topic's, 0 without one.

    ``record`` is the job's.  ``placed`` are the targets that pairs name, by archived topic.
    """

    partitions: int = 0
    record: JobRecord | None = None
    offsets: Mapping[SourcePartition, StoredOffset] = field(default_factory=dict)
    placed: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def written(self) -> frozenset[str]:
        """The archived topics that have offsets."""
        return frozenset(source.topic for source in self.offsets)

    def wrote(self, topic: str, target: str) -> bool:
        """Return whether the job has written an archived topic to this target.

        Offsets that were taken from copies have no pairs: their spec names the target.
        """
        placed = self.placed.get(topic)
        return target in placed if placed else topic in self.written


def read_job_progress(job: Job) -> JobProgress:
    """Read what there is; waits for no open transaction.

    Raises ``LedgerCorrupt``, ``Unavailable``.
    """
    partitions = job.offsets_partitions()
    if not partitions:
        return JobProgress()
    placed = placed_of(read_pairs(job, partitions))
    offsets = read_all_offsets(job, partitions).offsets
    return JobProgress(partitions, job.control(partitions).read(), offsets, placed)


def placed_of(pairs: Collection[Pair]) -> dict[str, set[str]]:
    """Return to which targets each archived topic has been written."""
    placed: dict[str, set[str]] = {}
    for pair in pairs:
        placed.setdefault(pair.source.topic, set()).add(pair.placement.topic_partition.topic)
    return placed


def target_belongs_to_job(job: Job, progress: JobProgress, topic: str, target: str) -> bool:
    """Return whether what a target holds is the job's own, or nothing that anybody sees.

    A daemon that was killed in its first transaction leaves an open or aborted one, and no
    offset.  Without transactions it leaves messages; as long as nobody has changed the job they
    are taken for its own, because its first daemon has found the target empty.
    """
    if progress.record is None:
        return False
    if progress.wrote(topic, target):
        return True
    if not job.transactional and progress.record.generation == FIRST_GENERATION:
        return True
    if not any(_has_messages(job.log, partition) for partition in job.log.partitions(target)):
        return True
    # Another's open transaction may hide what was committed above it, and a daemon may have
    # written here since the look: the last word has to wait for them.
    pairs = read_pairs(job, progress.partitions, committed=False)
    return target in placed_of(pairs).get(topic, ())


FIRST_GENERATION = 1
"""Of a job's record that nobody has changed since its first start."""


def _has_messages(log: TargetLog, where: TopicPartition) -> bool:
    """Return whether a partition has committed messages; waits for no open transaction."""
    chunks = log.read(where, 0, log.end(where, committed=True))
    return any(chunk.records.num_rows for chunk in chunks)


def left(extent: SourceExtent, next_offset: int) -> OffsetRange:
    """Return which offsets of a source partition are left; ``next_offset`` is 0 before the first.

    Those between ``next_offset`` and the first object count: a started job needs them.
    """
    start = min(next_offset or extent.range.start, extent.range.end)
    return OffsetRange(start, extent.range.end)
