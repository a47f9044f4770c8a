"""Puts and deletions that land long after, in a log that is compacted and under other settings.

The storms found at these places by real servers, in worlds small enough to try every moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from secor.batch.policy import Policy
from secor.parsing.offset_layout import OffsetBuckets
from tests.simulation.chaos import MAY_LAND_LATE, Fault, Kind
from tests.simulation.process import EvenAndOdd, Setup
from tests.simulation.scripted import calls_of
from tests.simulation.storm import CONFIGURATIONS
from tests.simulation.world import IN_FLIGHT, Scene, World

LEDGERS = pytest.mark.parametrize("ledger", ["zookeeper", "kafka"])
SETUP = Setup(policy=Policy(max_messages=4, max_age=8.0))
OTHERS = [CONFIGURATIONS[1], CONFIGURATIONS[2], CONFIGURATIONS[4], CONFIGURATIONS[5]]


def two_processes(world: World) -> None:
    world.log(0).append(4)
    world.start(SETUP)
    world.start(SETUP)


def puts(scene: Scene, prepare: Callable[[World], None]) -> list[int]:
    """Return the numbers of the calls that may land late."""
    calls = calls_of(scene, {}, prepare)
    return [call.number for call in calls if (call.name, call.phase) in MAY_LAND_LATE]


@LEDGERS
@pytest.mark.parametrize("gone", [{0}, {0, 1}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("kind", [Kind.LATE, Kind.STALL_PROCESS, Kind.STALL_TASK])
def test_a_put_that_lands_after_the_log_was_compacted_and_read_again(
    ledger: str, gone: set[int], kind: Kind
) -> None:
    """Its sender dies or sleeps; the successor finds fewer messages in the range."""
    scene = Scene(ledger="kafka" if ledger == "kafka" else "zookeeper", partitions=1)

    def compacted(world: World) -> None:
        two_processes(world)

        def compact() -> None:
            for offset in gone:
                world.log(0).drop(offset)

        world.hub.at(world.hub.now + 9.0, compact)

    numbers = puts(scene, two_processes)
    assert numbers
    for number in numbers:
        for seconds in (16.0, 24.0, 100.0):
            calls_of(scene, {number: Fault(kind, seconds)}, compacted)
            crash = {number: Fault(Kind.LATE, seconds), number + 1: Fault(Kind.CRASH)}
            calls_of(replace(scene, restart_after=15.0), crash, compacted)


@LEDGERS
@pytest.mark.parametrize("configuration", OTHERS)
def test_a_put_of_a_superseded_configuration_that_lands_after_it_was_superseded(
    ledger: str, configuration: Callable[[], dict[str, object]]
) -> None:
    scene = Scene(
        ledger="kafka" if ledger == "kafka" else "zookeeper",
        partitions=1,
        changing=True,
        restart_after=15.0,
    )

    def alone(world: World) -> None:
        world.log(0).append(4)
        world.start(SETUP)

    def changed(world: World) -> None:
        world.successor = lambda setup: replace(
            setup,
            **configuration(),  # type: ignore[arg-type]
        )
        alone(world)

    numbers = puts(scene, alone)
    assert numbers
    for number in numbers:
        script = {number: Fault(Kind.LATE, IN_FLIGHT), number + 1: Fault(Kind.CRASH)}
        calls_of(scene, script, changed)


@LEDGERS
def test_a_deletion_that_lands_when_its_configuration_has_gone_again(ledger: str) -> None:
    """A puts and dies, B supersedes it and its deletion hangs and it dies, A comes back."""
    scene = Scene(
        ledger="kafka" if ledger == "kafka" else "zookeeper",
        partitions=1,
        changing=True,
        restart_after=15.0,
    )
    first = replace(SETUP, parser=EvenAndOdd())
    other = replace(SETUP, parser=OffsetBuckets(7), prefix="backup")

    def there_and_back(world: World) -> None:
        setups = iter([other, first, first, first])
        world.successor = lambda _: next(setups)
        world.log(0).append(4)
        world.start(first)

    def alone(world: World) -> None:
        world.log(0).append(4)
        world.start(first)

    last = puts(scene, alone)[-1]
    crash = {last + 1: Fault(Kind.CRASH)}
    for call in calls_of(scene, crash, there_and_back):
        if (call.name, call.phase) == ("delete", "before"):
            late = {call.number: Fault(Kind.LATE, IN_FLIGHT), call.number + 1: Fault(Kind.CRASH)}
            calls_of(scene, crash | late, there_and_back)
