"""The pairs of a job: where source offsets stand on the target."""

from __future__ import annotations

from secor.core.model import TopicPartition
from secor.restore.model import SourcePartition
from secor.restore.offsets import offsets_topic, rows_of
from secor.restore.pairs import Pair, pairs_of, source_of_key
from secor.wiring.restore import Job


def read_pairs(job: Job, partitions: int, *, committed: bool = True) -> list[Pair]:
    """Return all pairs; the last record of a key counts.

    Unless ``committed``, it waits for transactions that are open now.
    """
    return pairs_of(job.name, _latest(job, partitions, committed=committed).items())


def pair_keys(job: Job, partitions: int) -> list[tuple[SourcePartition, bytes]]:
    """Return the keys of the pairs' records that are not deleted, with their source partition."""
    keys = [key for key, value in _latest(job, partitions).items() if key and value is not None]
    named = [(source_of_key(job.name, key), key) for key in keys]
    return [(source, key) for source, key in named if source is not None]


def _latest(
    job: Job, partitions: int, *, committed: bool = True
) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key of the offsets topic."""
    latest: dict[bytes | None, bytes | None] = {}
    for number in range(partitions - 1):
        where = TopicPartition(offsets_topic(job.name), number)
        end = job.log.end(where, committed=committed)
        for chunk in job.log.read(where, 0, end):
            latest.update(rows_of(chunk.records))
    return latest
