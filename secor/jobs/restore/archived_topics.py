"""Archived topics of a job, looked at side by side: extents, kept settings, first messages.

Each answer of a store takes its time: one topic after the other would mostly be waiting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from secor.archive.kept_topics import KeptTopic
from secor.core.errors import CorruptFile
from secor.jobs.restore.job_findings import first_look
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.preflight import JobFinding, Severity
from secor.wiring.restore import Job

SIDE_BY_SIDE = 16
"""Topics that are looked at at a time."""


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """The archived part of a topic: extents by partition, kept settings where they are needed."""

    extents: tuple[SourceExtent, ...]
    kept: KeptTopic | None
    findings: tuple[JobFinding, ...]


@contextmanager
def pool_of_looks() -> Iterator[ThreadPoolExecutor]:
    """Give threads for questions to servers; after an error what has not begun is left."""
    pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="look")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def begin_looks(
    pool: ThreadPoolExecutor,
    job: Job,
    sources: Mapping[str, Sequence[SourcePartition]],
    needs_kept: Collection[str],
) -> dict[str, Future[ArchivedTopic]]:
    """Begin to look at topics, with their source partitions.

    ``needs_kept`` are those whose kept settings are needed, for their targets are missing.
    """
    return {
        topic: pool.submit(look_at_topic, job, topic, of_topic, needs_kept=topic in needs_kept)
        for topic, of_topic in sources.items()
    }


def look_at_topic(
    job: Job, topic: str, sources: Sequence[SourcePartition], *, needs_kept: bool
) -> ArchivedTopic:
    """Look at what the archive has of a topic.  Raises ``Unavailable``."""
    extents = tuple(job.source.extent(source) for source in sources)
    kept, findings = None, [*first_look(job, topic, extents)]
    try:
        kept = job.kept_topic(topic) if needs_kept else None
    except CorruptFile as error:
        what = f"{error}; the topic is made without its archived settings"
        findings.append(JobFinding(Severity.WARN, topic, what))
    return ArchivedTopic(extents, kept, tuple(findings))


def extents_of(job: Job, sources: Sequence[SourcePartition]) -> dict[SourcePartition, SourceExtent]:
    """Return the extents of source partitions, looked at side by side by topic."""
    by_topic: dict[str, list[SourcePartition]] = {}
    for source in sources:
        by_topic.setdefault(source.topic, []).append(source)

    def look(of_topic: list[SourcePartition]) -> list[SourceExtent]:
        return [job.source.extent(source) for source in of_topic]

    with pool_of_looks() as pool:
        looked = pool.map(look, by_topic.values())
        return {extent.source: extent for extents in looked for extent in extents}
