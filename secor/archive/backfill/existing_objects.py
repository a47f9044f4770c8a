"""The objects of the partition group in the places of the new ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from secor.archive.backfill.coverage import merged
from secor.archive.backfill.model import BackfillPlan
from secor.archive.objects import Archive, ArchivedObject, visible
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import parse_key, routed_root
from secor.core.object_info import ObjectInfo

Place = tuple[str, str, int]
"""Directory, output partition, generation."""


def present_keys(archive: Archive, plan: BackfillPlan) -> set[str]:
    """Return the keys of the objects that hold messages of a plan now."""
    ranges: dict[int, list[OffsetRange]] = {}
    for batch in plan.batches:
        ranges.setdefault(batch.partition, []).append(batch.range)
    ends = {
        number: max(listed_object.end for listed_object in several)
        for number, several in ranges.items()
    }
    old = ExistingObjects(archive, plan.topic, ranges, ends.get)
    return {
        archived.key
        for partition, of_partition in ranges.items()
        for archived in old.objects(partition, merged(of_partition))
    }


class ExistingObjects:
    """The objects of the partition group about some partitions: listed once, asked as needed."""

    def __init__(
        self,
        archive: Archive,
        topic: str,
        partitions: Collection[int],
        committed: Callable[[int], int | None],
    ) -> None:
        """``committed`` says where the last object of a partition ends if only its name says
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
                    archived = ArchivedObject(topic, name, stored.size, stored.modified)
                    self._listed.setdefault(name.partition, []).append(archived)
        for listed in self._listed.values():
            _refuse_unfinished(listed)

    def objects(self, partition: int, ranges: Sequence[OffsetRange]) -> list[ArchivedObject]:
        """Return the objects of batches with offsets of these ranges."""
        candidates: dict[str, ArchivedObject] = {}
        listed = self._listed.get(partition, [])
        for wanted in ranges:
            floors = self._floors(listed, wanted.start)
            for archived in listed:
                first = archived.name.start_offset
                # By names first: only these few need a request for their metadata.
                if floors.get(_place(archived), 0) <= first < wanted.end:
                    candidates[archived.key] = archived
        self._ask(candidates.values())
        return [
            archived
            for key in candidates
            if self._is_ours(archived := self._known[key])
            and archived.info
            and any(
                archived.info.batch.start < r.end and archived.info.batch.end > r.start
                for r in ranges
            )
        ]

    def _floors(self, listed: Iterable[ArchivedObject], start: int) -> dict[Place, int]:
        """Return for each place where the batch begins that may hold ``start``.

        Where a route sends messages of several topics to one place, nothing is known.
        """
        last: dict[Place, ArchivedObject] = {}
        for archived in listed:
            first, previous = archived.name.start_offset, last.get(_place(archived))
            if first <= start and (previous is None or first > previous.name.start_offset):
                last[_place(archived)] = archived
        self._ask(last.values())
        nearest = {place: self._known[archived.key] for place, archived in last.items()}
        return {
            place: archived.info.batch.start
            for place, archived in nearest.items()
            if self._is_ours(archived) and archived.info
        }

    def _ask(self, objects: Iterable[ArchivedObject]) -> None:
        missing = [archived for archived in objects if archived.key not in self._known]
        self._known |= {
            archived.key: self._by_name(archived) for archived in described(self._archive, missing)
        }

    def _by_name(self, archived: ArchivedObject) -> ArchivedObject:
        """Return an object without metadata with what names say: where its batch ends, too.

        All objects of a batch begin at one offset, in whatever directory.
        """
        if archived.info is not None or archived.fault is not None:
            return archived
        name = archived.name
        if name.root not in (self._archive.root(self._topic), self.quarantine):
            return archived  # no name says which topic it came from
        end = self._next_start(name.partition, name.generation, name.start_offset)
        if end is None:  # the next generation goes on where this one ended
            end = self._next_start(name.partition, None, name.start_offset)
        if end is None:
            end = self._committed(name.partition)
        if end is None:
            raise ConfigurationError(
                f"{archived.key}: has no metadata, no later object says where it ends, and the"
                " group has committed nothing: commit its offset with 'secor offsets set', or move"
                " it away"
            )
        info = ObjectInfo(
            topic_partition=TopicPartition(self._topic, name.partition),
            batch=OffsetRange(name.start_offset, max(end, name.start_offset + 1)),
            first_offset=name.start_offset,
            records=0,
            generation=name.generation,
            fingerprint="",
        )
        return replace(archived, info=info)

    def _next_start(self, partition: int, generation: int | None, start: int) -> int | None:
        """Return where the next batch of a partition begins, of any generation for None."""
        starts = self._starts.get((partition, generation))
        if starts is None:
            names = [listed.name for listed in self._listed[partition]]
            chosen = {name.start_offset for name in names if generation in (None, name.generation)}
            starts = self._starts[partition, generation] = sorted(chosen)
        index = bisect_right(starts, start)
        return starts[index] if index < len(starts) else None

    def range_of(self, archived: ArchivedObject) -> OffsetRange | None:
        """Return the range of an object's batch; None if it is another topic's."""
        self._ask([archived])
        known = self._known[archived.key]
        return known.info.batch if self._is_ours(known) and known.info else None

    def batches(self, partition: int, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges of their batches."""
        return [
            archived.info.batch for archived in self.objects(partition, ranges) if archived.info
        ]

    def _is_ours(self, archived: ArchivedObject) -> bool:
        if archived.info is None:
            raise ConfigurationError(
                f"{archived.fault or archived.key}: its metadata do not say which offsets its"
                " batch has, so it cannot be replaced; move it away and give offsets"
            )
        return archived.info.topic_partition.topic == self._topic


def _refuse_unfinished(listed: Sequence[ArchivedObject]) -> None:
    """Raise where objects are superseded: they would be read again after a backfill."""
    read = {archived.key for archived in visible(listed)}
    left = next((archived.key for archived in listed if archived.key not in read), None)
    if left is not None:
        raise ConfigurationError(
            f"{left}: another object takes its place, and it is not deleted yet: let 'secor archive"
            " compact' finish, then plan again"
        )


def roots_of(archive: Archive, topic: str) -> list[str]:
    """Return the directories that may have messages of a topic: its own come first.

    All topics are among them, since an earlier configuration may have had other routes.
    """
    own = [archive.root(topic), archive.quarantine.root(topic)]
    others = sorted({*archive.targets, *archive.topics()})
    return list(dict.fromkeys([*own, *map(archive.root, others)]))


def _place(archived: ArchivedObject) -> Place:
    return archived.name.root, archived.name.output_partition, archived.name.generation


def described(archive: Archive, objects: Iterable[ArchivedObject]) -> Iterator[ArchivedObject]:
    """Give objects with their metadata, several asked for at a time."""
    return archive.described(objects)
