"""The objects of the partition group that stand where new ones will be."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from secor.archive.backfill.coverage import merged
from secor.archive.backfill.model import BackfillPlan
from secor.archive.objects import HEADS_AT_ONCE, Archive, ArchivedObject
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import ObjectInfo, parse_key, routed_root

Place = tuple[str, str, int]
"""Directory, output partition, generation."""


def present_keys(archive: Archive, plan: BackfillPlan) -> set[str]:
    """Return the keys of the objects that hold messages of a plan now."""
    ranges: dict[int, list[OffsetRange]] = {}
    for batch in plan.batches:
        ranges.setdefault(batch.partition, []).append(batch.range)
    ends = {number: max(it.end for it in several) for number, several in ranges.items()}
    old = Standing(archive, plan.topic, ranges, ends.get)
    return {
        one.key
        for partition, of_partition in ranges.items()
        for one in old.objects(partition, merged(of_partition))
    }


class Standing:
    """The objects of the partition group about some partitions: listed once, asked as needed."""

    def __init__(
        self,
        archive: Archive,
        topic: str,
        partitions: Collection[int],
        committed: Callable[[int], int | None],
    ) -> None:
        """``committed`` tells where the last object of a partition ends if only its name tells
        anything, as Java Secor's.
        """
        self._archive = archive
        self._committed = committed
        self._topic = topic
        self._known: dict[str, ArchivedObject] = {}
        self._starts: dict[tuple[int, int | None], list[int]] = {}
        self.quarantine = archive.quarantine.root(topic)
        self._listed: dict[int, list[ArchivedObject]] = {}
        own = (archive.root(topic), self.quarantine)
        for root in roots_of(archive, topic):
            # What a route sent elsewhere is in a directory of its own there.
            below = root if root in own else routed_root(root, topic)
            for stored in archive.store.list(f"{below}/"):
                name = parse_key(root, stored.key)
                if name is not None and name.partition in partitions:
                    found = ArchivedObject(topic, name, stored.size, stored.modified)
                    self._listed.setdefault(name.partition, []).append(found)

    def objects(self, partition: int, ranges: Sequence[OffsetRange]) -> list[ArchivedObject]:
        """Return the objects whose batch has offsets of these ranges."""
        candidates: dict[str, ArchivedObject] = {}
        listed = self._listed.get(partition, [])
        for wanted in ranges:
            floors = self._floors(listed, wanted.start)
            for one in listed:
                first = one.name.start_offset
                if floors.get(_place(one), 0) <= first < wanted.end:
                    candidates[one.key] = one
        self._ask(candidates.values())
        return [
            one
            for key in candidates
            if self._is_ours(one := self._known[key])
            and one.info
            and any(one.info.batch.start < r.end and one.info.batch.end > r.start for r in ranges)
        ]

    def _floors(self, listed: Iterable[ArchivedObject], start: int) -> dict[Place, int]:
        """Return for each place where the batch begins that may hold ``start``.

        Where a route sends messages of several topics to one place, nothing is known.
        """
        last: dict[Place, ArchivedObject] = {}
        for one in listed:
            first, held = one.name.start_offset, last.get(_place(one))
            if first <= start and (held is None or first > held.name.start_offset):
                last[_place(one)] = one
        self._ask(last.values())
        found = {place: self._known[one.key] for place, one in last.items()}
        return {
            place: one.info.batch.start
            for place, one in found.items()
            if self._is_ours(one) and one.info
        }

    def _ask(self, objects: Iterable[ArchivedObject]) -> None:
        missing = [one for one in objects if one.key not in self._known]
        self._known |= {one.key: self._by_name(one) for one in described(self._archive, missing)}

    def _by_name(self, one: ArchivedObject) -> ArchivedObject:
        """Return an object without metadata with what names tell: where its batch ends, too.

        All objects of a batch begin at one offset, in whatever directory.
        """
        if one.info is not None or one.fault is not None:
            return one
        name = one.name
        if name.root not in (self._archive.root(self._topic), self.quarantine):
            return one  # who brought it there, no name tells
        end = self._next_start(name.partition, name.generation, name.start_offset)
        if end is None:  # the next generation goes on where this one ended
            end = self._next_start(name.partition, None, name.start_offset)
        if end is None:
            end = self._committed(name.partition)
        if end is None:
            raise ConfigurationError(
                f"{one.key}: has no metadata, no later object says where it ends, and the group has"
                " committed nothing: commit its offset with 'secor offsets set', or move it away"
            )
        info = ObjectInfo(
            topic_partition=TopicPartition(self._topic, name.partition),
            batch=OffsetRange(name.start_offset, max(end, name.start_offset + 1)),
            first_offset=name.start_offset,
            records=0,
            generation=name.generation,
            fingerprint="",
        )
        return replace(one, info=info)

    def _next_start(self, partition: int, generation: int | None, start: int) -> int | None:
        """Return where the next batch of a partition begins, of any generation for None."""
        starts = self._starts.get((partition, generation))
        if starts is None:
            names = [it.name for it in self._listed[partition]]
            chosen = {it.start_offset for it in names if generation in (None, it.generation)}
            starts = self._starts[partition, generation] = sorted(chosen)
        at = bisect_right(starts, start)
        return starts[at] if at < len(starts) else None

    def range_of(self, one: ArchivedObject) -> OffsetRange | None:
        """Return the range of an object's batch; None if it is another topic's."""
        self._ask([one])
        known = self._known[one.key]
        return known.info.batch if self._is_ours(known) and known.info else None

    def batches(self, partition: int, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges of their batches."""
        return [one.info.batch for one in self.objects(partition, ranges) if one.info]

    def _is_ours(self, one: ArchivedObject) -> bool:
        if one.info is None:
            raise ConfigurationError(
                f"{one.fault or one.key}: its metadata do not tell which offsets its batch has, so"
                " it cannot be replaced; move it away and give offsets"
            )
        return one.info.topic_partition.topic == self._topic


def roots_of(archive: Archive, topic: str) -> list[str]:
    """Return the directories that may have messages of a topic: its own come first.

    All topics are among them, since an earlier configuration may have had other routes.
    """
    own = [archive.root(topic), archive.quarantine.root(topic)]
    others = sorted({*archive.targets, *archive.topics()})
    return list(dict.fromkeys([*own, *map(archive.root, others)]))


def _place(one: ArchivedObject) -> Place:
    return one.name.root, one.name.output_partition, one.name.generation


def described(archive: Archive, objects: Iterable[ArchivedObject]) -> Iterator[ArchivedObject]:
    """Give objects with what their metadata tell, several asked for at a time."""
    with ThreadPoolExecutor(HEADS_AT_ONCE, thread_name_prefix="head") as pool:
        yield from pool.map(archive.describe, objects)
