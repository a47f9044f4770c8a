"""Findings about a job as a whole, looked up at the target before anything is written."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from secor.core.errors import ArchiveIncomplete
from secor.core.text import how_many
from secor.restore.fencing_probe import probe_fencing
from secor.restore.job_preflight import promise_findings, source_findings, space_findings
from secor.restore.model import SourceExtent
from secor.restore.offsets import offsets_topic
from secor.restore.ports import RestoreSource
from secor.restore.preflight import JobFinding, Severity
from secor.restore.sources.archive import ArchiveSource
from secor.wiring.restore import SHARED_SETTINGS, Job, open_cluster_groups

if TYPE_CHECKING:
    from secor.adapters.kafka.topic_admin import TopicDefinition, TopicDescription
    from secor.restore.sources.foreign import ForeignSource


def first_look(job: Job, topic: str, extents: Sequence[SourceExtent]) -> Iterator[JobFinding]:
    """Return why a topic's first messages cannot be restored as they are.

    Only their rows show whether an object kept whole messages.  With ``source.lossy`` nobody
    asks, and a source of somebody else's is not read for the plan.  Raises ``Unavailable``.
    """
    source = job.source
    if job.config.source.lossy or not _is_archive(source):
        return
    extent = next((extent for extent in extents if extent.objects and not extent.faults), None)
    if extent is None:
        return
    try:
        next(source.pieces(extent.source, extent.range.start), None)
    except ArchiveIncomplete as error:
        yield JobFinding(Severity.REFUSE, topic, str(error))


def _is_archive(source: RestoreSource) -> TypeGuard[ArchiveSource | ForeignSource]:
    if isinstance(source, ArchiveSource):
        return True
    # What is not loaded is nobody's class.
    foreign = sys.modules.get("secor.restore.sources.foreign")
    return foreign is not None and isinstance(source, foreign.ForeignSource)


_OFFSETS_RIGHTS = ("READ", "WRITE", "DESCRIBE")


def job_findings(job: Job, described: Mapping[str, TopicDescription]) -> Iterator[JobFinding]:
    """Return what prevents any job of this configuration at this target."""
    writing = job.config.writing
    yield from source_findings(job.source, required=job.transactional, boundary=writing.boundary)
    yield from promise_findings(transactional=job.transactional, interval=writing.interval)
    topic = offsets_topic(job.name)
    yield from _topic_rights(job, topic, job.offsets_settings(), described.get(topic))
    shared = writing.shared_offsets_topic
    if shared is not None:
        yield from _topic_rights(job, shared, SHARED_SETTINGS, described.get(shared))
    yield from _group_rights(job)
    if job.transactional:
        yield from probe_fencing(
            job.requests,
            job.name,
            transaction_timeout=writing.transaction_timeout,
            request_timeout=writing.request_timeout,
            clock=job.clock,
        )


def meeting(job: Job, topics: Collection[str]) -> Iterator[JobFinding]:
    """Several topics in one target have no order that could be compared."""
    by_target: dict[str, list[str]] = defaultdict(list)
    for topic in topics:
        by_target[job.target_name(topic)].append(topic)
    if job.config.target.partitioning != "same":
        return
    for name, meeting in sorted(by_target.items()):
        if len(meeting) > 1:
            what = f"{', '.join(sorted(meeting))} would all be written to it: put {{topic}} into"
            yield JobFinding(
                Severity.REFUSE, name, f'{what} target.topic, or set target.partitioning = "key"'
            )


def colliding(names: Collection[str]) -> Iterator[JobFinding]:
    """Brokers refuse a topic whose name differs from another one's in ``.`` and ``_`` alone.

    A lost cluster may have had both, one after the other.
    """
    by_metric: dict[str, set[str]] = defaultdict(set)
    for name in names:
        by_metric[name.replace(".", "_")].add(name)
    for together in by_metric.values():
        if len(together) > 1:
            first, *others = sorted(together)
            what = (
                f"brokers make only one of it and {', '.join(others)}, which differ in . and _"
                " alone: leave all but one out by source.topics_exclude, and restore these by a"
                " job of their own under other names"
            )
            yield JobFinding(Severity.REFUSE, first, what)


def _topic_rights(
    job: Job, name: str, settings: TopicDefinition, described: TopicDescription | None
) -> Iterator[JobFinding]:
    """Return what is missing to make a topic of offsets, or to use it."""
    if described is None:
        refusal = job.admin.refusal(name, settings, job.config.target.replication_factor)
        if refusal is not None:
            shape = f"{how_many(settings.partitions, 'partition')}, compacted"
            what = f"does not exist, and cannot be made ({shape}): {refusal}"
            yield JobFinding(Severity.REFUSE, name, what)
        return
    missing = [right for right in _OFFSETS_RIGHTS if right not in described.rights]
    if missing:
        names = ", ".join(right.capitalize() for right in missing)
        yield JobFinding(Severity.REFUSE, name, f"allow this user {names} on the topic")


def _group_rights(job: Job) -> Iterator[JobFinding]:
    name = offsets_topic(job.name)
    with open_cluster_groups(job.config.kafka, "the target") as groups:
        if not groups.may_join(name):
            yield JobFinding(
                Severity.REFUSE, name, "allow this user Read on the group of this name"
            )


def room(
    job: Job, bytes_left: Mapping[str, int], described: Mapping[str, TopicDescription]
) -> Iterator[JobFinding]:
    """Return whether the brokers' disks have room for what is left, in bytes by target."""
    free = job.admin.free_bytes()
    if free is None:
        return
    asked = job.config.target.replication_factor or 1
    replicas = {name: description.replication_factor for name, description in described.items()}
    needed = sum(size * replicas.get(name, asked) for name, size in bytes_left.items())
    yield from space_findings(needed, free)
