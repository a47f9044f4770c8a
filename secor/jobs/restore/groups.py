"""Consumer groups' offsets, translated and committed at a job's target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from secor.core.errors import ConfigurationError, SecorError
from secor.core.model import RUNNING_UNLESS, Committed, OffsetRange, TopicPartition
from secor.jobs.restore.group_offsets import Origin
from secor.jobs.restore.offsets import read_all_offsets, read_pairs
from secor.jobs.restore.verify import read_pieces
from secor.restore.groups import GroupOffset, Places, Translation, Untranslated, translate
from secor.restore.model import SourcePartition
from secor.restore.routing import Routing
from secor.wiring.restore import Job

if TYPE_CHECKING:
    from secor.adapters.kafka.group_admin import GroupAdmin


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The planned offsets of one group.

    ``name`` is its name at the target, ``state`` what the target's brokers say of it, None
    where they do not know it.  ``obstacles`` are sentences about why it is left alone.
    """

    group: str
    name: str
    state: str | None
    translations: tuple[Translation, ...]
    left_out: tuple[Untranslated, ...]
    present: Mapping[TopicPartition, int] = field(default_factory=dict)
    obstacles: tuple[str, ...] = ()


def plan_groups(
    job: Job, admin: GroupAdmin, origin: Origin, name: str, *, force: bool
) -> list[GroupPlan]:
    """Translate everything, and find what prevents it; write nothing.

    ``name`` is a template such as ``restored-{group}``.  Raises ``ConfigurationError``.
    """
    _check_origin(job, job.routing(), origin)
    translated = translate_groups(job, origin.offsets)
    states = admin.states()
    return [
        _plan_group(admin, group, _formatted(name, group), results, states, force=force)
        for group, results in translated.items()
    ]


def translate_groups(
    job: Job, offsets: Sequence[GroupOffset]
) -> dict[str, list[Translation | Untranslated]]:
    """Return where each offset of each group is at the target, by group in the order of names.

    Raises ``ConfigurationError`` where the job was not started.
    """
    partitions = job.offsets_partitions()
    if not partitions:
        raise ConfigurationError(
            f"job {job.name} was not started, so nothing says where its messages are: see"
            " secor restore run"
        )
    route = job.routing()
    written = {
        source: stored.next_offset
        for source, stored in read_all_offsets(job, partitions).offsets.items()
    }
    by_time = _ByTime(job, route)
    sources = job.sources()
    places = Places(read_pairs(job, partitions), _Counting(job, route))
    by_group: dict[str, list[GroupOffset]] = defaultdict(list)
    for group_offset in offsets:
        by_group[group_offset.group].append(group_offset)
    return {
        group: list(translate(by_group[group], sources, written, places, by_time))
        for group in sorted(by_group)
    }


def _formatted(name: str, group: str) -> str:
    given = name.replace("{group}", group)
    if "{" in name.replace("{group}", "") or not given:
        raise ConfigurationError('--as: use {group}, as in "restored-{group}"')
    return given


def _check_origin(job: Job, route: Routing, origin: Origin) -> None:
    """Refuse offsets that are the target's own: they would be translated twice."""
    same = {offset.topic_partition.topic for offset in origin.offsets}
    same = {topic for topic in same if route.target(topic) == topic}
    if origin.cluster is not None and same and origin.cluster == job.log.cluster_id():
        raise ConfigurationError(
            f"{', '.join(sorted(same))}: the topic that was restored has the same name in the same"
            " cluster, so its groups' offsets may be of either one; give --from a file that was"
            " saved before, or name the cluster of the old topic"
        )


def _plan_group(
    admin: GroupAdmin,
    group: str,
    name: str,
    results: Sequence[Translation | Untranslated],
    states: Mapping[str, str],
    *,
    force: bool,
) -> GroupPlan:
    translations = tuple(result for result in results if isinstance(result, Translation))
    left_out = tuple(result for result in results if isinstance(result, Untranslated))
    state = states.get(name)
    committed = admin.offsets(name) if state is not None else {}
    present = {
        translation.target: committed[translation.target].offset
        for translation in translations
        if translation.target in committed
    }
    return GroupPlan(
        group,
        name,
        state,
        translations,
        left_out,
        present,
        () if force else tuple(_obstacles(state, translations, present)),
    )


def _obstacles(
    state: str | None,
    translations: Sequence[Translation],
    present: Mapping[TopicPartition, int],
) -> Iterator[str]:
    if state is not None and state not in RUNNING_UNLESS:
        yield f"is running ({state}): stop its members, or write under another name with --as"
    other = [
        translation.target
        for translation in translations
        if present.get(translation.target, translation.position.offset)
        != translation.position.offset
    ]
    if other:
        yield (
            f"has committed other offsets at the target already, as for {other[0]}: --force"
            " writes over them"
        )


def apply_group(admin: GroupAdmin, plan: GroupPlan) -> dict[TopicPartition, SecorError]:
    """Commit what a plan says; return what was refused, or is not there afterwards."""
    wanted = {
        translation.target: Committed(translation.position.offset, translation.metadata)
        for translation in plan.translations
    }
    return admin.commit(plan.name, wanted)


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts records of the archive; see ``CountRecords``."""

    job: Job
    route: Routing

    def __call__(
        self, source: SourcePartition, target: TopicPartition, offsets: OffsetRange
    ) -> int:
        count = 0
        for piece in read_pieces(self.job, source, offsets.start):
            for placed in self.route(source, piece):
                if placed.topic_partition == target:
                    kept = placed.records.column("offset").to_numpy()
                    # Records are in the order of their offsets, so those below the end are the
                    # first ones.
                    count += int(kept.searchsorted(offsets.end))
            if piece.next_offset >= offsets.end:
                break
        return count


@dataclass(frozen=True, slots=True)
class _ByTime:
    """Finds a place on the target by the time of the group's next message.

    In a target partition that holds one source partition in its order, the first message that
    is not older than another one is never behind it.
    """

    job: Job
    route: Routing

    def __call__(self, source: SourcePartition, offset: int) -> tuple[TopicPartition, int] | None:
        if self.route.partitioning != "same":
            return None
        target = TopicPartition(self.route.target(source.topic), source.partition)
        time = self._time(source, offset)
        if time is None:
            return None
        place = self.job.log.offset_at(target, time)
        return None if place is None else (target, place)

    def _time(self, source: SourcePartition, offset: int) -> int | None:
        """Return the time of the message at ``offset`` or behind it; of the last one at the end."""
        last = None
        archived = self.job.source.extent(source).range
        # Below the first object nothing can be read; the first message behind it will do.
        start = max(archived.start, min(offset, archived.end - 1))
        for piece in read_pieces(self.job, source, start):
            for placed in self.route(source, piece):
                last = placed.records.column("timestamp")[0].as_py()
                if piece.next_offset > offset:
                    return None if last is None else int(last)
        return None if last is None else int(last)
