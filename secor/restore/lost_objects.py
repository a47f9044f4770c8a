"""What a job that has begun needs, and the archive has lost since then: pure rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from secor.core.model import OffsetRange
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.offsets import StoredOffset
from secor.restore.preflight import Finding, Severity


def since(extent: SourceExtent, stored: StoredOffset | None) -> SourceExtent:
    """Return an extent, with a hole from the committed offset to the first object.

    Without a committed offset there is none: the archive may begin anywhere.
    """
    reached = stored.next_offset if stored else 0
    if not 0 < reached < extent.range.start:
        return extent
    lost = OffsetRange(reached, extent.range.start)
    return replace(extent, holes=(lost, *extent.holes))


def vanished_findings(vanished: Mapping[SourcePartition, int], *, holes: bool) -> Iterator[Finding]:
    """Return what is wrong with source partitions that no object is left of.

    ``vanished`` has their committed offsets; nobody knows how many messages were behind these.
    ``holes`` tells whether the job may leave messages out.
    """
    for source, next_offset in vanished.items():
        yield Finding(
            Severity.WARN if holes else Severity.REFUSE,
            source.topic,
            f"{source}: the job has written it up to offset {next_offset}, and the archive has no"
            " object of it any more; bring the missing objects back, or set source.holes = true",
        )
