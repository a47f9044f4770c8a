"""The objects of a topic partition, by what they record: offsets, payloads, or a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from secor.archive.objects import Archive, ArchivedObject
from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, next_offset
from secor.formats.text import TextFormat
from secor.verify.archive.connector_objects import ConnectorObjects, is_connectors
from secor.verify.archive.object_sources import ObjectMerge, ObjectSource
from secor.verify.archive.parsed_objects import Parsing, Recorded, Recordings
from secor.verify.archive.report import PartitionReport
from secor.verify.archive.text_objects import Place, Reach, places, written_as
from secor.verify.finding import FindingKind

OURS_ALONE = frozenset(
    {".seq", ".txt", ".txt.gz", ".txt.zst", ".json", ".json.gz", ".json.zst", ".avro"}
)
"""Extensions that Java Secor gives no object; ``.parquet`` and ``.orc`` are its as well."""


def missing_metadata(archive: Archive, archived: ArchivedObject, what: Recorded) -> str | None:
    """Return the fault that the metadata of one of our objects is gone; None for others.

    ``what`` is what the object records.  Java Secor's objects and those of Confluent's sink never
    had any; of formats that both write, those with the offsets of their messages are ours.
    """
    if archived.info is not None or archived.fault is not None or archived.name.of_connect:
        return None
    if archived.name.extension in OURS_ALONE or _has_offsets(archive, archived, what):
        return (
            "its metadata is gone, which ls, offsets recover and backfill need: put the object"
            " again with its metadata, as the copy or an earlier version of it has it"
        )
    return None


def _has_offsets(archive: Archive, archived: ArchivedObject, what: Recorded) -> bool:
    if archived.name.extension not in (".parquet", ".orc") or what is Recorded.NUMBER:
        return False
    try:
        first = next(archive.read(archived), None)
    except CorruptFile:
        return False  # its later reader reports what is wrong
    return first is not None and first.num_rows > 0 and not first.column("offset").null_count


@dataclass(frozen=True, slots=True)
class PendingObjects:
    """An object without offsets, or several, not reached yet in the log.

    No ``log_format``: only the number of the messages is known.
    """

    place: Place
    log_format: TextFormat | None

    @property
    def range(self) -> OffsetRange:
        """The range of its messages in the log."""
        return self.place[0]

    @property
    def generation(self) -> int:
        """The generation of its objects."""
        return self.place[1][0].name.generation

    @property
    def key(self) -> str:
        """The key of its first object."""
        return self.place[1][0].key


def sources_of(
    objects: Sequence[ArchivedObject],
    archive: Archive,
    report: PartitionReport,
    parsing: Parsing | None,
    reach: Reach,
) -> tuple[ObjectMerge, list[PendingObjects], ConnectorObjects | None]:
    """Return the objects with offsets, those without, the last in the log first, and those
    without that a connector has stored.

    Faults go to ``report``; ``parsing`` is for groups that parse.
    """
    with_offsets: list[ObjectSource] = []
    without: dict[TextFormat | None, list[ArchivedObject]] = {}
    connectors: list[tuple[ArchivedObject, TextFormat | None]] = []
    recordings = Recordings(
        archive,
        parsed=parsing is not None,
        other_values=parsing is not None and parsing.other_values,
    )
    for archived in objects:
        what = recordings.of(archived)
        for fault in (archived.fault, missing_metadata(archive, archived, what)):
            if fault:
                offset = archived.first_offset
                report.found_range(
                    FindingKind.CORRUPT, offset, next_offset(offset), key=archived.key, text=fault
                )
        if what in (Recorded.PAYLOADS, Recorded.NUMBER):
            log_format = archive.format_of(archived)
            key = None
            if what is Recorded.PAYLOADS and isinstance(log_format, TextFormat):
                key = written_as(archived, log_format)
            if is_connectors(archived):
                connectors.append((archived, key))
            else:
                without.setdefault(key, []).append(archived)
        else:
            offsets_only = what is Recorded.OFFSETS
            source = ObjectSource(archive, archived, report, offsets_only=offsets_only)
            with_offsets.append(source)
    pending = [
        PendingObjects(place, log_format)
        for log_format, alike in without.items()
        for place in places(alike, reach, buckets=parsing is None)
    ]
    pending.sort(key=lambda text_object: text_object.range.start, reverse=True)
    foreign = None
    if connectors:
        foreign = ConnectorObjects(
            connectors, objects, archive=archive, report=report, parsing=parsing
        )
    return ObjectMerge(with_offsets), pending, foreign
