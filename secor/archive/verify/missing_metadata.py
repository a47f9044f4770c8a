"""Objects of ours whose metadata somebody removed, such as a copy made without it."""

from __future__ import annotations

from secor.archive.objects import Archive, ArchivedObject
from secor.archive.verify.parsed_objects import Recorded
from secor.core.errors import CorruptFile

OURS_ALONE = frozenset(
    {".seq", ".txt", ".txt.gz", ".txt.zst", ".json", ".json.gz", ".json.zst", ".avro"}
)
"""Extensions that Java Secor gives no object; ``.parquet`` and ``.orc`` are its as well."""


def missing_metadata(archive: Archive, archived: ArchivedObject, what: Recorded) -> str | None:
    """Tell that the metadata of one of our objects is gone; None for others.

    ``what`` is what the object records.  Java Secor's objects never had any; of formats that
    both write, those with the offsets of their messages are ours.
    """
    if archived.info is not None or archived.fault is not None:
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
        return False  # whoever reads it whole reports what is wrong
    return first is not None and first.num_rows > 0 and not first.column("offset").null_count
