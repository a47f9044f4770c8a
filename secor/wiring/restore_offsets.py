"""A job's offsets as they are committed, and their copies; nobody is fenced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from secor.core.model import TopicPartition
from secor.restore.copies import CopyWriter, read_copies
from secor.restore.model import SourcePartition
from secor.restore.offsets import OffsetTable, StoredOffset, offsets_topic, read_offsets
from secor.wiring.restore import Job


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
