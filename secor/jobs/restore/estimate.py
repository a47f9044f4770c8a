"""Least time that a job takes, from a sample of the archive that is read and encoded.

What the target takes to write them is not known before: only a job that writes shows it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from secor.jobs.restore.offsets import read_all_offsets
from secor.jobs.restore.plan import JobPlan, topics_left
from secor.jobs.restore.progress import left
from secor.restore.model import Piece, SourceExtent
from secor.wire.codecs import CODECS
from secor.wire.encoding import encode_batch
from secor.wiring.restore import Job

SAMPLED = 3
"""Source partitions that are sampled: those with most bytes."""
SECONDS = 0.5
"""What each sample takes at most, besides its first piece."""
_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Least ``seconds`` of one process; ``sampled`` bytes of the archive were read for it."""

    seconds: float
    sampled: int
    limited: bool
    """Whether the limits of the file are what it takes, not the reading."""


def estimated(job: Job, planned: JobPlan) -> Estimate:
    """Read and encode a sample; what is written already does not count.  Raises ``SecorError``."""
    extents = [extent for topic in planned.topics for extent in topic.extents]
    offsets = read_all_offsets(job, job.offsets_partitions()).offsets
    size = sum(topics_left(planned.topics, offsets).values())
    messages = 0
    for extent in extents:
        stored = offsets.get(extent.source)
        rest = left(extent, stored.next_offset if stored else 0)
        messages += rest.end - rest.start
    sampled, taken = _sample(job, extents)
    reading = taken * size / sampled if sampled else 0.0
    pace = job.config.writing
    limits = [
        messages / pace.messages_per_second if pace.messages_per_second else 0.0,
        size / pace.bytes_per_second if pace.bytes_per_second else 0.0,
    ]
    return Estimate(max(reading, *limits), sampled, max(limits) > reading)


def _sample(job: Job, extents: Sequence[SourceExtent]) -> tuple[int, float]:
    """Return how many archived bytes were read and encoded, and the seconds that it took."""
    codec = CODECS.index(job.config.writing.codec)
    sampled, taken = 0.0, 0.0
    for extent in sorted(extents, key=lambda known: known.size, reverse=True)[:SAMPLED]:
        whole = extent.range.end - extent.range.start
        if not whole:
            continue
        started, reached = time.monotonic(), extent.range.start
        with closing(job.source.open(extent.source, extent.range.start)) as reader:
            # At least one piece, however slow the store is: without any there is nothing to reckon
            # with.
            while time.monotonic() - started < SECONDS or reached == extent.range.start:
                piece = reader.next(_WAIT)
                if not isinstance(piece, Piece):
                    break
                if piece.records.num_rows:
                    encode_batch(piece.records, codec=codec)
                reached = piece.next_offset
        taken += time.monotonic() - started
        sampled += extent.size * (reached - extent.range.start) / whole
    return int(sampled), taken
