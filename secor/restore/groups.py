"""Consumer groups' offsets, translated from the archived topics to the target: pure.

A committed offset says that everything below it was consumed.  Its translation is the place
of the first restored message at it or behind it: never behind a message that the group has
not consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from secor.core.model import OffsetRange, TopicPartition
from secor.restore.model import SourcePartition
from secor.restore.pairs import Pair


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """A group's committed offset: the next of ``topic_partition`` to consume."""

    group: str
    topic_partition: TopicPartition
    offset: int
    metadata: str = ""


class Precision(Enum):
    """Precisions of a translated offset: its distance from the message where the group goes on."""

    EXACT = "exact"
    ROUNDED = "rounded down"
    """The group reads some messages again; none is left out."""
    BY_TIME = "by time"
    """As ``ROUNDED``: the first message that is not older than the group's next one."""


@dataclass(frozen=True, slots=True)
class Position:
    """An offset on the target."""

    offset: int
    precision: Precision


@dataclass(frozen=True, slots=True)
class Translation:
    """The offset where ``group`` goes on in ``target``; it was made of ``came_from``."""

    group: str
    target: TopicPartition
    position: Position
    came_from: tuple[GroupOffset, ...]

    @property
    def metadata(self) -> str:
        """The group's metadata of its offset, where there is only one."""
        return self.came_from[0].metadata if len(self.came_from) == 1 else ""


@dataclass(frozen=True, slots=True)
class Untranslated:
    """An offset for which the target has no place, and why."""

    offset: GroupOffset
    why: str


CountRecords = Callable[[SourcePartition, TopicPartition, OffsetRange], int]
"""Counts what a source partition has in a range of archived offsets for a target partition."""


class Places:
    """The places of source offsets on the target, from the pairs of a job's transactions."""

    def __init__(self, pairs: Iterable[Pair], count: CountRecords) -> None:
        """``count`` is asked about runs with gaps in their source offsets."""
        runs: dict[tuple[SourcePartition, TopicPartition], list[tuple[int, int, int, int]]] = {}
        for pair in pairs:
            placement = pair.placement
            key = (pair.source, placement.topic_partition)
            runs.setdefault(key, []).append(
                (placement.first, placement.last, placement.base_offset, placement.records)
            )
        self._runs = {key: np.array(sorted(rows), np.int64) for key, rows in runs.items()}
        self._count = count

    def targets(self, source: SourcePartition) -> list[TopicPartition]:
        """Return the target partitions that have messages of a source partition."""
        return sorted(target for known, target in self._runs if known == source)

    def sources(self, target: TopicPartition) -> list[SourcePartition]:
        """Return the source partitions that a target partition has messages of."""
        return sorted(source for source, known in self._runs if known == target)

    def find(self, source: SourcePartition, target: TopicPartition, offset: int) -> int | None:
        """Return the place of the first message of ``source`` at ``offset`` or behind it.

        None where all that was written of it is below ``offset``.
        """
        first, last, base, records = self._runs[source, target].T
        places = base[first >= offset].tolist()
        for index in np.flatnonzero((first < offset) & (last >= offset)):
            # Mostly true, and then nothing is read: only of a compacted topic, or one with
            # transactions, the records below the offset have to be counted.
            dense = records[index] == last[index] - first[index] + 1
            before = OffsetRange(int(first[index]), offset)
            skipped = offset - first[index] if dense else self._count(source, target, before)
            places.append(int(base[index] + skipped))
        # The least: a job that was stopped may have written some messages twice without
        # transactions, and a group may read again but must leave nothing out.
        return min(places, default=None)

    def end(self, target: TopicPartition) -> int:
        """Return the offset behind the last message that the job wrote to a target partition."""
        return max(
            int((runs[:, 2] + runs[:, 3]).max())
            for (_, known), runs in self._runs.items()
            if known == target
        )


def translate(
    committed: Sequence[GroupOffset],
    sources: Sequence[SourcePartition],
    written: Mapping[SourcePartition, int],
    places: Places,
    by_time: Callable[[SourcePartition, int], tuple[TopicPartition, int] | None],
) -> Iterator[Translation | Untranslated]:
    """Translate the offsets of one group.

    ``sources`` are the job's source partitions; ``written`` is how far it has written each.
    ``by_time`` gives a place for offsets without a known pair.
    """
    by_source = {
        (other_source.topic, other_source.partition): other_source for other_source in sources
    }
    known: dict[SourcePartition, GroupOffset] = {}
    for group_offset in committed:
        source = by_source.get(
            (group_offset.topic_partition.topic, group_offset.topic_partition.partition)
        )
        if source is None:
            yield Untranslated(group_offset, "the job restores no such partition")
        elif source not in written:
            yield Untranslated(group_offset, "the job has written nothing of this partition yet")
        else:
            known[source] = group_offset
    targets = sorted({target for source in known for target in places.targets(source)})
    for target in targets:
        yield _of_target(target, known, written, places)
    for source, group_offset in sorted(known.items()):
        if not places.targets(source):
            yield _by_time(group_offset, by_time(source, group_offset.offset))


def _of_target(
    target: TopicPartition,
    known: Mapping[SourcePartition, GroupOffset],
    written: Mapping[SourcePartition, int],
    places: Places,
) -> Translation:
    """Return the first place that holds a message which the group has not consumed."""
    topics = {source.topic for source in known}
    offsets: list[int] = []
    came_from: list[GroupOffset] = []
    rounded = False
    for source in places.sources(target):
        if source in known:
            came_from.append(known[source])
            place = places.find(source, target, known[source].offset)
            # What the group has consumed beyond the restored messages will come later, and it reads
            # it again.
            rounded |= written[source] < known[source].offset
        elif source.topic in topics:
            # A partition that the group has not consumed anything of yet.
            place = places.find(source, target, 0)
        else:
            continue
        if place is not None:
            offsets.append(place)
    # Of several sources in one target the earliest place decides, behind which some of another
    # source's messages were consumed already.
    precision = Precision.ROUNDED if rounded or len(offsets) > 1 else Precision.EXACT
    position = Position(min(offsets, default=places.end(target)), precision)
    return Translation(came_from[0].group, target, position, tuple(came_from))


def _by_time(
    offset: GroupOffset, place: tuple[TopicPartition, int] | None
) -> Translation | Untranslated:
    if place is None:
        return Untranslated(offset, "nothing says where its messages are on the target")
    target, position = place
    return Translation(offset.group, target, Position(position, Precision.BY_TIME), (offset,))
