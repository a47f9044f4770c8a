"""A job's offsets as they are committed, and their copies; nobody is fenced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from secor.core.model import TopicPartition
from secor.restore.copies import CopyWriter, read_copies
from secor.restore.model import SourcePartition
from secor.restore.offsets import OffsetTable, StoredOffset, offsets_topic, read_offsets, rows_of
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


def read_all_offsets(job: Job, partitions: int) -> OffsetTable:
    """Read the offsets of all source partitions; ``partitions`` are the offsets topic's."""
    table = OffsetTable(job.name)
    for number in range(partitions - 1):
        where = TopicPartition(offsets_topic(job.name), number)
        part = read_offsets(job.log, where, job.name, committed=True)
        table.offsets |= part.offsets
        table.foreign += part.foreign
    return table


def copy_writer(job: Job) -> CopyWriter | None:
    """Return what copies offsets, where ``writing.shared_offsets_topic`` wants it."""
    partitions = job.ensure_shared_topic()
    if not partitions:
        return None
    return CopyWriter(job.name, job.spec.hash, partitions, job.make_copy_writer, job.clock)


def read_shared(job: Job) -> Mapping[SourcePartition, StoredOffset]:
    """Return the copies of the job's offsets; none where they are not wanted."""
    topic = job.config.writing.shared_offsets_topic
    if topic is None:
        return MappingProxyType({})
    return read_copies(job.log, job.log.partitions(topic), job.name).offsets
