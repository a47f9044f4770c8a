"""What went wrong in other systems, and does not here.

The numbers in the names are those of the lines in tests/README.md.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pytest

from secor.batch.policy import Policy
from secor.consume.backpressure import Limits
from secor.consume.partition_status import State
from secor.core.errors import (
    LedgerEdited,
    LedgerLost,
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
from tests.simulation.world import TOPIC, Scene, World, world

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
    return world(scene, faults=fault)


def stored(made: World, partition: int = 0) -> list[int]:
    key = TopicPartition(TOPIC, partition)
    return sorted(offset for owner, offset in made.watch.holder if owner == key)


def state(process: Process) -> tuple[State, type[Exception] | None]:
    (status,) = process.consumer.status()
    return status.state, None if status.error is None else type(status.error)


def test_01_killed_between_two_objects_and_the_successor_would_cut_elsewhere(
    scene: Scene,
) -> None:
    with alone(scene, AtCall("p0", "put", "after", Fault(Kind.CRASH))) as made:
        made.log().append(10)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        assert len(made.watch.objects) == 1
        made.start(replace(SETUP, policy=Policy(max_messages=3, max_age=20.0)))
        made.settle()
        assert stored(made) == list(range(10))


@pytest.mark.parametrize(
    ("name", "phase"),
    [("record", "after"), ("put", "before"), ("put", "after"), ("commit", "before")],
)
def test_02_03_an_owner_that_slept_anywhere_in_its_ritual_wakes_beside_its_successor(
    scene: Scene, name: str, phase: str
) -> None:
    nth = 2 if name == "commit" else 1  # the first commit makes the entry
    with alone(scene, AtCall("p0", name, phase, Fault(Kind.STALL_PROCESS, LONG), nth)) as made:
        made.log().append(10)
        made.start(SETUP)
        made.run(5.0)
        made.start(replace(SETUP, policy=Policy(max_messages=3, max_age=20.0)))
        made.run(LONG - 10.0)
        assert (made.ledger.entry(KEY).committed or 0) > 0, "the successor did not take over"
        made.settle()
        assert stored(made) == list(range(10))


def test_03_a_killed_owner_s_put_lands_after_its_successor_s(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "put", "before", Fault(Kind.LATE, LONG))) as made:
        made.log().append(10)
        first = made.start(SETUP)
        made.run(1.0, until=lambda: any("put" in line for line in made.hub.trace))
        made.run(until=lambda: first.source.member is not None and made.hub.now % 1 == 0)
        first.crash()
        made.start(replace(SETUP, policy=Policy(max_messages=9, max_age=20.0)))
        made.settle()
        made.run(LONG)
        made.watch.check_all()
        assert stored(made) == list(range(10))


def test_04_an_operator_moves_the_offset_forwards_while_a_batch_is_open(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(3)
        made.start(SETUP)
        made.run(5.0)
        made.operator_sets(KEY, 2)
        made.log().append(5)
        made.settle()
        assert stored(made) == list(range(2, 8))


def test_04_an_offset_moved_under_an_open_intent_stops(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "record", "after", Fault(Kind.CRASH))) as made:
        made.log().append(4)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        made.operator_sets(KEY, 2, made.ledger.entry(KEY).intent)
        successor = made.start(SETUP)
        made.run(300.0)
        assert state(successor)[1] is LedgerEdited
        assert stored(made) == []


@pytest.mark.parametrize(("name", "nth"), [("record", 1), ("put", 1), ("commit", 1), ("commit", 2)])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_05_an_answer_is_lost(scene: Scene, name: str, nth: int, phase: str) -> None:
    fault = Fault(Kind.FAIL, error=OutcomeUnknown)
    with alone(scene, AtCall("p0", name, phase, fault, nth)) as made:
        made.log().append(10)
        made.start(SETUP)
        made.settle()
        assert stored(made) == list(range(10))


@pytest.mark.parametrize("cooperative", [True, False])
def test_06_processes_start_at_once_and_join_and_leave_in_a_storm(
    scene: Scene, cooperative: bool
) -> None:
    with alone(replace(scene, partitions=3, cooperative=cooperative)) as made:
        for log in made.broker.logs.values():
            log.append(7)
        for _ in range(3):
            made.start(SETUP)
        for turn in range(12):
            made.run(3.0)
            made.processes[turn % 3].stop() if turn % 4 == 3 else made.start(SETUP)
            made.log(turn % 3).append(2)
        made.settle()


def test_06_a_member_is_expelled_and_does_not_know(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(2)
        first = made.start(SETUP)
        made.run(5.0)
        first.stall(LONG)
        second = made.start(SETUP)
        made.run(20.0)
        assert second.source.assigned == {KEY}
        assert first.source.assigned == {KEY}
        made.log().append(9)
        made.settle()


@pytest.mark.parametrize("phase", ["before", "after"])
def test_07_killed_while_the_first_entry_is_made(scene: Scene, phase: str) -> None:
    with alone(scene, AtCall("p0", "commit", phase, Fault(Kind.CRASH))) as made:
        made.log().append(10)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        made.start(SETUP)
        made.settle()
        assert stored(made) == list(range(10))


def test_08_killed_between_the_last_part_and_the_first_commit(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "commit", "before", Fault(Kind.CRASH), nth=2)) as made:
        made.log().append(4)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        assert made.ledger.entry(KEY).committed == 0
        before = dict(made.watch.objects)
        successor = made.start(SETUP)
        made.settle()
        assert made.watch.objects == before
        assert successor.observer.counts["adopted"] == 1


def test_09_a_lock_whose_session_is_gone_gives_no_right() -> None:
    scene = Scene(ledger="zookeeper", partitions=1)
    with alone(scene, AtCall("p0", "lease", "after", Fault(Kind.STALL_TASK, 5.0), 2)) as made:
        made.log().append(4)
        first = made.start(SETUP)
        made.run(3.0)
        made.ledger.expire(first.ledger, told=False)
        assert first.ledger.leases[-1].held()
        made.settle()
        assert stored(made) == list(range(4))


@pytest.mark.parametrize("seconds", [3.0, 30.0, 300.0])
def test_10_the_ledger_does_not_answer_for_a_while(scene: Scene, seconds: float) -> None:
    with alone(scene) as made:
        made.log().append(3)
        process = made.start(SETUP)
        made.run(5.0)
        made.log().append(20)
        process.cut(seconds)
        made.settle()


def test_11_12_gaps_and_aborted_transactions_and_the_lag_reaches_zero(scene: Scene) -> None:
    with alone(scene) as made:
        log = made.log()
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
        made.start(SETUP)
        made.settle()
        assert stored(made) == sorted(log.records)
        assert made.ledger.entry(KEY).committed == log.end


def test_12_an_open_transaction_holds_the_position_back_and_then_releases_it(
    scene: Scene,
) -> None:
    with alone(scene) as made:
        made.log().append(4)
        made.log().begin(3)
        made.start(SETUP)
        made.run(100.0)
        assert made.ledger.entry(KEY).committed == 4
        made.log().decide(commit=True)
        made.settle()
        assert stored(made) == list(range(7))


@pytest.mark.parametrize(("seconds", "kept"), [(5.0, 2), (LONG, 0)])
def test_13_retention_overtakes_a_reader_that_slept(
    scene: Scene, seconds: float, kept: int
) -> None:
    """What it had read is kept, unless it slept past its session."""
    with alone(scene) as made:
        made.log().append(2)
        process = made.start(SETUP)
        made.run(5.0)
        process.stall(seconds)
        made.log().append(20)
        made.log().retain(15)
        made.settle()
        assert stored(made) == [*range(kept), *range(15, 22)]
        assert [(start, end) for _, start, end in process.observer.lost_ranges] == [(kept, 15)]


def test_14_a_topic_made_again_stops_and_nothing_is_overwritten(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(8)
        first = made.start(SETUP)
        made.settle()
        objects = dict(made.watch.objects)
        first.crash()
        made.broker.recreate(TOPIC)
        made.log().append(20)
        second = made.start(SETUP)
        made.run(300.0)
        assert state(second) == (State.STOPPED, TopicRecreated)
        assert made.watch.objects == objects


def test_14_a_log_that_lost_its_tail_below_committed_stops(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(8)
        first = made.start(SETUP)
        made.settle()
        first.crash()
        made.log().truncate(5)
        second = made.start(SETUP)
        made.run(100.0)
        assert state(second) == (State.STOPPED, TopicRecreated)


def test_14_an_intent_whose_end_the_log_lost_waits_until_it_grows_again(scene: Scene) -> None:
    with alone(scene, AtCall("p0", "record", "after", Fault(Kind.CRASH))) as made:
        made.log().append(4)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        made.log().truncate(2)
        made.start(SETUP)
        made.run(300.0)
        assert made.ledger.entry(KEY).committed == 0
        made.log().append(6)
        made.settle()
        assert stored(made) == list(range(8))


def test_16_partitions_are_added(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(5)
        made.start(SETUP)
        made.start(SETUP)
        made.run(10.0)
        made.broker.create(TOPIC, 3)
        made.log(2).append(5)
        made.group.rebalance()
        made.settle()
        assert stored(made, 2) == list(range(5))


def test_17_a_corrupt_batch_stops_after_what_came_before_until_it_is_mended(
    scene: Scene,
) -> None:
    with alone(scene) as made:
        made.log().append(9)
        made.log().poisoned.add(6)
        process = made.start(SETUP)
        made.run(100.0)
        assert state(process)[0] is State.STOPPED
        assert stored(made) == list(range(6))
        made.log().poisoned.clear()
        made.settle()
        assert stored(made) == list(range(9))


def test_21_another_group_s_object_under_our_name_stops_and_stays(scene: Scene) -> None:
    with alone(scene) as made:
        process = made.start(SETUP)
        made.run(5.0)
        made.plant("backup/clicks/part=odd/1_0_00000000000000000000.plain")
        made.log().append(4)
        made.run(100.0)
        assert state(process) == (State.STOPPED, ObjectConflict)
        assert made.ledger.entry(KEY).committed == 0


@pytest.mark.parametrize("seconds", [30.0, 600.0])
def test_24_a_put_takes_minutes_while_the_process_lives(scene: Scene, seconds: float) -> None:
    with alone(scene, AtCall("p0", "put", "before", Fault(Kind.STALL_TASK, seconds))) as made:
        made.log().append(10)
        made.start(SETUP)
        made.start(SETUP)
        made.run(10.0)
        made.group.rebalance()
        made.settle()
        assert stored(made) == list(range(10))


def test_24_the_disk_is_full_for_a_while(scene: Scene) -> None:
    with alone(scene) as made:
        process = made.start(SETUP)
        process.workspace.full = True
        made.log().append(10)
        made.run(60.0)
        assert stored(made) == []
        process.workspace.full = False
        made.settle()
        assert stored(made) == list(range(10))


def test_25_many_partitions_with_many_output_partitions_are_sealed_early(scene: Scene) -> None:
    """Each message on a day of its own: one file for each, and memory for a few."""

    def on_its_own_day(key: TopicPartition, number: int) -> bytes:
        at = MIDDAY + (number * 17 % 31) * DAY
        return json.dumps({"id": f"{key}#{number}", "kind": "sale", "at": at}).encode()

    many = replace(scene, partitions=6, parsed=True, limits=Limits(memory=6000, local=12_000))
    with alone(many) as made:
        for partition in range(many.partitions):
            made.log(partition).message = on_its_own_day
            made.log(partition).append(31)
        setup = Setup(rules=Rules(), policy=Policy(max_messages=31, max_age=200.0))
        first = made.start(setup)
        made.run(until=lambda: len(made.watch.objects) > 40)
        first.crash()
        made.start(setup)
        made.settle()
        assert len(made.watch.objects) == 31 * many.partitions
        assert max(seen.info.batch.end - seen.info.batch.start for seen in _seen(made)) < 31


def _seen(made: World) -> list[Seen]:
    return list(made.watch.objects.values())


def test_26_a_trickle_beside_a_flood_is_stored_by_its_age(scene: Scene) -> None:
    with alone(replace(scene, partitions=2)) as made:
        made.log(1).append(1)
        made.start(SETUP)
        for _ in range(10):
            made.log(0).append(9)
            made.run(3.0)
        assert stored(made, 1) == [0]
        made.settle()


@pytest.mark.parametrize("skew", [-1e6, -3600.0, 3600.0, 1e6])
def test_27_the_wall_clock_jumps(scene: Scene, skew: float) -> None:
    with alone(scene) as made:
        setup = replace(SETUP, policy=Policy(max_age=20.0, minute_mark=30))
        process = made.start(setup)
        for jump in (0.0, skew, 0.0):
            process.clock.skew = jump
            made.log().append(3)
            made.run(7.0)
        made.settle()


def test_31_two_configurations_side_by_side_while_batches_are_open() -> None:
    changed = replace(SETUP, log_format=PlainFormat("new"), prefix="elsewhere")
    for kind in ("zookeeper", "kafka"):
        scene = Scene(ledger=kind, partitions=2, reshaping=True, release_wait=60.0)
        with world(scene) as made:
            for turn in range(12):
                made.log(turn % 2).append(3)
                process = made.start((SETUP, changed)[turn % 2])
                made.run(4.0)
                if turn % 3 == 0:
                    process.crash()
                elif turn % 3 == 1:
                    process.stop()
            made.settle()


@pytest.mark.parametrize("back", [False, True])
def test_31_an_upgrade_and_a_downgrade_in_the_middle_of_a_batch(scene: Scene, back: bool) -> None:
    changed = replace(SETUP, log_format=PlainFormat("new"))
    reshaping = replace(scene, reshaping=True)
    with alone(reshaping, AtCall("p0", "put", "after", Fault(Kind.CRASH))) as made:
        made.log().append(4)
        made.start(SETUP)
        made.run(until=lambda: not made.living)
        if back:
            upgraded = made.start(changed)
            made.run(until=lambda: bool(upgraded.observer.counts.get("superseded")))
            upgraded.crash()
        successor = made.start(SETUP if back else changed)
        made.settle()
        assert {seen.info.fingerprint for seen in made.watch.objects.values()} == {
            successor.setup.plan(TOPIC).fingerprint
        }


def test_a_lost_ledger_stops_and_stores_nothing_again(scene: Scene) -> None:
    with alone(scene) as made:
        made.log().append(8)
        first = made.start(SETUP)
        made.settle()
        first.crash()
        made.ledger.drop(KEY)
        second = made.start(SETUP)
        made.run(300.0)
        assert state(second) == (State.STOPPED, LedgerLost)
        assert made.ledger.entry(KEY).committed is None
