"""What a job would do, looked up at the archive and the target; and making its topics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from secor.adapters.kafka.topic_admin import TopicSettings
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import OffsetTable, offsets_topic, read_offsets
from secor.restore.preflight import Finding, JobLimits, Severity, TargetTopic, findings, refused
from secor.wiring.restore import Job

RESTORED = {"retention.ms": "-1"}
"""What a topic is made with, unless the configuration says otherwise: nothing is deleted."""


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One archived topic: its source partitions, its target, and what was found."""

    topic: str
    target: TargetTopic
    extents: tuple[SourceExtent, ...]
    found: tuple[Finding, ...]


def plan(job: Job) -> list[PlannedTopic]:
    """Look at everything; write nothing."""
    by_topic: dict[str, list[SourceExtent]] = {}
    for source in job.sources():
        by_topic.setdefault(source.topic, []).append(job.source.extent(source))
    begun = bool(job.offsets_partitions())
    return [_planned(job, topic, extents, begun) for topic, extents in sorted(by_topic.items())]


def prepare(job: Job) -> list[PlannedTopic]:
    """Refuse what must not begin, then make the topics that are missing.

    Raises ``ConfigurationError`` with every finding that refuses.
    """
    if job.source.exactly_once is not True:
        raise ConfigurationError(
            f"source.kind {job.config.source.kind!r} does not say that it can be read exactly once"
        )
    if job.config.writing.boundary == "source" and not job.source.defines_boundaries:
        raise ConfigurationError(
            'writing.boundary = "source" needs a source that defines transactions: use "interval"'
        )
    planned = plan(job)
    if not planned:
        raise ConfigurationError(
            "the archive has no object of these topics: look at source.prefix, source.topics and"
            " [store]"
        )
    refusing = refused([finding for topic in planned for finding in topic.found])
    if refusing:
        lines = "\n".join(f"  {finding.topic}: {finding.what}" for finding in refusing)
        raise ConfigurationError(f"the job cannot begin:\n{lines}")
    for topic in planned:
        if not topic.target.partitions:
            _make(job, topic)
    return planned


def read_all_offsets(job: Job, partitions: int) -> OffsetTable:
    """Read the offsets of all source partitions, without fencing anybody."""
    table = OffsetTable(job.name)
    for number in range(partitions - 1):
        where = TopicPartition(offsets_topic(job.name), number)
        part = read_offsets(job.log, where, job.name, committed=True)
        table.offsets |= part.offsets
        table.foreign += part.foreign
    return table


def all_written(job: Job, partitions: int, sources: Collection[SourcePartition]) -> bool:
    """Tell whether the committed offsets of source partitions have reached what is archived."""
    offsets = read_all_offsets(job, partitions).offsets
    return all(
        source in offsets and offsets[source].next_offset >= job.source.extent(source).range.end
        for source in sources
    )


def _planned(job: Job, topic: str, extents: list[SourceExtent], begun: bool) -> PlannedTopic:
    config = job.config
    target = _target(job, config.target.topic.format(topic=topic))
    limits = JobLimits(
        append=config.target.append,
        begun=begun,
        same_partitions=config.target.partitioning == "same",
        holes=config.source.holes,
        batch_bytes=config.writing.batch_bytes,
        now=int(job.clock.now() * 1000),
    )
    found = findings(extents, target, limits)
    if not target.partitions and not config.target.create:
        what = "does not exist: make it, or set target.create = true"
        found.append(Finding(Severity.REFUSE, target.name, what))
    return PlannedTopic(topic, target, tuple(extents), tuple(found))


def _target(job: Job, name: str) -> TargetTopic:
    partitions = job.log.partitions(name)
    if not partitions:
        return TargetTopic(name, 0, 0, {})
    messages = sum(job.log.end(it, committed=False) - job.log.start(it) for it in partitions)
    return TargetTopic(name, len(partitions), messages, job.admin.describe(name))


def _make(job: Job, planned: PlannedTopic) -> None:
    target = job.config.target
    needed = max(extent.source.partition for extent in planned.extents) + 1
    job.admin.create(
        planned.target.name,
        TopicSettings(target.partitions or needed, {**RESTORED, **target.settings}),
        target.replication_factor,
    )


def left(extent: SourceExtent, next_offset: int) -> OffsetRange:
    """Return which archived offsets of a source partition are left."""
    start = min(max(extent.range.start, next_offset), extent.range.end)
    return OffsetRange(start, extent.range.end)
