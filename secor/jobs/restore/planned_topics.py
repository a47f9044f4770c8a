"""The plan of a job's topics: each with its target as it is, or as it would be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from secor.adapters.kafka.topic_admin import ProposedTopic, TopicDefinition, TopicDescription
from secor.archive.kept_topics import KeptTopic
from secor.core.model import TopicPartition
from secor.jobs.restore.archived_topics import ArchivedTopic
from secor.jobs.restore.progress import JobProgress, target_belongs_to_job
from secor.restore.model import SourceExtent
from secor.restore.new_topics import NewTopic, new_topic, without_time_limits
from secor.restore.preflight import (
    JobFinding,
    JobLimits,
    Severity,
    TargetTopic,
    findings,
    making,
)
from secor.restore.sources.coverage import since
from secor.wiring.restore import Job


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One archived topic: its source partitions, its target, and what was found.

    ``new`` is what the target is made with, None where it exists.
    """

    topic: str
    target: TargetTopic
    extents: tuple[SourceExtent, ...]
    plan_findings: tuple[JobFinding, ...]
    new: NewTopic | None = None


@dataclass(frozen=True, slots=True)
class _Missing:
    """A topic that the target lacks: what it is made with, and what was found."""

    new: NewTopic
    findings: tuple[JobFinding, ...]


def planned_topics(
    job: Job,
    looked: Mapping[str, ArchivedTopic],
    targets: Mapping[str, TargetTopic],
    progress: JobProgress,
) -> tuple[PlannedTopic, ...]:
    """Plan topics, by name; few requests ask what the brokers would make of missing ones."""
    limits = {
        topic: _limits(job, topic, targets[job.target_name(topic)], progress) for topic in looked
    }
    missing = {
        topic: _new(job, topic, look.kept, limits[topic].needed(look.extents))
        for topic, look in looked.items()
        if job.config.target.create and not targets[job.target_name(topic)].partitions
    }
    wanted = job.config.target
    proposed = job.admin.proposed(
        {
            job.target_name(topic): TopicDefinition(made.new.partitions, made.new.settings)
            for topic, made in missing.items()
            if made.new.partitions
        },
        wanted.replication_factor,
    )
    planned = []
    for topic, look in sorted(looked.items()):
        extents = tuple(
            since(extent, progress.offsets.get(extent.source)) for extent in look.extents
        )
        name = job.target_name(topic)
        target, new = targets[name], None
        faults: list[JobFinding] = []
        if topic in missing:
            new, target, faults = _made(job, name, missing[topic], proposed.get(name))
        elif not target.partitions and not extents:
            what = "has no messages, and does not exist: make it, or set target.create = true"
            faults = [JobFinding(Severity.WARN, name, what)]
        elif not target.partitions:
            what = "does not exist: make it, or set target.create = true"
            faults = [JobFinding(Severity.REFUSE, name, what)]
        topic_findings = [*look.findings, *findings(extents, target, limits[topic]), *faults]
        planned.append(PlannedTopic(topic, target, extents, tuple(topic_findings), new))
    return tuple(planned)


def _limits(job: Job, topic: str, target: TargetTopic, progress: JobProgress) -> JobLimits:
    config = job.config
    return JobLimits(
        append=config.target.append,
        # To find the owner of messages takes reading: only where it matters.
        own=bool(target.messages)
        and not config.target.append
        and target_belongs_to_job(job, progress, topic, target.name),
        written=topic in progress.written,
        same_partitions=config.target.partitioning != "key",
        mapping=config.target.mapping,
        holes=config.source.holes,
        batch_bytes=config.writing.batch_bytes,
        now=int(job.clock.now() * 1000),
    )


def _made(
    job: Job, name: str, missing: _Missing, proposed: ProposedTopic | None
) -> tuple[NewTopic | None, TargetTopic, list[JobFinding]]:
    """Return what a missing target is made with, what it will be then, and what is wrong with it.

    None where nothing says how many partitions: it is left to a person, for no message needs it.
    """
    if proposed is None:
        what = "has no messages, and is not made: make it, or set target.partitions"
        faults = [*missing.findings, JobFinding(Severity.WARN, name, what)]
        return None, TargetTopic(name, 0, 0, {}), faults
    # Archived messages are old: with the retention by time that they had, the brokers would delete
    # them as soon as they are written.
    new = without_time_limits(missing.new, proposed.effective, job.config.target.settings)
    target = TargetTopic(name, 0, 0, {**proposed.effective, **new.settings})
    return new, target, [*missing.findings, *making(name, new, proposed.refusal)]


def targets_as_they_are(
    job: Job, names: Iterable[str], described: Mapping[str, TopicDescription]
) -> dict[str, TargetTopic]:
    """Return the targets as they are; what their logs hold is asked of all leaders at once."""
    partitions = {
        name: [TopicPartition(name, number) for number in range(described[name].partitions)]
        for name in names
        if name in described
    }
    sizes = job.log.held(place for places in partitions.values() for place in places)
    targets = {name: TargetTopic(name, 0, 0, {}) for name in names}
    for name, places in partitions.items():
        known = described[name]
        messages = sum(sizes[place] for place in places)
        targets[name] = TargetTopic(name, len(places), messages, known.effective, known.rights)
    return targets


def _new(job: Job, topic: str, kept: KeptTopic | None, needed: int) -> _Missing:
    """Return what a missing target is made with; ``needed`` is the least of its partitions."""
    faults = []
    target = job.config.target
    archived = (kept.settings if kept else None) or {}
    partitions = kept.partitions if kept else None
    new = new_topic(needed, partitions, archived, target.partitions, target.settings)
    if target.partitioning != "key" and new.partitions < needed:
        what = f"target.partitions = {new.partitions}, and the job needs {needed}: raise it"
        faults.append(JobFinding(Severity.REFUSE, topic, what))
    return _Missing(new, tuple(faults))
