"""A small world, and every point at which something may go wrong in it, one after the other.

Two partitions, two processes, three batches each; then one process with a successor of
another configuration.  ``--exhaustive`` runs every pair of crash points.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import pytest

from secor.batch.policy import Policy
from tests.simulation.chaos import Fault, Kind, failures
from tests.simulation.process import Setup
from tests.simulation.scripted import all_pairs, calls_of, calls_without_faults
from tests.simulation.storm import CONFIGURATIONS
from tests.simulation.world import Scene, World

WORLDS = [
    pytest.param(Scene(ledger="zookeeper", restart_after=15.0), id="zookeeper cooperative"),
    pytest.param(
        Scene(ledger="zookeeper", cooperative=False, restart_after=15.0), id="zookeeper eager"
    ),
    pytest.param(Scene(ledger="kafka", restart_after=15.0), id="kafka cooperative"),
    pytest.param(Scene(ledger="kafka", cooperative=False, restart_after=15.0), id="kafka eager"),
]
ALONE = [
    pytest.param(
        Scene(ledger="zookeeper", partitions=1, changing=True, restart_after=15.0),
        id="zookeeper",
    ),
    pytest.param(
        Scene(ledger="kafka", partitions=1, changing=True, restart_after=15.0), id="kafka"
    ),
]
# In a Kafka ledger only waiting for releases keeps two configurations apart.
STALLING = [
    pytest.param(Scene(ledger="zookeeper", partitions=1, changing=True), id="zookeeper"),
    pytest.param(
        Scene(
            ledger="kafka",
            partitions=1,
            changing=True,
        ),
        id="kafka",
    ),
]
SETUP = Setup(policy=Policy(max_messages=3, max_age=8.0))
STALL = 30.0
PAIRS = 150


def two_processes(world: World) -> None:
    world.log(0).append(8)
    world.log(1).append(6)
    world.log(1).decide(commit=True)
    world.log(1).append(1)
    world.start(SETUP)
    world.start(SETUP)


def one_process(world: World) -> None:
    world.log(0).append(8)
    world.start(SETUP)


@pytest.mark.parametrize("scene", WORLDS)
@pytest.mark.parametrize("kind", [Kind.CRASH, Kind.STALL_TASK, Kind.STALL_PROCESS])
def test_one_fault_at_any_call_breaks_no_promise(scene: Scene, kind: Kind) -> None:
    fault = Fault(kind, 0.0 if kind is Kind.CRASH else STALL)
    for number in range(len(calls_without_faults(scene, two_processes))):
        calls_of(scene, {number: fault}, two_processes)


@pytest.mark.parametrize("scene", WORLDS[::2])
def test_any_error_of_any_call_breaks_no_promise(scene: Scene) -> None:
    for call in calls_without_faults(scene, two_processes):
        for error in failures(call):
            calls_of(scene, {call.number: Fault(Kind.FAIL, error=error)}, two_processes)


@pytest.mark.parametrize("scene", WORLDS[::2])
def test_a_put_that_lands_late_breaks_no_promise(scene: Scene) -> None:
    calls = calls_without_faults(scene, two_processes)
    puts = [call for call in calls if (call.name, call.phase) == ("put", "before")]
    for call, seconds in product(puts, (1.0, 12.0, 100.0)):
        calls_of(scene, {call.number: Fault(Kind.LATE, seconds)}, two_processes)


@pytest.mark.parametrize("scene", WORLDS)
def test_two_crashes_break_no_promise(scene: Scene, pytestconfig: pytest.Config) -> None:
    pairs: Iterable[tuple[int, int]] = all_pairs(len(calls_without_faults(scene, two_processes)))
    if not pytestconfig.getoption("--exhaustive"):
        pairs = random.Random(f"{scene}").sample(list(pairs), PAIRS)
    for first, second in pairs:
        crash = Fault(Kind.CRASH)
        calls_of(scene, {first: crash, second: crash}, two_processes)


@pytest.mark.parametrize("scene", WORLDS[::2])
def test_a_crash_after_a_stall_breaks_no_promise(scene: Scene, pytestconfig: pytest.Config) -> None:
    """The one that stalled wakes while its successor has crashed, or is about to."""
    pairs: Iterable[tuple[int, int]] = all_pairs(len(calls_without_faults(scene, two_processes)))
    if not pytestconfig.getoption("--exhaustive"):
        pairs = random.Random(f"stall {scene}").sample(list(pairs), PAIRS)
    for first, second in pairs:
        script = {first: Fault(Kind.STALL_PROCESS, STALL), second: Fault(Kind.CRASH)}
        calls_of(scene, script, two_processes)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("scene", ALONE)
def test_a_successor_of_another_configuration_breaks_no_promise(
    scene: Scene, configuration: Callable[[], dict[str, object]]
) -> None:
    def prepare(world: World) -> None:
        world.successor = lambda setup: replace(
            setup,
            policy=Policy(max_messages=2, max_age=8.0),
            **configuration(),  # type: ignore[arg-type]
        )
        one_process(world)

    for number in range(len(calls_without_faults(scene, one_process))):
        calls_of(scene, {number: Fault(Kind.CRASH)}, prepare)


@pytest.mark.parametrize("configuration", CONFIGURATIONS[1:6])
@pytest.mark.parametrize("scene", STALLING)
@pytest.mark.parametrize("kind", [Kind.STALL_TASK, Kind.STALL_PROCESS])
def test_a_sleeper_beside_a_successor_of_another_configuration_breaks_no_promise(
    scene: Scene, kind: Kind, configuration: Callable[[], dict[str, object]]
) -> None:
    def prepare(world: World) -> None:
        world.log(0).append(4)
        world.start(SETUP)
        world.start(replace(SETUP, **configuration()))  # type: ignore[arg-type]

    for number in range(len(calls_without_faults(scene, prepare))):
        calls_of(scene, {number: Fault(kind, STALL)}, prepare)


@pytest.mark.parametrize("scene", STALLING)
def test_a_sleeper_beside_a_successor_that_reads_a_compacted_log_breaks_no_promise(
    scene: Scene,
) -> None:
    def prepare(world: World) -> None:
        world.log(0).append(4)
        world.start(SETUP)
        world.start(SETUP)

    def compacted(world: World) -> None:
        prepare(world)
        world.hub.at(world.hub.now + 6.0, lambda: world.log(0).drop(0))

    for number in range(len(calls_without_faults(scene, prepare))):
        calls_of(scene, {number: Fault(Kind.STALL_PROCESS, STALL)}, compacted)


@pytest.mark.parametrize("gone", [{0}, {1}, {2}, {0, 1, 2}, {1, 4}, {3, 5, 6}], ids=str)
@pytest.mark.parametrize("scene", ALONE)
def test_compaction_between_crash_and_recovery_breaks_no_promise(
    scene: Scene, gone: set[int]
) -> None:
    def prepare(world: World) -> None:
        def compact() -> None:
            for offset in gone:
                world.log(0).drop(offset)

        world.between = compact
        one_process(world)

    for number in range(len(calls_without_faults(scene, one_process))):
        calls_of(scene, {number: Fault(Kind.CRASH)}, prepare)


@pytest.mark.parametrize("start", [1, 3, 5, 8])
@pytest.mark.parametrize("scene", ALONE)
def test_retention_between_crash_and_recovery_breaks_no_promise(scene: Scene, start: int) -> None:
    def prepare(world: World) -> None:
        world.between = lambda: world.log(0).retain(start)
        one_process(world)

    for number in range(len(calls_without_faults(scene, one_process))):
        calls_of(scene, {number: Fault(Kind.CRASH)}, prepare)


@pytest.mark.parametrize("first", CONFIGURATIONS[:5])
def test_two_crashes_with_a_configuration_of_its_own_for_each_break_no_promise(
    first: Callable[[], dict[str, object]], pytestconfig: pytest.Config
) -> None:
    """A, then B supersedes and crashes, then C, or A again, settles what both left."""
    scene = Scene(partitions=1, changing=True, restart_after=15.0)

    def prepare(world: World) -> None:
        setups = iter([first(), CONFIGURATIONS[6](), {}])
        world.successor = lambda setup: replace(
            SETUP,
            **next(setups),  # type: ignore[arg-type]
        )
        one_process(world)

    pairs = all_pairs(len(calls_without_faults(scene, one_process)))
    if not pytestconfig.getoption("--exhaustive"):
        pairs = random.Random("configurations").sample(pairs, PAIRS)
    for earlier, later in pairs:
        calls_of(scene, {earlier: Fault(Kind.CRASH), later: Fault(Kind.CRASH)}, prepare)
