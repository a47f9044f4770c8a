"""Whether a table is still where it was when the vector was read: asked by who has an instant."""

from __future__ import annotations

from collections.abc import Mapping

from secor.adapters.hudi.timeline import Instant, Timeline, TimelineReader
from secor.core.errors import Refused
from secor.core.ports import ObjectStore
from secor.tables.group_record import SUMMARY_COMMIT, SUMMARY_GROUP
from secor.tables.hudi import MOVED


def require_unmoved(store: ObjectStore, location: str, group: str, expected: str | None) -> None:
    """Raise ``Refused`` unless ``expected`` is the group's newest commit and one write goes on.

    That one is ours.  Where it has gone, somebody else has rolled it back.
    """
    reader = TimelineReader(store)
    timeline = reader.read(location)
    if timeline is None:
        raise Refused(f"{MOVED}: there is no table in {location}")
    _, added = newest_commit(reader, timeline, group)
    if added.get(SUMMARY_COMMIT) != expected:
        raise Refused(f"{MOVED}: its newest commit is {added.get(SUMMARY_COMMIT)}")
    if len(timeline.writing) != 1:
        raise Refused(f"{MOVED}: {len(timeline.writing)} writes go on")


def newest_commit(
    timelines: TimelineReader, timeline: Timeline, group: str
) -> tuple[Instant | None, Mapping[str, str]]:
    """Walk back to the newest commit of a group; return it with what it says."""
    for instant in timeline.commits:
        extra = timelines.added(instant)
        if extra.get(SUMMARY_GROUP) == group and SUMMARY_COMMIT in extra:
            return instant, extra
    return None, {}
