"""The plan of a job, looked up at the archive and the target; and making its topics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from secor.adapters.kafka.topic_admin import TopicDefinition, TopicDescription
from secor.core.errors import ConfigurationError, TargetRefused
from secor.jobs.restore.archived_topics import (
    begin_looks,
    look_at_topic,
    pool_of_looks,
)
from secor.jobs.restore.job_findings import colliding, job_findings, meeting, room
from secor.jobs.restore.offsets import read_all_offsets
from secor.jobs.restore.planned_topics import (
    PlannedTopic,
    planned_topics,
    targets_as_they_are,
)
from secor.jobs.restore.progress import (
    JobProgress,
    left,
    read_job_progress,
)
from secor.restore.control import JobRecord
from secor.restore.fencing_probe import probe_id
from secor.restore.job_preflight import lost_offsets, record_findings
from secor.restore.model import SourcePartition, id_prefix
from secor.restore.offsets import StoredOffset, offsets_topic
from secor.restore.preflight import (
    JobFinding,
    Severity,
    refused,
)
from secor.restore.selection import selection_findings
from secor.restore.sources.coverage import vanished_findings
from secor.restore.target_ids import remade
from secor.wiring.clients import store_of
from secor.wiring.restore import Job
from secor.wiring.restore_sources import ranges_of, source_of


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
    names = [*map(job.target_name, [*archived, *empty])]
    described = job.admin.describe([*dict.fromkeys(names), *sorted(job.own_topics)])
    missing = {topic for topic in [*archived, *empty] if job.target_name(topic) not in described}
    by_topic: dict[str, list[SourcePartition]] = {topic: [] for topic in archived}
    for source in sources:
        by_topic[source.topic].append(source)
    asked = by_topic | {topic: [] for topic in empty if topic in missing}
    # The store and the brokers are asked at the same time.
    with pool_of_looks() as pool:
        about_job = pool.submit(lambda: [*job_findings(job, described)])
        looks = begin_looks(pool, job, asked, missing if job.config.target.create else ())
        targets = targets_as_they_are(job, names, described)
        # After the targets: what another daemon writes meanwhile has its offsets then.
        progress = read_job_progress(job)
        looked = {topic: look.result() for topic, look in looks.items()}
        about = about_job.result()
    topics = planned_topics(job, looked, targets, progress)
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
        *about,
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
    # The offsets topic with the targets: then all are waited for at once.
    own = {} if job.offsets_partitions() else {offsets_topic(job.name): job.offsets_settings()}
    _make(job, planned.topics, own)
    return planned


def prepare_topic(job: Job, topic: str) -> None:
    """Look at the target of a topic that came while the job runs; make it if it is missing.

    Raises ``TargetRefused`` with every finding that refuses.
    """
    sources = job.sources()
    name = job.target_name(topic)
    described = job.admin.describe([name])
    of_topic = [source for source in sources if source.topic == topic]
    needs_kept = name not in described and job.config.target.create
    look = look_at_topic(job, topic, of_topic, needs_kept=needs_kept)
    targets = targets_as_they_are(job, [name], described)
    (planned,) = planned_topics(job, {topic: look}, targets, read_job_progress(job))
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


def _make(
    job: Job,
    topics: Iterable[PlannedTopic],
    own: Mapping[str, TopicDefinition] = MappingProxyType({}),
) -> None:
    missing = {
        topic.target.name: TopicDefinition(topic.new.partitions, topic.new.settings)
        for topic in topics
        if topic.new is not None
    }
    job.admin.create({**missing, **own}, job.config.target.replication_factor)


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
