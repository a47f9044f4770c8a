"""A fence before each write: has the table moved since the vector was read?

A Hudi writer begins by rolling back what others have not completed: it plans the rollback,
deletes the files they wrote, and then their instants.  Writers look for their instant before they
complete it, but that is no compare-and-set: one may complete though its rollback was planned, or a
moment after it was carried out.  Such a commit was *taken back*: it does not count, nor does what
was committed on top of it.  The fence recognises it by a plan that is older than its completion,
or, after the rollback, by a completed instant without its earlier files.  One that is gone is
known by the rollback of the instant that the next commit names as its base.

A rollback that was planned after the completion may be a person's decision: until it is carried
out the commit counts, and then the table was rolled back.  It was a writer of ours, which had
seen the instant unfinished, if that writer's Hudi has left a copy of the completed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from secor.adapters.hudi.timeline import Instant, Timeline, TimelineReader
from secor.core.errors import CorruptFile, Refused
from secor.core.ports import ObjectStore
from secor.core.text import load_json
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_GROUP, property_name
from secor.tables.hudi import BACKUPS, MOVED

BASE = "base"
"""A property of a commit: the instant of the group's commit on which it was made.  A rollback may
remove that one while the next is written.
"""


@dataclass(frozen=True, slots=True)
class GroupCommits:
    """The newest commit of a group that counts, with what it says, and those that do not by id."""

    newest: Instant | None = None
    added: Mapping[str, str] = field(default_factory=dict)
    taken_back: Mapping[str, Instant] = field(default_factory=dict)


def require_unmoved(
    store: ObjectStore,
    location: str,
    group: str,
    expected: str | None,
    taken_back: frozenset[str] = frozenset(),
) -> None:
    """Raise ``Refused`` unless ``expected`` is the group's newest commit and one write goes on.

    That one is ours.  Where it has gone, somebody else has rolled it back.  ``taken_back`` are
    the commits that were known not to count when the vector was read: there may be no more.
    """
    reader = TimelineReader(store)
    timeline = reader.read(location)
    if timeline is None:
        raise Refused(f"{MOVED}: there is no table in {location}")
    own = commits_of_group(reader, timeline, group)
    if own.added.get(SUMMARY_COMMIT) != expected:
        raise Refused(f"{MOVED}: its newest commit is {own.added.get(SUMMARY_COMMIT)}")
    if not taken_back.issuperset(own.taken_back):
        raise Refused(f"{MOVED}: commits were taken back: {', '.join(own.taken_back)}")
    # Ours alone: another one that goes on may be rolling us back, or complete first.
    if len(timeline.writing) != 1:
        raise Refused(f"{MOVED}: {len(timeline.writing)} writes go on")
    if not timeline.writing.isdisjoint(reader.planned_rollbacks(timeline)):
        raise Refused(f"{MOVED}: this write is being rolled back")


def commits_of_group(timelines: TimelineReader, timeline: Timeline, group: str) -> GroupCommits:
    """Walk back to the newest commit of a group that counts.  Raises ``CorruptFile``."""
    of_group = (
        (instant, added)
        for instant in timeline.commits
        if (added := timelines.added(instant)).get(SUMMARY_GROUP) == group
        and SUMMARY_COMMIT in added
    )
    first = next(of_group, None)
    if first is None:
        return GroupCommits()
    planned = timelines.planned_rollbacks(timeline)
    removed = planned.keys() - {commit.requested for commit in timeline.commits}
    bare = {commit for commit in timeline.commits if commit.requested in timeline.bare}
    undone = {
        commit
        for commit in timeline.commits
        if is_undone(planned, commit.requested, commit.completed)
    }
    # Where nothing was taken back the newest counts.
    commits = [first]
    if bare | undone or removed:
        commits += of_group
    place = {added[SUMMARY_COMMIT]: index for index, (_, added) in enumerate(commits)}
    intact = [index for index, (instant, _) in enumerate(commits) if instant not in bare | undone]
    # The oldest commits lose their other files before themselves when they are archived.
    newest = index = min(intact, default=None)
    while index is not None:
        instant, added = commits[index]
        before = place.get(_previous(added, group, instant.key) or "")
        if added.get(property_name(group, BASE)) in removed:
            newest = before = index + 1 if index + 1 < len(commits) else None
        elif instant in undone or (instant in bare and index < max(intact)):
            newest = before
        index = before if before is not None and before > index else None
    skipped = commits if newest is None else commits[:newest]
    taken_back = {added[SUMMARY_COMMIT]: instant for instant, added in skipped}
    if newest is None:
        return GroupCommits(taken_back=taken_back)
    return GroupCommits(*commits[newest], taken_back)


def is_undone(planned: Mapping[str, str], requested: str, completed: str) -> bool:
    """Return whether a rollback of an instant was planned before the instant was completed.

    Only a writer that begins does that: nobody else rolls back what is not completed.
    """
    # Both are Hudi's times, texts of the same length, so they compare as texts.
    return requested in planned and planned[requested] < completed


def was_undone(
    timelines: TimelineReader, timeline: Timeline, location: str, requested: str, completed: str
) -> bool:
    """Return whether one of our writers took back a commit that left the timeline."""
    planned = timelines.planned_rollbacks(timeline)
    if is_undone(planned, requested, completed):
        return True
    copies = f"{location}/.hoodie/{BACKUPS}/{requested}_{completed}."
    return requested in planned and any(True for _ in timelines.store.list(copies))


def is_rolled_back_by_others(timelines: TimelineReader, timeline: Timeline) -> bool:
    """Return whether a rollback is planned, and not done, that may be a person's decision."""
    planned = timelines.planned_rollbacks(timeline)
    completed = {commit.requested: commit.completed for commit in timeline.commits}
    return any(
        requested in completed
        and when in timeline.pending
        and not is_undone(planned, requested, completed[requested])
        for requested, when in planned.items()
    )


def _previous(added: Mapping[str, str], group: str, key: str) -> str | None:
    """Return the id of the commit on which a commit was made."""
    try:
        commit = load_json(added.get(property_name(group, "commit"), "{}"))
        previous = commit.get("previous")
    except (ValueError, AttributeError) as error:
        raise CorruptFile(f"{key}: no commit of Secor's ({error})") from error
    return None if previous is None else str(previous)
