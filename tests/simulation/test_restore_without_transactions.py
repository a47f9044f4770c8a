"""A restore without transactions: after any crash everything is there, some of it again."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.restore.offsets import OffsetTable, rows_of
from secor.verify.restore import compare_as_sets
from tests.simulation.restore_world import (
    MESSAGES,
    OFFSETS,
    SOURCE,
    TARGET,
    Crash,
    Owner,
    World,
    act_at,
    crossings,
    raising,
    rows,
)

Kind = Literal["poll", "interval"]
KINDS = pytest.mark.parametrize("kind", ["poll", "interval"])
new_world = partial(World, transactional=False)


def written(world: World) -> list[int]:
    return [int(str(row["value"], "ascii")) for row in world.cluster.visible(TARGET)]  # type: ignore[call-overload]


def reached(world: World) -> int:
    table = OffsetTable("job")
    for batch in world.cluster.log(OFFSETS).batches:
        table.add(rows_of(batch.records))
    stored = table.offsets.get(SOURCE)
    return stored.next_offset if stored else 0


def check(world: World) -> None:
    """Everything below the offset is there, in order, and what is repeated follows a restart."""
    values = written(world)
    first_seen = list(dict.fromkeys(values))
    assert first_seen == list(range(len(first_seen)))
    assert len(first_seen) >= reached(world), "an offset was written before its messages"
    rewinds = [at for at in range(1, len(values)) if values[at] != values[at - 1] + 1]
    assert len(rewinds) <= 1


@KINDS
def test_after_a_crash_anywhere_nothing_is_missing(kind: Kind) -> None:
    total = crossings(new_world(1, kind))
    repeated = 0
    for number in range(1, total + 1):
        world = new_world(1, kind)
        world.cluster.hook = act_at(number, raising(Crash()))
        with pytest.raises(Crash):
            Owner(world, "killed").run()
        check(world)
        world.cluster.hook = lambda _name: None
        Owner(world, "successor").run()
        check(world)
        assert set(written(world)) == set(range(MESSAGES))
        assert reached(world) == MESSAGES
        repeated += len(written(world)) - MESSAGES
    assert repeated > 0, "else these worlds have transactions"


@KINDS
def test_a_lost_answer_makes_no_batch_twice(kind: Kind) -> None:
    for number in range(1, crossings(new_world(1, kind)) + 1):
        world = new_world(1, kind)
        world.cluster.hook = act_at(number, raising(Unavailable("lost")))
        Owner(world, "unlucky").run()
        assert written(world) == list(range(MESSAGES))
        assert reached(world) == MESSAGES


def test_a_target_that_is_compared_may_have_messages_again_but_none_that_are_not_archived() -> None:
    archived, place = [rows(0, 4)], TopicPartition("clicks", 0)
    again = compare_as_sets(place, archived, [rows(0, 3), rows(1, 4)], repeats=True)
    assert (again.messages, again.repeated, again.difference) == (6, 2, None)
    strict = compare_as_sets(place, archived, [rows(0, 3), rows(1, 4)])
    assert str(strict.difference) == "clicks/0: 0 messages are missing and 2 are too many"
    foreign = compare_as_sets(place, archived, [rows(1, 6)], repeats=True)
    assert str(foreign.difference) == "clicks/0: 1 messages are missing and 2 are too many"


def test_two_at_a_time_lose_nothing() -> None:
    """Nobody is fenced: a daemon that lost its partition unknowingly writes beside the next one."""
    world = new_world()
    sleeper, successor = Owner(world, "sleeper"), Owner(world, "successor")

    def at_first_batch(name: str) -> None:
        if name == "after produce":
            world.cluster.hook = lambda _name: None
            successor.run()

    world.cluster.hook = at_first_batch
    sleeper.run()
    assert set(written(world)) == set(range(MESSAGES))
    assert reached(world) <= MESSAGES
