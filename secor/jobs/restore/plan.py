"""The plan of a job, looked up at the archive and the target; and making its topics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from secor.adapters.kafka.topic_admin import TopicDefinition, TopicDescription
from secor.core.errors import ConfigurationError, CorruptFile, TargetRefused
from secor.core.model import OffsetRange, TopicPartition
from secor.jobs.restore.job_findings import colliding, first_look, job_findings, meeting, room
from secor.jobs.restore.offsets import read_all_offsets
from secor.jobs.restore.progress import JobProgress, read_job_progress, target_belongs_to_job
from secor.restore.control import JobRecord
from secor.restore.fencing_probe import probe_id
from secor.restore.job_preflight import lost_offsets, record_findings
from secor.restore.model import SourceExtent, SourcePartition, id_prefix
from secor.restore.new_topics import NewTopic, new_topic, without_time_limits
from secor.restore.offsets import StoredOffset, offsets_topic
from secor.restore.preflight import (
    JobFinding,
    JobLimits,
    Severity,
    TargetTopic,
    findings,
    making,
    refused,
)
from secor.restore.selection import selection_findings
from secor.restore.sources.coverage import since, vanished_findings
from secor.restore.target_ids import remade
from secor.wiring.clients import store_of
from secor.wiring.restore import Job
from secor.wiring.restore_sources import ranges_of, source_of


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
class JobPlan:
    """Everything that a job would do; ``plan_findings`` are about no topic alone."""

    topics: tuple[PlannedTopic, ...]
    plan_findings: tuple[JobFinding, ...]

    @property
    def findings(self) -> list[JobFinding]:
        """All that was found, of the job and of its topics."""
        return [
            *self.plan_findings,
            *(finding for topic in self.topics for finding in topic.plan_findings),
        ]

    @property
    def ends(self) -> dict[SourcePartition, int]:
        """The ends of each source partition's archived offsets."""
        return {
            extent.source: extent.range.end for topic in self.topics for extent in topic.extents
        }

    @property
    def may_begin(self) -> bool:
        """Return whether nothing prevents the job."""
        return bool(self.topics) and not refused(self.findings)


def plan(job: Job) -> JobPlan:
    """Look at everything; write nothing to any topic."""
    sources = job.sources()
    archived = sorted({source.topic for source in sources})
    empty = _empty_topics(job, archived)
    names = [job.target_name(topic) for topic in [*archived, *empty]]
    described = job.admin.describe([*dict.fromkeys(names), *sorted(job.own_topics)])
    job.log.know_leaders(
        TopicPartition(name, number)
        for name in names
        if name in described
        for number in range(described[name].partitions)
    )
    targets = {name: _target(job, name, described.get(name)) for name in names}
    # After the targets: what another daemon writes meanwhile has its offsets then.
    progress = read_job_progress(job)
    by_topic: dict[str, list[SourceExtent]] = {topic: [] for topic in archived}
    for source in sources:
        extent = since(job.source.extent(source), progress.offsets.get(source))
        by_topic[source.topic].append(extent)
    topics = tuple(
        _planned(job, topic, extents, targets[job.target_name(topic)], progress)
        for topic, extents in sorted(by_topic.items())
    )
    topics += tuple(
        _planned(job, topic, [], targets[job.target_name(topic)], progress)
        for topic in empty
        if not targets[job.target_name(topic)].partitions
    )
    selection = job.config.source
    plan_findings = [
        *record_findings(
            progress.record, job.name, job.spec.hash, progress.partitions, job.spec.archive
        ),
        *selection_findings(
            sources,
            topics=set(selection.topics).difference(empty),
            partitions=selection.partitions,
            ranges=ranges_of(selection),
        ),
        *meeting(job, by_topic),
        *colliding(names),
        *_lost_offsets(job, progress, topics),
        *vanished_findings(job.vanished(sources, progress.offsets), holes=job.config.source.holes),
        *_remade(progress.record, described),
        *job_findings(job, described),
        *room(job, topics_left(topics, progress.offsets), described),
    ]
    return JobPlan(topics, tuple(plan_findings))


def _empty_topics(job: Job, archived: Collection[str]) -> list[str]:
    """Return the topics that the backup knows, has no messages of, and that are their own targets.

    A target that other messages are written to is made for these.
    """
    taken = {*map(job.target_name, archived), *job.own_topics}
    described = [topic for topic in job.described_topics() if topic not in archived]
    names = Counter(map(job.target_name, described))
    return [
        topic
        for topic in described
        if names[job.target_name(topic)] == 1 and job.target_name(topic) not in taken
    ]


def prepare(job: Job) -> JobPlan:
    """Refuse what must not begin, then make the topics that are missing.

    Raises ``ConfigurationError`` with every finding that refuses.
    """
    planned = plan(job)
    if not planned.topics:
        raise ConfigurationError(nothing_archived(job))
    # All is looked at before anything is made: a job that cannot begin leaves no topic behind.
    refusing = refused(planned.findings)
    if refusing:
        lines = "\n".join(f"  {finding.topic}: {finding.what}" for finding in refusing)
        raise ConfigurationError(f"the job cannot begin:\n{lines}")
    _make(job, planned.topics)
    return planned


def prepare_topic(job: Job, topic: str) -> None:
    """Look at the target of a topic that came while the job runs; make it if it is missing.

    Raises ``TargetRefused`` with every finding that refuses.
    """
    sources = job.sources()
    extents = [job.source.extent(source) for source in sources if source.topic == topic]
    name = job.target_name(topic)
    target = _target(job, name, job.admin.describe([name]).get(name))
    planned = _planned(job, topic, extents, target, read_job_progress(job))
    meets = [
        meeting_partition
        for meeting_partition in meeting(job, {source.topic for source in sources})
        if meeting_partition.topic == name
    ]
    refusing = refused([*planned.plan_findings, *meets])
    if name in job.own_topics:
        what = "has the job's offsets, and a job may write to any topic but this one"
        refusing.append(JobFinding(Severity.REFUSE, name, what))
    if refusing:
        what = "; ".join(f"{finding.topic}: {finding.what}" for finding in refusing)
        raise TargetRefused(f"the new topic {topic} cannot be restored: {what}")
    _make(job, [planned])


def _make(job: Job, topics: Iterable[PlannedTopic]) -> None:
    missing = {
        topic.target.name: TopicDefinition(topic.new.partitions, topic.new.settings)
        for topic in topics
        if topic.new is not None
    }
    job.admin.create(missing, job.config.target.replication_factor)


def nothing_archived(job: Job) -> str:
    """Return what to say where the archive has nothing of the job's topics: what it does have."""
    wanted = job.config.source.model_copy(update={"topics": (), "topics_pattern": None})
    everything = job.config.model_copy(update={"source": wanted})
    source = source_of(everything, store_of(job.config.store, connections=8))
    topics = sorted({partition.topic for partition in source.partitions()})
    if not topics:
        return "the archive has no object at all: look at source.prefix and [store]"
    more = ", ..." if len(topics) > MOST_NAMED else ""
    return (
        "the archive has no object of these topics: look at source.topics and source.prefix; it"
        f" has those of {', '.join(topics[:MOST_NAMED])}{more}"
    )


MOST_NAMED = 10
"""Topics that a sentence names."""


def all_written(job: Job, partitions: int, sources: Collection[SourcePartition]) -> bool:
    """Return whether the committed offsets of source partitions have reached what is archived."""
    offsets = read_all_offsets(job, partitions).offsets
    return all(
        source in offsets and offsets[source].next_offset >= job.source.extent(source).range.end
        for source in sources
    )


def _lost_offsets(
    job: Job, progress: JobProgress, topics: Sequence[PlannedTopic]
) -> Iterator[JobFinding]:
    if progress.partitions:
        return
    ids = written_ids(job)
    targets = [topic.target for topic in topics]
    shared = job.config.writing.shared_offsets_topic
    yield from lost_offsets(offsets_topic(job.name), ids, targets, shared)


def _remade(
    record: JobRecord | None, described: Mapping[str, TopicDescription]
) -> Iterator[JobFinding]:
    if record is not None:
        yield from remade(
            record.targets, {name: description.topic_id for name, description in described.items()}
        )


def written_ids(job: Job) -> list[str]:
    """Return the transactional ids with which the job has written, as far as brokers know them."""
    if not job.transactional:
        return []
    own = id_prefix(probe_id(job.name))
    # The probe's and the job record's ids write no message of the archive.
    return [
        transactional_id
        for transactional_id in job.admin.transactional_ids(own)
        if not transactional_id.startswith(f"{own}:")
    ]


def topics_left(
    topics: Iterable[PlannedTopic], offsets: Mapping[SourcePartition, StoredOffset]
) -> dict[str, int]:
    """Return how many archived bytes are left for each target."""
    sizes: dict[str, int] = defaultdict(int)
    for topic in topics:
        for extent in topic.extents:
            stored, whole = offsets.get(extent.source), extent.range.end - extent.range.start
            rest = left(extent, stored.next_offset if stored else 0)
            share = min(1.0, (rest.end - rest.start) / whole) if whole else 0.0
            sizes[topic.target.name] += int(extent.size * share)
    return sizes


def _planned(
    job: Job,
    topic: str,
    extents: list[SourceExtent],
    target: TargetTopic,
    progress: JobProgress,
) -> PlannedTopic:
    config, name = job.config, target.name
    limits = JobLimits(
        append=config.target.append,
        # To find the owner of messages takes reading: only where it matters.
        own=bool(target.messages)
        and not config.target.append
        and target_belongs_to_job(job, progress, topic, name),
        written=topic in progress.written,
        same_partitions=config.target.partitioning != "key",
        mapping=config.target.mapping,
        holes=config.source.holes,
        batch_bytes=config.writing.batch_bytes,
        now=int(job.clock.now() * 1000),
    )
    new: NewTopic | None = None
    faults: list[JobFinding] = []
    if not target.partitions and config.target.create:
        new, target, faults = _missing(job, topic, limits.needed(extents))
    elif not target.partitions and not extents:
        what = "has no messages, and does not exist: make it, or set target.create = true"
        faults = [JobFinding(Severity.WARN, name, what)]
    elif not target.partitions:
        what = "does not exist: make it, or set target.create = true"
        faults = [JobFinding(Severity.REFUSE, name, what)]
    look = first_look(job, topic, extents)
    topic_findings = [*look, *findings(extents, target, limits), *faults]
    return PlannedTopic(topic, target, tuple(extents), tuple(topic_findings), new)


def _missing(
    job: Job, topic: str, needed: int
) -> tuple[NewTopic | None, TargetTopic, list[JobFinding]]:
    """Return what a missing target is made with, what it will be then, and what is wrong with it.

    ``needed`` is how many partitions it must have.  None where nothing says how many: it is left
    to a person, for no message needs it.
    """
    wanted, name = job.config.target, job.target_name(topic)
    new, faults = _new(job, topic, needed)
    if not new.partitions:
        what = "has no messages, and is not made: make it, or set target.partitions"
        return None, TargetTopic(name, 0, 0, {}), [*faults, JobFinding(Severity.WARN, name, what)]
    settings = TopicDefinition(new.partitions, new.settings)
    proposed = job.admin.proposed(name, settings, wanted.replication_factor)
    # Archived messages are old: with the retention by time that they had, the brokers would delete
    # them as soon as they are written.
    new = without_time_limits(new, proposed.effective, wanted.settings)
    target = TargetTopic(name, 0, 0, {**proposed.effective, **new.settings})
    return new, target, [*faults, *making(name, new, proposed.refusal)]


def _target(job: Job, name: str, described: TopicDescription | None) -> TargetTopic:
    if described is None:
        return TargetTopic(name, 0, 0, {})
    partitions = job.log.partitions(name)
    messages = sum(
        job.log.end(partition, committed=False) - job.log.start(partition)
        for partition in partitions
    )
    return TargetTopic(name, described.partitions, messages, described.effective, described.rights)


def _new(job: Job, topic: str, needed: int) -> tuple[NewTopic, list[JobFinding]]:
    """Return what a missing target is made with, and what is wrong with what was kept of it.

    ``needed`` is how many partitions it must have.
    """
    faults = []
    kept = None
    try:
        kept = job.kept_topic(topic)
    except CorruptFile as error:
        what = f"{error}; the topic is made without its archived settings"
        faults.append(JobFinding(Severity.WARN, topic, what))
    target = job.config.target
    archived = (kept.settings if kept else None) or {}
    partitions = kept.partitions if kept else None
    new = new_topic(needed, partitions, archived, target.partitions, target.settings)
    if target.partitioning != "key" and new.partitions < needed:
        what = f"target.partitions = {new.partitions}, and the job needs {needed}: raise it"
        faults.append(JobFinding(Severity.REFUSE, topic, what))
    return new, faults


def left(extent: SourceExtent, next_offset: int) -> OffsetRange:
    """Return which offsets of a source partition are left; ``next_offset`` is 0 before the first.

    Those between ``next_offset`` and the first object count: a started job needs them.
    """
    start = min(next_offset or extent.range.start, extent.range.end)
    return OffsetRange(start, extent.range.end)
