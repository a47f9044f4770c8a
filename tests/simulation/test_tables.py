"""Coordinators and tables: whatever is lost, late or done by others, each row is there once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.simulation.invariants import Violated
from tests.simulation.scheduler import FirstComeChoices, Hub, RandomChoices
from tests.simulation.table_world import PARTITIONS, Fault, Point, TableWorld, no_fault

GROUPS = 5
FAILED_ONCE = (78,)
"""78: a table set back to the lower of a commit's two snapshots, accepted, and set back again."""
TOLD = (
    "worker put",
    "is given up",
    "accepted",
    "replayed",
    "is added",
    "is made again",
    "accepted as it was made again",
    "is lost",
    "is rebuilt",
    "is refused",
    "fits again",
    "is set aside",
)


class Rates:
    """How often each kind of fault happens in one run: some often, others never."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"faults {seed}")
        most = {"crash": 0.01, "stall": 0.02, "fail": 0.08, "late": 0.3}
        self.rates = {kind: self.rng.choice((0.0, rate / 4, rate)) for kind, rate in most.items()}
        self.happened: Counter[str] = Counter()

    def __call__(self, point: Point) -> str | None:
        dice = self.rng.random()
        for kind, rate in self.rates.items():
            if (kind == "late") != (point.phase == "sent"):
                continue
            if dice < rate:
                self.happened[kind] += 1
                return kind
            dice -= rate
        return None


def storm(seed: int) -> tuple[TableWorld, Rates]:
    """Run one schedule to its end; raises ``Violated`` with the trace."""
    hub = Hub(RandomChoices(seed))
    rates = Rates(seed)
    world = TableWorld(hub, seed, lambda point: _chosen(rates, point))
    try:
        for topic_partition in PARTITIONS:
            world.start_worker(topic_partition)
        world.start_replayer()
        for _ in range(world.rng.choice((1, 2, 3))):
            world.start_coordinator()
        world.drops = world.rng.choice((0.0, 0.0, 0.3))
        world.misfits = random.Random(f"misfits {seed}").choice((0.0, 0.1, 0.5))
        if world.misfits:
            world.start_person_of_files()
        if world.rng.random() < 0.7:
            world.disturb(rollbacks=world.rng.random() < 0.5, remakes=world.rng.random() < 0.3)
        if world.rng.random() < 0.5:
            hub.at(world.rng.uniform(5.0, 60.0), world.add_partition)
        if world.rng.random() < 0.3:
            for _ in range(3):
                hub.at(world.rng.uniform(5.0, 110.0), world.lose_entry)
        for _ in range(6):
            world.run(20.0)
            if not any(host.alive for host in world.coordinators):
                world.start_coordinator()
        world.start_coordinator()
        world.settle()
    except Violated as error:
        raise Violated("\n".join([f"seed {seed}", *hub.trace[-40:], str(error)])) from error
    finally:
        hub.close()
    return world, rates


def _chosen(rates: Rates, point: Point) -> str | None:
    """Workers end or sleep; what else happens to them has a simulation of its own."""
    if point.host.startswith(("coordinator", "person of files")):
        return rates(point)
    if point.host.startswith("worker") and (fault := rates(point)) in ("crash", "stall"):
        return fault
    return None


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_schedule_loses_or_doubles_a_row(group: int, pytestconfig: pytest.Config) -> None:
    schedules = int(pytestconfig.getoption("--schedules")) // 40
    for seed in range(group, schedules, GROUPS):
        storm(seed)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_schedules_that_failed_once_lose_and_double_no_row(seed: int) -> None:
    storm(seed)


@pytest.mark.slow
def test_the_schedules_meet_what_they_are_meant_to_meet() -> None:
    met: Counter[str] = Counter()
    for seed in range(30):
        world, rates = storm(seed)
        met.update(rates.happened)
        for result in world.observer.results:
            met[str(result.result)] += 1
            met["conflict"] += result.conflicts
            met["unknown"] += result.unknown
        met.update(word for line in world.hub.trace for word in TOLD if word in line)
    wanted = {"crash", "stall", "fail", "late", "committed", "nothing", "stopped", "failed"}
    wanted |= {"conflict", "unknown", *TOLD}
    assert wanted <= {kind for kind, times in met.items() if times}


APPENDED = (0.0, 0.0)
MERGED = (0.5, 1.0)
"""One table has both, and one only changes of rows."""


def one_cycle(
    fault: Fault, *, coordinators: int = 1, shares: tuple[float, float] = APPENDED
) -> TableWorld:
    """Two batches of each partition, then cycles under ``fault``; the successor finishes."""
    hub = Hub(FirstComeChoices())
    world = TableWorld(hub, "one cycle", fault, shares)
    world.channel.loss = 0.0
    world.end = 12
    world.keep = 4.0
    world.start_replayer()
    try:
        for topic_partition in PARTITIONS:
            world.start_worker(topic_partition)
        for _ in range(coordinators):
            world.start_coordinator()
        world.run(12.0)
        world.start_coordinator()
        world.settle()
    finally:
        hub.close()
    return world


def points_of_one_cycle(shares: tuple[float, float] = APPENDED) -> list[Point]:
    seen: list[Point] = []

    def note(point: Point) -> str | None:
        if point.host == "coordinator 0":
            seen.append(point)
        return None

    one_cycle(note, shares=shares)
    return seen


@pytest.mark.parametrize("kind", ["crash", "stall", "fail"])
@pytest.mark.parametrize("shares", [APPENDED, MERGED])
def test_every_call_of_a_coordinator_may_be_its_last(
    kind: str, shares: tuple[float, float]
) -> None:
    """Crash, sleep or fail at each side of each call, the very first commit included."""
    points = [point for point in points_of_one_cycle(shares) if point.phase != "sent"]
    commits = {"commit"} if shares == APPENDED else {"allow staging", "stage", "publish"}
    wanted = {"load", "list", "open", "put", "head", "delete", "ledger", *commits}
    assert wanted <= {point.name for point in points}
    for chosen in points:

        def fault(point: Point, number: int = chosen.number) -> str | None:
            return kind if point.number == number else None

        one_cycle(fault, shares=shares)


@pytest.mark.parametrize("shares", [APPENDED, MERGED])
def test_a_commit_that_lands_late_is_not_done_twice(shares: tuple[float, float]) -> None:
    for chosen in [point for point in points_of_one_cycle(shares) if point.phase == "sent"]:

        def fault(point: Point, number: int = chosen.number) -> str | None:
            return "late" if point.number == number else None

        one_cycle(fault, shares=shares)


@pytest.mark.parametrize("shares", [APPENDED, MERGED])
def test_one_that_wakes_after_its_successors_commit_commits_nothing(
    shares: tuple[float, float],
) -> None:
    """It sleeps between its look at the table and its commit, beside one that is awake."""
    steps = (("load", "after"), ("commit", "before"), ("stage", "after"), ("publish", "before"))
    for chosen in points_of_one_cycle(shares):
        if (chosen.name, chosen.phase) not in steps:
            continue

        def fault(point: Point, number: int = chosen.number) -> str | None:
            return "stall" if point.number == number else None

        world = one_cycle(fault, coordinators=2, shares=shares)
        assert not world.unfinished()


@pytest.mark.parametrize("shares", [APPENDED, MERGED])
def test_two_coordinators_that_know_nothing_of_each_other(shares: tuple[float, float]) -> None:
    world = one_cycle(no_fault, coordinators=2, shares=shares)
    assert sum(result.conflicts for result in world.observer.results) > 0
