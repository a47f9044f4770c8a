"""Objects of one topic partition checked by themselves: names, metadata, contents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from secor.archive.erasures import NO_ERASURES, Erasures, LogErasures
from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition, next_offset
from secor.verify.archive.compare import combine
from secor.verify.archive.connector_objects import is_connectors
from secor.verify.archive.inventory import Inventory
from secor.verify.archive.object_sources import ObjectMerge, ObjectSource
from secor.verify.archive.parsed_objects import Recorded, Recordings
from secor.verify.archive.partition_sources import missing_metadata
from secor.verify.archive.report import BACK_AGAIN, PartitionReport
from secor.verify.finding import FindingKind


def check_alone(
    topic_partition: TopicPartition,
    objects: Sequence[ArchivedObject],
    archive: Archive,
    *,
    parsed: bool = False,
    inventory: Inventory | None = None,
    erasures: Erasures = NO_ERASURES,
) -> PartitionReport:
    """See that the batches follow one another, and every object is what it says.

    Nothing that is erased may be in one.

    That a message never reached any object cannot be seen this way.
    """
    report = PartitionReport(topic_partition, objects=len(objects), inventory=inventory)
    for generation in sorted({archived.name.generation for archived in objects}):
        of_generation = [archived for archived in objects if archived.name.generation == generation]
        _check_chain(of_generation, report)
        erased = erasures.of(topic_partition.partition, generation, None)
        _check_contents(of_generation, archive, report, erased, parsed=parsed)
    foreign = sum(archived.info is None and archived.fault is None for archived in objects)
    if foreign:
        report.notes.append(
            f"{foreign} objects have no metadata of ours: only their content was read"
        )
    if inventory is not None:
        _finish(inventory, report)
    return report


def _finish(inventory: Inventory, report: PartitionReport) -> None:
    """Bring an inventory to the end of the objects."""
    ends = [stored.info.batch.end for stored in inventory.objects if stored.info]
    end = max([inventory.end, *ends])
    if inventory.messages == report.compared:
        inventory.window(end, np.empty(0, np.int64))
    else:  # of several generations, or of objects that record no offsets
        inventory.unknown(end, report.compared - inventory.messages)


def _check_chain(objects: Sequence[ArchivedObject], report: PartitionReport) -> None:
    """Each batch begins where the one before it ended, or where a connector went on."""
    batches = sorted({archived.info.batch for archived in objects if archived.info})
    connectors = [archived.batch_start for archived in objects if is_connectors(archived)]
    end: int | None = None
    for batch in batches:
        if end is not None and any(end <= start < batch.start for start in connectors):
            between = OffsetRange(end, batch.start)
            report.notes.append(
                f"in {between} a connector has stored objects: only the topic shows if all is there"
            )
        elif end is not None and batch.start > end:
            report.found_range(
                FindingKind.MISSING,
                end,
                batch.start,
                count=batch.start - end,
                text="no object has these offsets: an object was lost, or the messages were"
                " all filtered or never there (compare with the topic)",
            )
        if end is not None and batch.start < end:
            overlap = OffsetRange(batch.start, min(end, batch.end))
            report.notes.append(f"batch {batch} overlaps the one before it in {overlap}")
            report.found_range(
                FindingKind.TWICE,
                overlap.start,
                overlap.end,
                count=overlap.end - overlap.start,
                text="two batches have these offsets",
            )
        end = batch.end if end is None else max(end, batch.end)


def _check_contents(
    objects: Iterable[ArchivedObject],
    archive: Archive,
    report: PartitionReport,
    erased: LogErasures,
    *,
    parsed: bool,
) -> None:
    with_offsets = []
    inventory = report.inventory
    recordings = Recordings(archive, parsed=parsed)
    for archived in objects:
        what = recordings.of(archived)
        fault = archived.fault or _name_fault(archived) or missing_metadata(archive, archived, what)
        if fault:
            _corrupt(report, archived, fault)
        if what in (Recorded.PAYLOADS, Recorded.NUMBER):
            _read_text(archived, archive, report)
        else:
            with_offsets.append(ObjectSource(archive, archived, report))
    for rows in ObjectMerge(with_offsets).windows():
        combined = combine(rows)
        report.compared += len(combined.offsets)
        tracked = inventory is not None and len(with_offsets) == len(inventory.objects)
        if inventory is not None and tracked and len(combined.offsets):
            inventory.window(next_offset(int(combined.offsets[-1])), combined.offsets)
        keys = ", ".join(sorted({part.key for part in rows})[:3])
        report.note(FindingKind.TWICE, combined.twice, text=f"in {keys}")
        report.note(
            FindingKind.EXTRA, erased.back_again(combined.records), text=f"{BACK_AGAIN} ({keys})"
        )


def _name_fault(archived: ArchivedObject) -> str | None:
    """Return where name and metadata disagree, or None."""
    info, name = archived.info, archived.name
    if info is None:
        return None
    pairs = (
        ("topic", archived.topic, info.topic_partition.topic),
        ("partition", name.partition, info.topic_partition.partition),
        ("generation", name.generation, info.generation),
    )
    wrong = [
        f"{what} {in_name} but metadata {in_metadata}"
        for what, in_name, in_metadata in pairs
        if in_name != in_metadata
    ]
    if name.start_offset not in (info.batch.start, info.first_offset):
        wrong.append(f"offset {name.start_offset} but metadata {info.batch}")
    return "its name says " + ", ".join(wrong) if wrong else None


def _read_text(archived: ArchivedObject, archive: Archive, report: PartitionReport) -> None:
    rows = 0
    try:
        for batch in archive.read(archived):
            rows += batch.num_rows
    except CorruptFile as error:
        _corrupt(report, archived, str(error).removeprefix(f"{archived.key}: "))
        return
    report.compared += rows
    if archived.info and archived.info.records != rows:
        # Null payloads may have been left out, and payloads with a delimiter read as several.
        report.notes.append(
            f"{archived.key}: its metadata says {archived.info.records} messages, it holds {rows}"
            " lines"
        )


def _corrupt(report: PartitionReport, archived: ArchivedObject, text: str) -> None:
    offset = archived.first_offset
    report.found_range(
        FindingKind.CORRUPT, offset, next_offset(offset), key=archived.key, text=text
    )
