"""Whether the archive has whole messages: the first of each topic are read for the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from secor.core.errors import ArchiveIncomplete
from secor.restore.model import SourceExtent
from secor.restore.preflight import Finding, Severity
from secor.restore.sources.archive import ArchiveSource
from secor.restore.sources.foreign import ForeignSource
from secor.wiring.restore import Job


def first_look(job: Job, topic: str, extents: Sequence[SourceExtent]) -> Iterator[Finding]:
    """Return why a topic's first messages cannot be restored as they are.

    Only their rows tell whether an object kept whole messages.  With ``source.lossy`` nobody
    asks, and a source of somebody else's is not read for the plan.  Raises ``Unavailable``.
    """
    source = job.source
    if job.config.source.lossy or not isinstance(source, ArchiveSource | ForeignSource):
        return
    extent = next((it for it in extents if it.objects and not it.faults), None)
    if extent is None:
        return
    try:
        next(source.pieces(extent.source, extent.range.start), None)
    except ArchiveIncomplete as error:
        yield Finding(Severity.REFUSE, topic, str(error))
