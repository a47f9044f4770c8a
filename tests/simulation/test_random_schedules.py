"""Seeded random schedules: whatever order, whatever faults, the promises hold."""

from __future__ import annotations

import pytest

from tests.simulation.corpus import CORPUS
from tests.simulation.storm import Outcome, run, smallest

GROUPS = 10


def report(outcome: Outcome) -> str:
    """Return what a person needs to look into a failed schedule."""
    least = smallest(outcome)
    return "\n".join(
        [
            f"seed {outcome.seed}: {outcome.failure}",
            f"again: scripts/simulate --seed {outcome.seed} --trace",
            f"with the fewest faults ({len(least.faults)} of {len(outcome.faults)}):",
            *least.trace,
            f"{least.failure}",
        ]
    )


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.slow
def test_no_schedule_breaks_a_promise(group: int, pytestconfig: pytest.Config) -> None:
    schedules = int(pytestconfig.getoption("--schedules"))
    for seed in range(group, schedules, GROUPS):
        outcome = run(seed)
        if outcome.failure is not None:
            pytest.fail(report(outcome), pytrace=False)


@pytest.mark.parametrize("seed", CORPUS, ids=[f"{seed} {why}" for seed, why in CORPUS.items()])
def test_schedules_that_once_failed_hold(seed: int) -> None:
    outcome = run(seed)
    if outcome.failure is not None:
        pytest.fail(report(outcome), pytrace=False)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(3) == run(3)


@pytest.mark.slow
def test_the_schedules_meet_what_they_are_meant_to_meet() -> None:
    counts: dict[str, int] = {}
    for seed in range(40):
        for name, many in run(seed).counts.items():
            counts[name] = counts.get(name, 0) + many
    kinds = {"committed", "adopted", "superseded", "lost", "restarted", "stopped", "later"}
    assert kinds <= counts.keys()
