"""Files that a write left behind which was rolled back while it still went on.

Hudi rolls back whoever has not completed, and deletes what was written until then.  A writer that
was only slow puts its files after that.  It can never complete, but readers take a file for one of
an archived commit where it is older than the whole timeline.  So such files are deleted.
"""

from __future__ import annotations

import re

from secor.adapters.hudi.timeline import Timeline, TimelineReader

_DATA_FILE = re.compile(r"_(\d{14,17})\.(?:parquet|orc|hfile|log\.[^/]*)$")
_ARCHIVES = (".hoodie/timeline/history/", ".hoodie/archived/")


def delete_leftovers(timelines: TimelineReader, location: str) -> list[str]:
    """Delete files of writes that the timeline of a table does not know; return their keys.

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
    timeline = timelines.read(location)
    if timeline is None:
        return []
    archived = any(True for it in _ARCHIVES for _ in store.list(f"{location}/{it}"))
    oldest = _oldest_told(timeline, archived=archived)
    if oldest is None:
        return []
    known = {it.requested for it in timeline.completed} | timeline.pending
    left = [key for key, at in sorted(times.items()) if at not in known and at >= oldest]
    for key in left:
        store.delete(key)
    return left


def _oldest_told(timeline: Timeline, *, archived: bool) -> str | None:
    """Return since when each commit is on the timeline; None where nobody knows.

    The oldest commits are archived first, unless savepoints keep some of them.
    """
    if not archived:
        return ""
    if any(it.action == "savepoint" for it in timeline.completed):
        return None
    return min((it.requested for it in timeline.commits), default=None)
