"""Objects of one topic partition checked by themselves: names, metadata, contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.verify.compare import combine
from secor.archive.verify.missing_metadata import missing_metadata
from secor.archive.verify.object_sources import Merge, ObjectSource
from secor.archive.verify.parsed_objects import Recorded, recorded
from secor.archive.verify.report import Kind, PartitionReport
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition, next_offset


def check_alone(
    topic_partition: TopicPartition,
    objects: Sequence[ArchivedObject],
    archive: Archive,
    *,
    parsed: bool = False,
) -> PartitionReport:
    """See that the batches follow one another and every object is what it says.

    That a message never reached any object cannot be seen this way.
    """
    report = PartitionReport(topic_partition, objects=len(objects))
    for generation in sorted({one.name.generation for one in objects}):
        of_generation = [one for one in objects if one.name.generation == generation]
        _check_chain(of_generation, report)
        _check_contents(of_generation, archive, report, parsed=parsed)
    foreign = sum(one.info is None and one.fault is None for one in objects)
    if foreign:
        report.notes.append(
            f"{foreign} objects have no metadata of ours: only their content was read"
        )
    return report


def _check_chain(objects: Iterable[ArchivedObject], report: PartitionReport) -> None:
    """Each batch begins where the one before it ended."""
    batches = sorted({one.info.batch for one in objects if one.info})
    end: int | None = None
    for batch in batches:
        if end is not None and batch.start > end:
            report.found_range(
                Kind.MISSING,
                end,
                batch.start,
                count=batch.start - end,
                text="no object tells of these offsets: an object was lost, or the messages were"
                " all filtered or never there (compare with the topic)",
            )
        if end is not None and batch.start < end:
            overlap = OffsetRange(batch.start, min(end, batch.end))
            report.notes.append(f"batch {batch} overlaps the one before it in {overlap}")
            report.found_range(
                Kind.TWICE,
                overlap.start,
                overlap.end,
                count=overlap.end - overlap.start,
                text="two batches tell of these offsets",
            )
        end = batch.end if end is None else max(end, batch.end)


def _check_contents(
    objects: Iterable[ArchivedObject], archive: Archive, report: PartitionReport, *, parsed: bool
) -> None:
    with_offsets = []
    for found in objects:
        what = recorded(archive, found, parsed=parsed)
        fault = found.fault or _name_fault(found) or missing_metadata(archive, found, what)
        if fault:
            _corrupt(report, found, fault)
        if what in (Recorded.PAYLOADS, Recorded.NUMBER):
            _read_text(found, archive, report)
        else:
            with_offsets.append(ObjectSource(archive, found, report))
    for rows in Merge(with_offsets).windows():
        combined = combine(rows)
        report.compared += len(combined.offsets)
        keys = ", ".join(sorted({part.key for part in rows})[:3])
        report.found(Kind.TWICE, combined.twice, text=f"in {keys}")


def _name_fault(found: ArchivedObject) -> str | None:
    """Tell where name and metadata disagree."""
    info, name = found.info, found.name
    if info is None:
        return None
    pairs = (
        ("topic", found.topic, info.topic_partition.topic),
        ("partition", name.partition, info.topic_partition.partition),
        ("generation", name.generation, info.generation),
    )
    wrong = [f"{what} {said} but metadata {told}" for what, said, told in pairs if said != told]
    if name.start_offset not in (info.batch.start, info.first_offset):
        wrong.append(f"offset {name.start_offset} but metadata {info.batch}")
    return "its name tells " + ", ".join(wrong) if wrong else None


def _read_text(found: ArchivedObject, archive: Archive, report: PartitionReport) -> None:
    rows = 0
    try:
        for batch in archive.read(found):
            rows += batch.num_rows
    except CorruptFile as error:
        _corrupt(report, found, str(error).removeprefix(f"{found.key}: "))
        return
    report.compared += rows
    if found.info and found.info.records != rows:
        # Null payloads may have been left out, and payloads with a delimiter read as several.
        report.notes.append(
            f"{found.key}: metadata tells {found.info.records} messages, it holds {rows} lines"
        )


def _corrupt(report: PartitionReport, found: ArchivedObject, text: str) -> None:
    at = found.first_offset
    report.found_range(Kind.CORRUPT, at, next_offset(at), key=found.key, text=text)
