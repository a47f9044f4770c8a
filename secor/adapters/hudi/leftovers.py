"""What writes left behind that did not end: empty directories, and files of those rolled back.

Hudi makes the directories of a table before its properties.  One that is killed in between leaves
a table that Hudi can neither read nor make.

Hudi rolls back whoever has not completed, and deletes what was written until then.  A writer that
was only slow puts its files after that.  It can never complete, but readers take a file for one of
an archived commit where it is older than the whole timeline.  So such files are deleted.
"""

from __future__ import annotations

import re

from secor.adapters.hudi.fence import is_undone
from secor.adapters.hudi.timeline import Timeline, TimelineReader
from secor.core.small_objects import put_bytes
from secor.tables.hudi import BACKUPS

_DATA_FILE = re.compile(r"_(\d{14,17})\.(?:parquet|orc|hfile|log\.[^/]*)$")
_ARCHIVES = (".hoodie/timeline/history/", ".hoodie/archived/")


def delete_leftovers(timelines: TimelineReader, location: str) -> list[str]:
    """Delete files of writes that the timeline of a table does not know; return their keys.

    Also copies of instants whose rollbacks the timeline does not know any more.
    Raises ``Unavailable``, ``AccessDenied``.
    """
    store = timelines.store
    # Files first: each write that goes on is on the timeline before its files are there.
    times = {
        stored.key: matched[1]
        for stored in store.list(f"{location}/")
        if not stored.key.startswith(f"{location}/.hoodie/")
        if (matched := _DATA_FILE.search(stored.key)) is not None
    }
    backups = f"{location}/.hoodie/{BACKUPS}/"
    copies = [stored.key for stored in store.list(backups) if stored.key != backups]
    timeline = timelines.read(location)
    if timeline is None:
        return []
    archives = (stored.key for it in _ARCHIVES for stored in store.list(f"{location}/{it}"))
    archived = any(not key.endswith("/") for key in archives)
    oldest = _oldest_told(timeline, archived=archived)
    if oldest is None:
        return []
    known = {it.requested for it in timeline.completed} | timeline.pending
    left = [key for key, at in sorted(times.items()) if at not in known and at >= oldest]
    for key in left:
        store.delete(key)
    planned = timelines.planned_rollbacks(timeline)
    for copy in copies:
        if copy[len(backups) :].partition("_")[0].partition(".")[0] not in planned:
            store.delete(copy)
    return left


def delete_empty_table(timelines: TimelineReader, location: str) -> None:
    """Delete the directories of a table that was not made to the end, if nothing is in them.

    Raises ``Unavailable``, ``AccessDenied``.
    """
    if timelines.read(location) is not None:
        return
    keys = [stored.key for stored in timelines.store.list(f"{location}/.hoodie/")]
    if all(key.endswith("/") for key in keys):
        for key in sorted(keys, key=len, reverse=True):
            timelines.store.delete(key)


def allow_rollbacks(timelines: TimelineReader, location: str, timeline: Timeline) -> list[str]:
    """Let Hudi roll back writes that it refuses to; return the keys of what was put for that.

    Hudi does not roll a write back where a later one was completed ("please rollback greater
    commits first"), and nobody can begin to write until it is rolled back: one that is unfinished,
    and one that was completed after a rival had planned its rollback.  It makes an exception where
    the write has a heartbeat.  Raises ``Unavailable``, ``AccessDenied``, ``CorruptFile``.
    """
    newest = max((it.requested for it in timeline.commits), default="")
    planned = timelines.planned_rollbacks(timeline)
    undone = {
        it.requested
        for it in timeline.commits
        if is_undone(planned, it.requested, it.completed)
        and planned[it.requested] in timeline.pending
    }
    blocking = sorted(at for at in timeline.writing | undone if at < newest)
    keys = [f"{location}/.hoodie/.heartbeat/{at}" for at in blocking]
    return [key for key in keys if put_bytes(timelines.store, key, b"")]


def _oldest_told(timeline: Timeline, *, archived: bool) -> str | None:
    """Return since when each commit is on the timeline; None where nobody knows.

    The oldest commits are archived first, unless savepoints keep some of them.
    """
    if not archived:
        return ""
    if any(it.action == "savepoint" for it in timeline.completed):
        return None
    return min((it.requested for it in timeline.commits), default=None)
