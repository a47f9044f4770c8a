"""State of a recovery: what there is of each kind, what is done, and what prevents the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from secor.core.model import OffsetRange, TopicPartition
from secor.core.text import how_many
from secor.restore.groups import GroupOffset

KINDS = ("schemas", "topics", "messages", "groups", "acls", "quotas", "settings")
"""In the order in which a recovery does them."""


@dataclass(frozen=True, slots=True)
class KindState:
    """The state of a kind: how much is at the target as the archive has it.

    ``obstacles`` are sentences about what a person has to do or to decide: without that the
    recovery is not complete.  ``notes`` hinder nothing.
    """

    kind: str
    total: int
    done: int
    obstacles: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_kept: bool = True
    """Whether the archive has anything about this kind, were it that there was none."""

    @property
    def left(self) -> int:
        """Return how many are missing at the target."""
        return self.total - self.done

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is left to do, for the program or for a person."""
        return self.is_kept and not self.left and not self.obstacles


class Place(Enum):
    """The place of a group's offset, seen from what the archive has of a partition."""

    EXACT = "exact"
    BEHIND_THE_ARCHIVE = "rounded down"
    """It had consumed more than was archived: it goes on behind the last restored message."""
    BEFORE_THE_ARCHIVE = "from the first archived message"
    """Messages between its offset and the first archived one are in no archive."""
    SHARED = "rounded down, partitions are mixed"
    """Several partitions go to one: some messages are read again."""
    NOT_RESTORED = "left out"
    """The recovery does not restore this topic."""


def expected_place(
    offset: GroupOffset,
    extents: Mapping[TopicPartition, OffsetRange],
    topics: Iterable[str],
    *,
    is_mixed: bool,
) -> Place:
    """Return how exactly an offset can be translated, before anything is restored.

    ``extents`` are the archived offsets by source partition, ``topics`` all that are restored;
    ``is_mixed`` says whether messages of several partitions go to one.
    """
    place = offset.topic_partition
    if place.topic not in topics:
        return Place.NOT_RESTORED
    archived = extents.get(place)
    if archived is None or archived.start == archived.end:
        return Place.EXACT  # Nothing is archived of it: everything that comes is new.
    if offset.offset > archived.end:
        return Place.BEHIND_THE_ARCHIVE
    if is_mixed:
        return Place.SHARED
    return Place.BEFORE_THE_ARCHIVE if offset.offset < archived.start else Place.EXACT


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group at the target: how many of its offsets are there, were passed, are to be set.

    ``behind`` are those that are at the target and lower than what is restored, with both.
    """

    group: str
    equal: int
    moved_on: int
    missing: int
    behind: Mapping[TopicPartition, tuple[int, int]]
    running: str | None = None


def compare_group(
    group: str,
    wanted: Mapping[TopicPartition, int],
    present: Mapping[TopicPartition, int],
    running: str | None = None,
) -> GroupState:
    """Compare the offsets of a group with those that are restored.

    A group that has consumed more since is not behind: its offset is beyond the restored one.
    """
    known = {schema_id: present[schema_id] for schema_id in wanted if schema_id in present}
    return GroupState(
        group,
        equal=sum(known[topic_partition] == wanted[topic_partition] for topic_partition in known),
        moved_on=sum(known[topic_partition] > wanted[topic_partition] for topic_partition in known),
        missing=len(wanted) - len(known),
        behind={
            topic_partition: (known[topic_partition], wanted[topic_partition])
            for topic_partition in sorted(known)
            if known[topic_partition] < wanted[topic_partition]
        },
        running=running,
    )


def state_of_groups(
    groups: Sequence[GroupState], refused: Sequence[str], notes: Sequence[str]
) -> KindState:
    """Return the state of all groups; ``refused`` and ``notes`` are further sentences."""
    obstacles = [
        f"group {state.group} is running ({state.running}) and lacks"
        f" {how_many(state.missing, 'restored offset')}: stop its members, and run again"
        for state in groups
        if state.running and state.missing
    ]
    for state in groups:
        if state.behind:
            place, (present, wanted) = next(iter(state.behind.items()))
            obstacles.append(
                f"group {state.group} has committed {present} for {place}, which is before the"
                f" restored {wanted} ({how_many(len(state.behind), 'such offset')}): if nobody has"
                " set it back on purpose, run again with --force"
            )
    moved = [group for group in groups if group.moved_on]
    further = f"{how_many(len(moved), 'group has', 'groups have')} consumed more since"
    return KindState(
        "groups",
        total=len(groups),
        done=sum(not group.missing and not group.behind for group in groups),
        obstacles=(*obstacles, *refused),
        notes=(*([further] if moved else []), *notes),
    )
