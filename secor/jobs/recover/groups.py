"""Groups of a lost cluster: what is expected of their offsets, compared, and committed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from secor.core.errors import SecorError
from secor.core.model import RUNNING_UNLESS, Committed, TopicPartition
from secor.core.text import how_many
from secor.jobs.restore.groups import translate_groups
from secor.restore.groups import GroupOffset, Position, Precision, Translation, Untranslated
from secor.restore.recovery import (
    GroupState,
    KindState,
    Place,
    compare_group,
    expected_place,
    state_of_groups,
)
from secor.wiring.kept_groups import GROUPS_AT_ONCE
from secor.wiring.restore import Job

if TYPE_CHECKING:
    from secor.adapters.kafka.group_admin import GroupAdmin


@dataclass(frozen=True, slots=True)
class RestoredGroups:
    """The offsets where groups go on, by group and target partition, and those without a place."""

    wanted: Mapping[str, Mapping[TopicPartition, Committed]]
    precisions: Mapping[str, int]
    """How many offsets are exact, rounded down, and found by time."""
    left_out: tuple[Untranslated, ...]
    refused: tuple[Untranslated, ...]


def expected_places(
    job: Job, offsets: Iterable[GroupOffset], topics: Iterable[str]
) -> Counter[Place]:
    """Return how many offsets can be translated how exactly, before the restore of messages."""
    extents = {
        TopicPartition(source.topic, source.partition): job.source.extent(source).range
        for source in job.sources()
    }
    known = frozenset(topics)
    names = Counter(map(job.target_name, known))
    # Offsets of two sources in one target partition interleave: no offset there is exact.
    mixed = job.config.target.partitioning != "same" or any(name > 1 for name in names.values())
    return Counter(expected_place(offset, extents, known, is_mixed=mixed) for offset in offsets)


def restored_groups(
    job: Job, offsets: Sequence[GroupOffset], topics: Iterable[str]
) -> RestoredGroups:
    """Translate all offsets of the restored ``topics``; the others are left out.

    Raises ``ConfigurationError`` where the job has not begun.
    """
    known = frozenset(topics)
    chosen = [offset for offset in offsets if offset.topic_partition.topic in known]
    left_out = [
        Untranslated(group_offset, "the recovery does not restore this topic")
        for group_offset in offsets
        if group_offset.topic_partition.topic not in known
    ]
    refused: list[Untranslated] = []
    wanted: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    precisions: Counter[str] = Counter()
    archived = {(source.topic, source.partition) for source in job.sources()}
    for group, results in translate_groups(job, chosen).items():
        for result in results:
            if isinstance(result, Untranslated):
                place = result.offset.topic_partition
                result = (
                    result
                    if (place.topic, place.partition) in archived
                    else _of_nothing_archived(job, result)
                )
            if isinstance(result, Untranslated):
                refused.append(result)
            else:
                wanted[group][result.target] = Committed(result.position.offset, result.metadata)
                precisions[result.position.precision.value] += 1
    return RestoredGroups(wanted, precisions, tuple(left_out), tuple(refused))


def _of_nothing_archived(job: Job, untranslated: Untranslated) -> Translation | Untranslated:
    """Return the target's beginning for a partition without a message in the archive.

    Without a committed offset a consumer might begin at the end, behind what comes meanwhile.
    """
    group_offset = untranslated.offset
    target = TopicPartition(
        job.target_name(group_offset.topic_partition.topic), group_offset.topic_partition.partition
    )
    if job.config.target.partitioning != "same" or target not in job.log.partitions(target.topic):
        return untranslated
    start = job.log.start(target)
    return Translation(
        group_offset.group, target, Position(start, Precision.EXACT), (group_offset,)
    )


def look_at_groups(admin: GroupAdmin, restored: RestoredGroups) -> KindState:
    """Compare what the groups have at the target with what was restored."""
    states, _ = _states(admin, restored)
    return _summary(states, restored, [])


def commit_groups(admin: GroupAdmin, restored: RestoredGroups, *, force: bool) -> KindState:
    """Commit what is missing; a group that is refused does not stop the others.

    An offset that the target has already is not set back, and with ``force`` only set forward.
    """
    states, present = _states(admin, restored)
    refused = []
    for state in states:
        if state.running:
            continue
        wanted = restored.wanted[state.group]
        there = present.get(state.group, {})
        missing = {
            place: offset
            for place, offset in wanted.items()
            if place not in there or (force and place in state.behind)
        }
        # One request a group: Kafka takes a group's offsets as a whole, and one that is refused
        # must not keep back the others.
        if missing:
            refused += _commit(admin, state.group, missing)
    # Looked up again: a member may have started between the first look and the commit.
    states, _ = _states(admin, restored)
    return _summary(states, restored, refused)


def _commit(
    admin: GroupAdmin, group: str, missing: Mapping[TopicPartition, Committed]
) -> list[str]:
    """Return what the brokers refused, were it the whole group."""
    try:
        failed = admin.commit(group, missing)
    except SecorError as error:
        return [f"group {group}: {error}"]
    return [f"group {group}, {place}: {why}" for place, why in failed.items()]


def _states(
    admin: GroupAdmin, restored: RestoredGroups
) -> tuple[list[GroupState], dict[str, dict[TopicPartition, Committed]]]:
    known = admin.states()
    present: dict[str, dict[TopicPartition, Committed]] = {}
    # Groups that the brokers do not know have no offsets, and need no request.
    asked = [group for group in restored.wanted if group in known]
    for begin in range(0, len(asked), GROUPS_AT_ONCE):
        offsets, _ = admin.offsets_of(asked[begin : begin + GROUPS_AT_ONCE])
        present |= offsets
    states = []
    for group, wanted in restored.wanted.items():
        state = known.get(group)
        running = state if state is not None and state not in RUNNING_UNLESS else None
        there = {place: offset.offset for place, offset in present.get(group, {}).items()}
        goal = {place: offset.offset for place, offset in wanted.items()}
        states.append(compare_group(group, goal, there, running))
    return states, present


def _summary(
    states: Sequence[GroupState], restored: RestoredGroups, refused: Sequence[str]
) -> KindState:
    further = [
        f"group {untranslated.offset.group}, {untranslated.offset.topic_partition}:"
        f" {untranslated.why}"
        for untranslated in restored.refused
    ]
    return state_of_groups(states, [*further, *refused], list(_notes(restored)))


def _notes(restored: RestoredGroups) -> Iterator[str]:
    total = sum(restored.precisions.values())
    if total:
        kinds = ", ".join(
            f"{count:,} {precision}" for precision, count in sorted(restored.precisions.items())
        )
        yield f"{how_many(total, 'offset')}: {kinds}"
    if restored.left_out:
        topics = sorted({group.offset.topic_partition.topic for group in restored.left_out})
        named = ", ".join(topics[:5]) + (", …" if len(topics) > 5 else "")
        yield (
            f"{how_many(len(restored.left_out), 'offset')} of topics that are not restored"
            f" ({named}) are left out"
        )
