"""Restore's protocol at every crash point, with owners in each other's way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from secor.core.errors import ArchiveIncomplete, PluginFailed, SecorError, Unavailable
from secor.core.transactions import BrokerCode
from secor.restore.boundaries import Boundaries, Kind
from secor.restore.model import Boundary, Piece
from secor.restore.offsets import record
from secor.restore.writer.model import WriterState
from tests.simulation.restore_world import (
    MESSAGES,
    OFFSETS,
    PER_PIECE,
    TARGET,
    Crash,
    ListSource,
    Owner,
    Stepwise,
    World,
    act_at,
    crossings,
    raising,
)

VERSIONS = pytest.mark.parametrize("version", [1, 2])
KINDS = pytest.mark.parametrize("kind", ["poll", "interval", "source"])


@VERSIONS
@KINDS
def test_a_killed_owner_is_followed_by_one_that_goes_on_exactly(version: int, kind: Kind) -> None:
    total = crossings(World(version, kind))
    assert total >= 20
    for number in range(1, total + 1):
        world = World(version, kind)
        world.cluster.hook = act_at(number, raising(Crash()))
        with pytest.raises(Crash):
            Owner(world, "killed").run()
        world.check(complete=False)
        world.cluster.hook = lambda _name: None
        Owner(world, "successor").run()
        world.check()


@VERSIONS
@KINDS
def test_a_marker_that_a_broker_loses_makes_nothing_twice(version: int, kind: Kind) -> None:
    """The broker restarts with the killed owner's transaction, and skips the target's marker."""
    lost = 0
    for number in range(1, crossings(World(version, kind)) + 1):
        world = World(version, kind)
        world.cluster.hook = act_at(number, raising(Crash()))
        with pytest.raises(Crash):
            Owner(world, "killed").run()
        world.cluster.hook = lambda _name: None
        world.cluster.loses_markers = {TARGET}
        Owner(world, "successor").run()
        lost += not world.cluster.loses_markers
        world.check()
    assert lost > 3


@VERSIONS
def test_a_commit_whose_marker_is_lost_is_committed_by_the_next_owner(version: int) -> None:
    world = World(version, "poll")

    def killed_after_commit(name: str) -> None:
        if name == "after commit":
            raise Crash

    world.cluster.hook = killed_after_commit
    with pytest.raises(Crash):
        Owner(world, "killed").run()
    world.cluster.hook = lambda _name: None
    world.cluster.loses_markers = {TARGET}
    world.cluster.settle()
    assert not world.cluster.visible(TARGET)
    Owner(world, "successor").run()
    world.check()


@VERSIONS
@KINDS
def test_an_answer_that_is_lost_at_any_point_changes_nothing(version: int, kind: Kind) -> None:
    for number in range(1, crossings(World(version, kind)) + 1):
        world = World(version, kind)
        world.cluster.hook = act_at(number, raising(Unavailable("lost")))
        Owner(world, "unlucky").run()
        world.check()


@VERSIONS
def test_an_owner_that_sleeps_at_any_point_wakes_fenced(version: int) -> None:
    for number in range(1, crossings(World(version, "poll")) + 1):
        world, errors = World(version, "poll"), list[SecorError]()
        sleeper = Owner(world, "sleeper")
        steps = Stepwise(world, [sleeper, Owner(world, "successor")], errors)
        for _ in range(number):
            steps.step("sleeper")
        while steps.step("successor"):
            pass
        world.check()
        sleeper.owned = False
        while steps.step("sleeper"):
            pass
        assert not errors
        world.check()


@VERSIONS
@pytest.mark.slow
def test_an_owner_that_sleeps_while_its_successor_is_half_way(version: int) -> None:
    total = crossings(World(version, "poll"))
    for number in range(1, total + 1, 3):
        for other in range(1, total + 1, 5):
            world, errors = World(version, "poll"), list[SecorError]()
            sleeper = Owner(world, "sleeper")
            steps = Stepwise(world, [sleeper, Owner(world, "successor")], errors)
            for _ in range(number):
                steps.step("sleeper")
            for _ in range(other):
                steps.step("successor")
            sleeper.owned = False
            while steps.step("sleeper"):
                pass
            while steps.step("successor"):
                pass
            assert not errors
            world.check()


@pytest.fixture
def schedules(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--schedules"))


@pytest.mark.slow
def test_random_schedules_of_two_owners_with_crashes_and_lost_answers(schedules: int) -> None:
    for seed in range(schedules // 4):
        try:
            one_schedule(random.Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def one_schedule(rng: random.Random) -> None:
    kinds: list[Kind] = ["poll", "interval", "source"]
    aborted = frozenset(rng.sample([0, 2, 4, 6], rng.randrange(3)))
    kind = rng.choice(kinds)
    source = ListSource(aborted=aborted if kind == "source" else frozenset())
    world = World(rng.choice([1, 2]), kind, source)
    world.cluster.linger = rng.randrange(4)
    errors: list[SecorError] = []
    owners = [Owner(world, name) for name in ("a", "b", "c")]
    steps = Stepwise(world, owners, errors)
    for _ in range(rng.randrange(200)):
        fault: BaseException | None = None
        chance = rng.random()
        if chance < 0.01:
            fault = Crash()
        elif chance < 0.08:
            fault = Unavailable("lost")
        elif chance < 0.10:
            world.cluster.clock.advance(rng.choice([1.0, 30.0, 90.0]))
        steps.step(rng.choice("abc"), fault)
    for owner in owners[:2]:
        owner.owned = False
    for name in "abc":
        while steps.step(name):
            pass
    world.check(complete=False)
    assert not errors
    world.cluster.hook = lambda _name: None
    Owner(world, "last").run()
    world.check()


@VERSIONS
def test_what_a_source_wants_aborted_is_skipped_and_never_read_again(version: int) -> None:
    source = ListSource(aborted=frozenset({2}))
    total = crossings(World(version, "source", ListSource(aborted=frozenset({2}))))
    for number in range(1, total + 1):
        world = World(version, "source", source)
        world.cluster.hook = act_at(number, raising(Crash()))
        with pytest.raises(Crash):
            Owner(world, "killed").run()
        world.cluster.hook = lambda _name: None
        Owner(world, "successor").run()
        world.check()


@pytest.mark.parametrize("kind", ["poll", "interval"])
def test_a_source_cannot_abort_transactions_that_it_does_not_define(kind: Kind) -> None:
    # What else is in the transaction would be dropped with it, and its offsets committed.
    world = World(2, kind, ListSource(aborted=frozenset({2, 6})))
    Owner(world, "owner").run()
    world.source = ListSource()
    world.check()


@VERSIONS
@pytest.mark.parametrize("code", [BrokerCode.KAFKA_STORAGE_ERROR, BrokerCode.NOT_ENOUGH_REPLICAS])
def test_a_target_that_is_full_for_minutes_gets_every_message_once(
    version: int, code: BrokerCode
) -> None:
    world = World(version)
    full_until = world.cluster.clock.monotonic() + 150

    def hook(name: str) -> None:
        if name == "before produce" and world.cluster.clock.monotonic() < full_until:
            world.cluster.refuse["produce"] = [code]

    world.cluster.hook = hook
    Owner(world, "patient").run()
    assert world.cluster.clock.monotonic() > full_until
    world.check()


def test_no_transaction_is_larger_than_its_cap() -> None:
    world = World(2, "interval", ListSource(messages=200, per_piece=7))
    Owner(world, "owner").run()
    world.check()
    sizes = [len(rows) for rows in world.cluster.transactions_of(TARGET)]
    assert sizes == [5] * 40


def test_a_plug_in_that_fails_leaves_no_transaction_open() -> None:
    world = World(2, "interval")
    world.cluster.linger = 0

    def fails_late(_topic: str, records: pa.RecordBatch) -> pa.Array:
        if records.column("offset")[0].as_py() >= 2 * PER_PIECE:
            raise PluginFailed("x")
        return pa.array([True] * records.num_rows)

    world.row_filter = fails_late
    with pytest.raises(PluginFailed):
        Owner(world, "owner").run()
    world.cluster.settle()
    assert world.cluster.log(TARGET).stable == world.cluster.log(TARGET).end > 0
    world.check(complete=False)


@dataclass
class Damaged(ListSource):
    """Objects of two pieces each; the second one is found damaged behind its first piece."""

    copies_are_good: bool = False

    def _pieces(self, start: int) -> Iterator[Piece]:
        for piece in super()._pieces(start):
            ends = piece.next_offset % (2 * PER_PIECE) == 0
            yield replace(piece, boundary=Boundary.COMMIT if ends else None)
            if piece.next_offset == 3 * PER_PIECE and not self.copies_are_good:
                raise ArchiveIncomplete("the second object is damaged")


@VERSIONS
def test_what_is_before_a_damaged_object_is_committed_and_nothing_of_it(version: int) -> None:
    source = Damaged()
    world = World(version, "interval", source)
    world.boundaries = Boundaries("interval", max_records=MESSAGES)
    with pytest.raises(ArchiveIncomplete):
        Owner(world, "owner").run()
    world.check(complete=False)
    assert len(world.cluster.visible(TARGET)) == 2 * PER_PIECE
    source.copies_are_good = True
    Owner(world, "successor").run()
    world.check()


def test_a_job_that_is_stopped_between_assignment_and_initialisation_begins_nothing() -> None:
    world = World()
    world.running = False
    Owner(world, "late").run()
    assert world.cluster.calls == []


def test_a_job_that_is_stopped_while_it_is_initialised_writes_nothing() -> None:
    world = World()

    def hook(name: str) -> None:
        if name == "after init_producer_id":
            world.running = False

    world.cluster.hook = hook
    Owner(world, "late").run()
    assert "produce" not in world.cluster.calls


def test_the_open_transaction_of_another_source_partition_hides_no_offset() -> None:
    # Both write to one partition of the offsets topic: a read-committed end stops short of the
    # other's open transaction, and with it of what was committed behind.
    world = World()
    other = world.make_writer("secor:job:other:0")
    other.initialise()

    def hook(name: str) -> None:
        if name == "before produce" and other.state is WriterState.READY:
            other.begin()
            other.write(OFFSETS, record(b"other", b"", 0))
            other.flush()

    world.cluster.hook = hook
    Owner(world, "first").run()
    assert world.cluster.log(OFFSETS).stable == 0 < world.cluster.log(OFFSETS).end
    Owner(world, "second").run()
    world.check()


class OpenEnded(ListSource):
    """Its last transaction has no end yet."""

    def _pieces(self, start: int) -> Iterator[Piece]:
        for piece in super()._pieces(start):
            last = piece.next_offset == self.messages
            yield replace(piece, boundary=None) if last else piece


@VERSIONS
def test_a_transaction_that_the_source_has_not_ended_is_not_cut(version: int) -> None:
    world = World(version, "source", OpenEnded())
    Owner(world, "owner").run()
    world.check(complete=False)
    values = [row["offset"] for row in world.cluster.visible(TARGET)]
    assert len(values) == MESSAGES - PER_PIECE
