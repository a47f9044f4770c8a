"""The selection that a job's configuration makes of a source's topics: pure rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from secor.core.model import OffsetRange
from secor.restore.model import SourceExtent, SourcePartition
from secor.restore.preflight import JobFinding, Severity

Ranges = Mapping[tuple[str, int], Sequence[OffsetRange]]
"""The offsets wanted by topic and partition; of what is not named, all."""


def selection_findings(
    sources: Collection[SourcePartition],
    *,
    topics: Iterable[str],
    partitions: Iterable[int],
    ranges: Ranges,
) -> Iterator[JobFinding]:
    """Return what of a selection names nothing of the job's source partitions.

    A range that names nothing would let its topic be restored as a whole.
    """
    known = {(source.topic, source.partition) for source in sources}
    for topic, partition in ranges:
        if (topic, partition) not in known:
            what = (
                f"names {topic}/{partition}, which is no source partition of the job: correct it,"
                " or take it out"
            )
            yield JobFinding(Severity.REFUSE, "source.ranges", what)
    for topic in sorted(set(topics) - {source.topic for source in sources}):
        what = f"names {topic}, and the source has nothing of it that the job selects"
        yield JobFinding(Severity.WARN, "source.topics", what)
    for number in sorted(set(partitions) - {source.partition for source in sources}):
        what = f"names {number}, and no topic of the job has such a partition"
        yield JobFinding(Severity.WARN, "source.partitions", what)


def selected_offsets(extent: SourceExtent, ranges: Ranges) -> list[OffsetRange]:
    """Return which archived offsets the ranges select, sorted and without overlaps."""
    wanted = ranges.get((extent.source.topic, extent.source.partition))
    if wanted is None:
        return [extent.range]
    selected: list[OffsetRange] = []
    for chosen in sorted(wanted):
        start, end = max(chosen.start, extent.range.start), min(chosen.end, extent.range.end)
        if selected:
            start = max(start, selected[-1].end)
        if start < end:
            selected.append(OffsetRange(start, end))
    return selected
