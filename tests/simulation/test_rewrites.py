"""Readers and a stream while ranges are rewritten: each message is read once at every step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from secor.archive.objects import ArchivedObject, visible
from secor.core.errors import ObjectConflict
from secor.core.naming import ObjectName
from secor.spark.cursor import Cursor, NewestBatch, between, cursor_of, given, never_back, newest

ROOT = "p/clicks"
PLACES = ("dt=1", "dt=2", "dt=3")
SEEDS = range(30)


@dataclass
class World:
    """The objects of one topic partition by name, with the offsets of each."""

    rng: random.Random
    objects: dict[ObjectName, frozenset[int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    committed: int = 0

    def store(self) -> Iterator[None]:
        """Put a batch as a daemon does, object by object."""
        start = self.committed
        end = start + self.rng.randint(1, 6)
        places: dict[str, set[int]] = {}
        for offset in range(start, end):
            if self.rng.random() < 0.9:
                places.setdefault(self.rng.choice(PLACES), set()).add(offset)
        self.ends[start] = end
        for place, offsets in places.items():
            self.objects[ObjectName(ROOT, place, 1, 0, start, ".seq")] = frozenset(offsets)
            yield
        self.committed = end

    def rewrite(self) -> Iterator[None]:
        """Join whole batches but the newest: put all new objects, then delete the old ones."""
        read = [archived.name for archived in self.listing()]
        ranges = sorted(
            {(name.start_offset, name.end or self.ends[name.start_offset]) for name in read}
        )[:-1]
        if not ranges:
            return
        first = self.rng.randrange(len(ranges))
        chosen = ranges[first : first + self.rng.randint(1, 4)]
        start, end = chosen[0][0], chosen[-1][1]
        old = [name for name in read if start <= name.start_offset < end]
        number = max(name.rewrite for name in old) + 1
        for place in sorted({name.output_partition for name in old}):
            joined = [self.objects[name] for name in old if name.output_partition == place]
            new = ObjectName(ROOT, place, 1, 0, start, ".seq", number, end)
            self.objects[new] = frozenset().union(*joined)
            yield
        for name in self.rng.sample(old, len(old)):
            del self.objects[name]
            yield

    def listing(self) -> list[ArchivedObject]:
        """Return what a reader reads."""
        names = sorted(self.objects, key=lambda name: name.key)
        return visible(ArchivedObject("clicks", name, 1, 0.0) for name in names)

    def read(self) -> list[int]:
        """Return all offsets that a reader gets."""
        return sorted(
            offset for archived in self.listing() for offset in self.objects[archived.name]
        )

    def stored(self) -> list[int]:
        """Return each offset that an object has."""
        return sorted({offset for offsets in self.objects.values() for offset in offsets})


@dataclass
class Stream:
    """A Spark stream at a cursor, and what it has given."""

    world: World
    cursor: Cursor = field(default_factory=dict)
    read: list[int] = field(default_factory=list)

    def step(self) -> None:
        """Do one batch of the stream."""
        listing = self.world.listing()
        last = newest(listing)
        if not last:
            return
        start = last[0].name.start_offset
        batch = NewestBatch(start, self.world.ends[start])
        end = never_back(self.cursor, cursor_of(listing, lambda _: batch, only_committed=False))
        for archived in between(listing, self.cursor, end):
            offsets = self.world.objects[archived.name]
            if archived.name.end is not None:
                chosen = given(archived, self.cursor, end)
                assert chosen is not None
                offsets = frozenset(offset for offset in offsets if offset in chosen)
            self.read += offsets
        self.cursor = end


@pytest.mark.parametrize("seed", SEEDS)
def test_each_message_is_read_once_at_every_step(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    stream = Stream(world)
    running: dict[str, Iterator[None]] = {}
    for _ in range(120):
        kind = rng.choice(("store", "rewrite"))
        work = running.get(kind) or getattr(world, kind)()
        running[kind] = work
        if next(work, StopIteration) is StopIteration:
            del running[kind]
        assert world.read() == world.stored()
        if rng.random() < 0.2:
            stream.step()
            assert len(stream.read) == len(set(stream.read))
    for work in running.values():
        for _ in work:
            assert world.read() == world.stored()
    for _ in world.store():  # the newest batch stays open in a cursor until another follows
        pass
    stream.step()
    assert sorted(stream.read) == world.stored()


def test_a_checkpoint_that_does_not_tell_where_its_batch_ends_is_refused() -> None:
    place = PLACES[0]
    old = ObjectName(ROOT, place, 1, 0, 10, ".seq")
    new = ArchivedObject("clicks", ObjectName(ROOT, place, 1, 0, 0, ".seq", 1, 30), 1, 0.0)
    cursor: Cursor = {"clicks": {"1_0": {"settled": 10, "open": [old.key]}}}
    later: Cursor = {"clicks": {"1_0": {"settled": 50, "open": []}}}
    with pytest.raises(ObjectConflict, match="begin with a new checkpoint"):
        given(new, cursor, later)
