"""What went wrong in other systems, and does not here.

The numbers in the names are those of the lines in tests/README.md.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pytest

from secor.batch.policy import Policy
from secor.consume.backpressure import BufferLimits
from secor.consume.partition_status import ReadingState
from secor.core.errors import (
    LedgerEdited,
    LedgerLost,
    LogDiverged,
    ObjectConflict,
    OutcomeUnknown,
    TopicRecreated,
)
from secor.core.model import TopicPartition
from tests.fakes.format import PlainFormat
from tests.fakes.ledger import Kind as LedgerKind
from tests.simulation.chaos import Call, Fault, Kind
from tests.simulation.invariants import Seen
from tests.simulation.parsed import DAY, MIDDAY, Rules
from tests.simulation.process import EvenAndOdd, Process, Setup
from tests.simulation.world import TOPIC, Scene, World, new_world

KEY = TopicPartition(TOPIC, 0)
SETUP = Setup(parser=EvenAndOdd(), policy=Policy(max_messages=4, max_age=20.0))
LONG = 40.0
"""Seconds: several sessions."""


@dataclass
class AtCall:
    """A fault at the ``nth`` call of one name by one process."""

    process: str
    name: str
    phase: str
    fault: Fault
    nth: int = 1

    def at(self, call: Call) -> Fault | None:
        if (call.process, call.name, call.phase) != (self.process, self.name, self.phase):
            return None
        self.nth -= 1
        return self.fault if self.nth == 0 else None


@pytest.fixture(params=["zookeeper", "kafka"])
def scene(request: pytest.FixtureRequest) -> Scene:
    kind: LedgerKind = request.param
    return Scene(ledger=kind, partitions=1)


def alone(scene: Scene, fault: AtCall | None = None) -> AbstractContextManager[World]:
    return new_world(scene, faults=fault)


def stored(world: World, partition: int = 0) -> list[int]:
    key = TopicPartition(TOPIC, partition)
    return sorted(offset for owner, offset in world.watch.holder if owner == key)


def state(process: Process) -> tuple[ReadingState, type[Exception] | None]:
    (status,) = process.consumer.status()
    return status.state, None if status.error is None else type(status.error)


def test_01_killed_between_two_objects_and_the_successor_would_cut_elsewhere(
    scene: Scene,
) -> None:
    with alone(scene, AtCall("p0", "put", "after", Fault(Kind.CRASH))) as world:
        world.log().append(10)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        assert len(world.watch.objects) == 1
        world.start(replace(SETUP, policy=Policy(max_messages=3, max_age=20.0)))
        world.settle()
        assert stored(world) == list(range(10))


@pytest.mark.parametrize(
    ("name", "phase"),
    [("record", "after"), ("put", "before"), ("put", "after"), ("commit", "before")],
)
def test_02_03_an_owner_that_slept_anywhere_in_its_commit_wakes_beside_its_successor(
    scene: Scene, name: str, phase: str
) -> None:
    nth = 2 if name == "commit" else 1  # the first commit makes the entry
    with alone(scene, AtCall("p0", name, phase, Fault(Kind.STALL_PROCESS, LONG), nth)) as world:
        world.log().append(10)
        world.start(SETUP)
        world.run(5.0)
        world.start(replace(SETUP, policy=Policy(max_messages=3, max_age=20.0)))
        world.run(LONG - 10.0)
        assert (world.ledger.entry(KEY).committed or 0) > 0, "the successor did not take over"
        world.settle()
        assert stored(world) == list(range(10))


def test_03_a_killed_owner_s_put_lands_after_its_successor_s(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "put", "before", Fault(Kind.LATE, LONG))) as world:
        world.log().append(10)
        first = world.start(SETUP)
        world.run(1.0, until=lambda: any("put" in line for line in world.hub.trace))
        world.run(until=lambda: first.source.member is not None and world.hub.now % 1 == 0)
        first.crash()
        world.start(replace(SETUP, policy=Policy(max_messages=9, max_age=20.0)))
        world.settle()
        world.run(LONG)
        world.watch.check_all()
        assert stored(world) == list(range(10))


def test_04_an_operator_moves_the_offset_forwards_while_a_batch_is_open(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(3)
        world.start(SETUP)
        world.run(5.0)
        world.operator_sets(KEY, 2)
        world.log().append(5)
        world.settle()
        assert stored(world) == list(range(2, 8))


def test_04_an_offset_moved_under_an_open_intent_stops(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "record", "after", Fault(Kind.CRASH))) as world:
        world.log().append(4)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        world.operator_sets(KEY, 2, world.ledger.entry(KEY).intent)
        successor = world.start(SETUP)
        world.run(300.0)
        assert state(successor)[1] is LedgerEdited
        assert stored(world) == []


@pytest.mark.parametrize(("name", "nth"), [("record", 1), ("put", 1), ("commit", 1), ("commit", 2)])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_05_an_answer_is_lost(scene: Scene, name: str, nth: int, phase: str) -> None:
    fault = Fault(Kind.FAIL, error=OutcomeUnknown)
    with alone(scene, AtCall("p0", name, phase, fault, nth)) as world:
        world.log().append(10)
        world.start(SETUP)
        world.settle()
        assert stored(world) == list(range(10))


@pytest.mark.parametrize("cooperative", [True, False])
def test_06_processes_start_at_once_and_join_and_leave_in_a_storm(
    scene: Scene, cooperative: bool
) -> None:
    with alone(replace(scene, partitions=3, cooperative=cooperative)) as world:
        for log in world.broker.logs.values():
            log.append(7)
        for _ in range(3):
            world.start(SETUP)
        for turn in range(12):
            world.run(3.0)
            world.processes[turn % 3].stop() if turn % 4 == 3 else world.start(SETUP)
            world.log(turn % 3).append(2)
        world.settle()


def test_06_a_member_is_expelled_and_does_not_know(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(2)
        first = world.start(SETUP)
        world.run(5.0)
        first.stall(LONG)
        second = world.start(SETUP)
        world.run(20.0)
        assert second.source.assigned == {KEY}
        assert first.source.assigned == {KEY}
        world.log().append(9)
        world.settle()


@pytest.mark.parametrize("phase", ["before", "after"])
def test_07_killed_while_the_first_entry_is_made(scene: Scene, phase: str) -> None:
    with alone(scene, AtCall("p0", "commit", phase, Fault(Kind.CRASH))) as world:
        world.log().append(10)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        world.start(SETUP)
        world.settle()
        assert stored(world) == list(range(10))


def test_08_killed_between_the_last_part_and_the_first_commit(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "commit", "before", Fault(Kind.CRASH), nth=2)) as world:
        world.log().append(4)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        assert world.ledger.entry(KEY).committed == 0
        before = dict(world.watch.objects)
        successor = world.start(SETUP)
        world.settle()
        assert world.watch.objects == before
        assert successor.observer.counts["adopted"] == 1


def test_09_a_lock_whose_session_is_gone_gives_no_right() -> None:
    scene = Scene(ledger="zookeeper", partitions=1)
    with alone(scene, AtCall("p0", "lease", "after", Fault(Kind.STALL_TASK, 5.0), 2)) as world:
        world.log().append(4)
        first = world.start(SETUP)
        world.run(3.0)
        world.ledger.expire(first.ledger, told=False)
        assert first.ledger.leases[-1].held()
        world.settle()
        assert stored(world) == list(range(4))


@pytest.mark.parametrize("seconds", [3.0, 30.0, 300.0])
def test_10_the_ledger_does_not_answer_for_a_while(scene: Scene, seconds: float) -> None:
    with alone(scene) as world:
        world.log().append(3)
        process = world.start(SETUP)
        world.run(5.0)
        world.log().append(20)
        process.cut(seconds)
        world.settle()


def test_11_12_gaps_and_aborted_transactions_and_the_lag_reaches_zero(scene: Scene) -> None:
    with alone(scene) as world:
        log = world.log()
        log.append(3)
        log.begin(4)
        log.decide(commit=False)
        log.append(2)
        for offset in (0, 4, 9):
            log.drop(offset)
        log.begin(1)
        log.decide(commit=True)
        log.begin(2)
        log.decide(commit=False)
        world.start(SETUP)
        world.settle()
        assert stored(world) == sorted(log.records)
        assert world.ledger.entry(KEY).committed == log.end


def test_12_an_open_transaction_holds_the_position_back_and_then_releases_it(
    scene: Scene,
) -> None:
    with alone(scene) as world:
        world.log().append(4)
        world.log().begin(3)
        world.start(SETUP)
        world.run(100.0)
        assert world.ledger.entry(KEY).committed == 4
        world.log().decide(commit=True)
        world.settle()
        assert stored(world) == list(range(7))


@pytest.mark.parametrize(("seconds", "kept"), [(5.0, 2), (LONG, 0)])
def test_13_retention_overtakes_a_reader_that_slept(
    scene: Scene, seconds: float, kept: int
) -> None:
    """What it had read is kept, unless it slept past its session."""
    with alone(scene) as world:
        world.log().append(2)
        process = world.start(SETUP)
        world.run(5.0)
        process.stall(seconds)
        world.log().append(20)
        world.log().retain(15)
        world.settle()
        assert stored(world) == [*range(kept), *range(15, 22)]
        assert [(start, end) for _, start, end in process.observer.lost_ranges] == [(kept, 15)]


def test_14_a_topic_made_again_stops_and_nothing_is_overwritten(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(8)
        first = world.start(SETUP)
        world.settle()
        objects = dict(world.watch.objects)
        first.crash()
        world.broker.recreate(TOPIC)
        world.log().append(20)
        second = world.start(SETUP)
        world.run(300.0)
        assert state(second) == (ReadingState.STOPPED, TopicRecreated)
        assert world.watch.objects == objects


def test_14_a_log_that_lost_its_tail_below_committed_stops(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(8)
        first = world.start(SETUP)
        world.settle()
        first.crash()
        world.log().truncate(5)
        second = world.start(SETUP)
        world.run(100.0)
        assert state(second) == (ReadingState.STOPPED, TopicRecreated)


def test_14_a_log_that_was_cut_below_committed_and_grew_beyond_it_stops(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(8)
        first = world.start(SETUP)
        world.settle()
        first.crash()
        world.log().truncate(5)
        world.log().append(10)
        second = world.start(SETUP)
        world.run(100.0)
        assert state(second) == (ReadingState.STOPPED, LogDiverged)
        (status,) = second.consumer.status()
        assert "from 5 on" in str(status.error)
        assert "committed is 8" in str(status.error)
        assert stored(world) == list(range(8))
        world.operator_sets(KEY, 8)
        world.run(200.0)
        assert stored(world) == list(range(15))
        assert world.ledger.entry(KEY).leader_epoch == 1


def test_14_a_log_that_was_cut_above_committed_or_has_a_new_leader_is_read_on(
    scene: Scene,
) -> None:
    with alone(scene) as world:
        world.log().append(8)
        first = world.start(SETUP)
        world.settle()
        first.crash()
        world.log().truncate(8)
        world.log().append(2)
        world.log().truncate(9)
        world.log().append(3)
        world.start(SETUP)
        world.settle()
        assert stored(world) == list(range(12))


def test_14_an_intent_whose_end_the_log_lost_waits_until_it_grows_again(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "record", "after", Fault(Kind.CRASH))) as world:
        world.log().append(4)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        world.log().truncate(2)
        world.start(SETUP)
        world.run(300.0)
        assert world.ledger.entry(KEY).committed == 0
        world.log().append(6)
        world.settle()
        assert stored(world) == list(range(8))


def test_16_partitions_are_added(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(5)
        world.start(SETUP)
        world.start(SETUP)
        world.run(10.0)
        world.broker.create(TOPIC, 3)
        world.log(2).append(5)
        world.group.rebalance()
        world.settle()
        assert stored(world, 2) == list(range(5))


def test_17_a_corrupt_batch_stops_after_what_came_before_until_it_is_mended(
    scene: Scene,
) -> None:
    with alone(scene) as world:
        world.log().append(9)
        world.log().poisoned.add(6)
        process = world.start(SETUP)
        world.run(100.0)
        assert state(process)[0] is ReadingState.STOPPED
        assert stored(world) == list(range(6))
        world.log().poisoned.clear()
        world.settle()
        assert stored(world) == list(range(9))


def test_21_another_group_s_object_under_our_name_stops_and_stays(scene: Scene) -> None:
    with alone(scene) as world:
        process = world.start(SETUP)
        world.run(5.0)
        world.plant("backup/clicks/part=odd/1_0_00000000000000000000.plain")
        world.log().append(4)
        world.run(100.0)
        assert state(process) == (ReadingState.STOPPED, ObjectConflict)
        assert world.ledger.entry(KEY).committed == 0


@pytest.mark.parametrize("seconds", [30.0, 600.0])
def test_24_a_put_takes_minutes_while_the_process_lives(scene: Scene, seconds: float) -> None:
    with alone(scene, AtCall("p0", "put", "before", Fault(Kind.STALL_TASK, seconds))) as world:
        world.log().append(10)
        world.start(SETUP)
        world.start(SETUP)
        world.run(10.0)
        world.group.rebalance()
        world.settle()
        assert stored(world) == list(range(10))


def test_24_the_disk_is_full_for_a_while(scene: Scene) -> None:
    with alone(scene) as world:
        process = world.start(SETUP)
        process.workspace.full = True
        world.log().append(10)
        world.run(60.0)
        assert stored(world) == []
        process.workspace.full = False
        world.settle()
        assert stored(world) == list(range(10))


def test_25_many_partitions_with_many_output_partitions_are_sealed_early(scene: Scene) -> None:
    """Each message on a day of its own: one file for each, and memory for a few."""

    def on_its_own_day(key: TopicPartition, number: int) -> bytes:
        at = MIDDAY + (number * 17 % 31) * DAY
        return json.dumps({"id": f"{key}#{number}", "kind": "sale", "at": at}).encode()

    many = replace(scene, partitions=6, parsed=True, limits=BufferLimits(memory=6000, local=12_000))
    with alone(many) as world:
        for partition in range(many.partitions):
            world.log(partition).message = on_its_own_day
            world.log(partition).append(31)
        setup = Setup(rules=Rules(), policy=Policy(max_messages=31, max_age=200.0))
        first = world.start(setup)
        world.run(until=lambda: len(world.watch.objects) > 40)
        first.crash()
        world.start(setup)
        world.settle()
        assert len(world.watch.objects) == 31 * many.partitions
        assert max(seen.info.batch.end - seen.info.batch.start for seen in _seen(world)) < 31


def _seen(world: World) -> list[Seen]:
    return list(world.watch.objects.values())


def test_26_a_trickle_beside_a_flood_is_stored_by_its_age(scene: Scene) -> None:
    with alone(replace(scene, partitions=2)) as world:
        world.log(1).append(1)
        world.start(SETUP)
        for _ in range(10):
            world.log(0).append(9)
            world.run(3.0)
        assert stored(world, 1) == [0]
        world.settle()


@pytest.mark.parametrize("skew", [-1e6, -3600.0, 3600.0, 1e6])
def test_27_the_wall_clock_jumps(scene: Scene, skew: float) -> None:
    with alone(scene) as world:
        setup = replace(SETUP, policy=Policy(max_age=20.0, minute_mark=30))
        process = world.start(setup)
        for jump in (0.0, skew, 0.0):
            process.clock.skew = jump
            world.log().append(3)
            world.run(7.0)
        world.settle()


def test_31_two_configurations_side_by_side_while_batches_are_open() -> None:
    changed = replace(SETUP, log_format=PlainFormat("new"), prefix="elsewhere")
    for kind in ("zookeeper", "kafka"):
        scene = Scene(ledger=kind, partitions=2, changing=True, release_wait=60.0)
        with new_world(scene) as world:
            for turn in range(12):
                world.log(turn % 2).append(3)
                process = world.start((SETUP, changed)[turn % 2])
                world.run(4.0)
                if turn % 3 == 0:
                    process.crash()
                elif turn % 3 == 1:
                    process.stop()
            world.settle()


@pytest.mark.parametrize("back", [False, True])
def test_31_an_upgrade_and_a_downgrade_in_the_middle_of_a_batch(scene: Scene, back: bool) -> None:
    changed = replace(SETUP, log_format=PlainFormat("new"))
    reshaping = replace(scene, changing=True)
    with alone(reshaping, AtCall("p0", "put", "after", Fault(Kind.CRASH))) as world:
        world.log().append(4)
        world.start(SETUP)
        world.run(until=lambda: not world.living)
        if back:
            upgraded = world.start(changed)
            world.run(until=lambda: bool(upgraded.observer.counts.get("superseded")))
            upgraded.crash()
        successor = world.start(SETUP if back else changed)
        world.settle()
        assert {seen.info.fingerprint for seen in world.watch.objects.values()} == {
            successor.setup.plan(TOPIC).fingerprint
        }


def test_a_lost_ledger_stops_and_stores_nothing_again(scene: Scene) -> None:
    with alone(scene) as world:
        world.log().append(8)
        first = world.start(SETUP)
        world.settle()
        first.crash()
        world.ledger.drop(KEY)
        second = world.start(SETUP)
        world.run(300.0)
        assert state(second) == (ReadingState.STOPPED, LedgerLost)
        assert world.ledger.entry(KEY).committed is None
