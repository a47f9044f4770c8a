"""The progress of a job, looked up; no daemon is asked or disturbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from secor.core.errors import ConfigurationError
from secor.jobs.restore.offsets import read_all_offsets, read_shared
from secor.jobs.restore.plan import nothing_archived, written_ids
from secor.jobs.restore.progress import left
from secor.restore.control import JobRecord
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import StoredOffset
from secor.wiring.restore import Job


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source partition; ``next_offset`` is None before its first commit.

    ``extent`` is None where the archive has no object of it any more: nobody knows what is left.
    """

    source: str
    next_offset: int | None
    extent: SourceExtent | None
    left: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a job; ``copies`` are looked up where the job's own topic has nothing.

    ``holes`` says whether the job may leave messages out, ``gone`` whether it has written and
    its offsets topic is not there any more.
    """

    job: str
    record: JobRecord | None
    rows: tuple[SourceProgress, ...]
    copies: Mapping[SourcePartition, StoredOffset]
    exactly_once: str
    holes: bool
    gone: bool

    @property
    def left(self) -> int:
        """Offsets that are not written yet."""
        return sum(row.left for row in self.rows)

    @property
    def vanished(self) -> int:
        """Source partitions that no object is left of."""
        return sum(row.extent is None for row in self.rows)

    @property
    def complete(self) -> bool:
        """True if everything is written that the job must write."""
        return not self.left and (self.holes or not self.vanished)

    @property
    def state(self) -> str:
        """The job's state in a word or two."""
        if self.gone:
            return "its offsets topic is gone (see secor restore plan)"
        if self.record is None:
            return "not begun"
        return "all written" if self.complete else self.record.requested.value


def status_of(job: Job) -> JobStatus:
    """Look at the archive and the offsets topic.

    Raises ``ConfigurationError`` where the archive has nothing of the job's.
    """
    sources = job.sources()
    if not sources:
        raise ConfigurationError(nothing_archived(job))
    count = job.offsets_partitions()
    record = job.control(count).read() if count else None
    offsets = read_all_offsets(job, count).offsets
    rows = []
    for source in sources:
        extent = job.source.extent(source)
        stored = offsets.get(source)
        rest = left(extent, stored.next_offset if stored else 0)
        reached = stored.next_offset if stored else None
        rows.append(SourceProgress(str(source), reached, extent, rest.end - rest.start))
    vanished = job.vanished(sources, offsets)
    rows += [SourceProgress(str(source), reached, None, 0) for source, reached in vanished.items()]
    copies = {} if offsets else read_shared(job)
    promise, holes = job.config.writing.exactly_once, job.config.source.holes
    gone = not count and bool(written_ids(job))
    return JobStatus(job.name, record, tuple(rows), copies, promise, holes, gone)
