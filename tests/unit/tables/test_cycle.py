from dataclasses import replace

import pytest

from secor.core.model import TopicPartition
from secor.tables.cycle import (
    TRANSITIONS,
    Ask,
    AskAgain,
    Commit,
    Cycle,
    Decision,
    Discard,
    State,
    StepDown,
    Timing,
    Wait,
    decide,
    valid_through,
)
from tests.unit.tables.world import CLICKS, OTHER

BOTH = frozenset({CLICKS, OTHER})
TIMING = Timing(interval=10.0, timeout=4.0)


def at(cycle: Cycle, now: float, *, leads: bool = True, timing: Timing = TIMING) -> Decision:
    return decide(cycle, now, leads=leads, partitions=BOTH, commit="c1", timing=timing)


def collecting() -> Cycle:
    asked = at(Cycle(), 100.0)
    assert isinstance(asked, Ask)
    return asked.cycle


def test_one_that_does_not_lead_stands_by() -> None:
    assert at(Cycle(), 100.0, leads=False) == Wait(101.0)


def test_one_that_takes_over_asks_at_once() -> None:
    cycle = collecting()
    assert (cycle.state, cycle.commit, cycle.began) == (State.COLLECTING, "c1", 100.0)


def test_it_commits_when_the_set_of_partitions_has_answered() -> None:
    cycle = collecting()
    assert at(cycle, 100.5) == Wait(101.0)
    cycle = cycle.answer("c1", frozenset({CLICKS}))
    cycle = cycle.answer("c1", frozenset({CLICKS}))  # repeated: a set, not a count
    assert at(cycle, 100.5) == Wait(101.0)
    cycle = cycle.answer("c1", frozenset({OTHER}))
    decision = at(cycle, 101.0)
    assert isinstance(decision, Commit)
    assert decision.missing == frozenset()
    assert decision.cycle.state is State.COMMITTING


def test_those_that_have_not_answered_are_asked_again_for_the_same_commit() -> None:
    again = at(collecting(), 101.0)
    assert isinstance(again, AskAgain)
    assert (again.cycle.commit, again.cycle.began) == ("c1", 100.0)
    assert at(again.cycle, 101.5) == Wait(102.0)
    last = replace(again.cycle, asked=103.5)
    assert at(last, 103.9) == Wait(104.0)


@pytest.mark.parametrize(("timeout", "times"), [(4.0, 3), (30.0, 4), (600.0, 4)])
def test_it_does_not_ask_often(timeout: float, times: int) -> None:
    timing, cycle, now = Timing(interval=10.0, timeout=timeout), collecting(), 100.0
    asked = 0
    while now < 100.0 + timeout:
        decision = at(cycle, now, timing=timing)
        if isinstance(decision, AskAgain):
            cycle, asked = decision.cycle, asked + 1
        now += 0.25
    assert asked == times


def test_after_the_timeout_it_commits_what_there_is() -> None:
    decision = at(collecting().answer("c1", frozenset({CLICKS})), 104.0)
    assert isinstance(decision, Commit)
    assert decision.missing == {OTHER}


def test_answers_of_another_cycle_count_for_nothing() -> None:
    cycle = collecting()
    assert cycle.answer("an older one", BOTH) == cycle
    assert Cycle().answer("", BOTH) == Cycle()
    strange = frozenset({TopicPartition("forged", 9)})
    assert at(cycle.answer("c1", strange), 100.5) == Wait(101.0)
    assert at(cycle.answer("c1", strange | {CLICKS}), 100.5) == Wait(101.0)


def test_the_next_cycle_begins_an_interval_after_the_last_one_began() -> None:
    committing = at(collecting().answer("c1", BOTH), 102.0)
    assert isinstance(committing, Commit)
    idle = committing.cycle.finish(103.0, TIMING)
    assert (idle.state, idle.answered) == (State.IDLE, frozenset())
    assert at(idle, 109.9) == Wait(110.0)
    assert isinstance(at(idle, 110.0), Ask)
    late = committing.cycle.finish(125.0, TIMING)
    assert isinstance(at(late, 125.0), Ask)


def test_without_a_channel_what_is_staged_is_committed_every_interval() -> None:
    decision = at(Cycle(), 100.0, timing=replace(TIMING, asks=False))
    assert isinstance(decision, Commit)
    assert decision.missing == frozenset()


@pytest.mark.parametrize("cycle", [collecting(), replace(Cycle(), state=State.IDLE)])
def test_one_that_ceases_to_lead_drops_its_cycle(cycle: Cycle) -> None:
    decision = at(cycle, 101.0, leads=False)
    assert isinstance(decision, StepDown)
    assert (decision.cycle.state, decision.cycle.commit) == (State.STANDBY, "")


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set().union(*TRANSITIONS.values()) == set(State)
    with pytest.raises(AssertionError, match="standby to committing"):
        Cycle().become(State.COMMITTING)


@pytest.mark.parametrize(
    ("previous", "greatest", "complete", "expected"),
    [
        (None, {CLICKS: 5, OTHER: 9}, (), 5),
        (None, {CLICKS: 5}, (), None),
        (3, {CLICKS: 5}, (), 3),
        (7, {CLICKS: 5, OTHER: 9}, (), 7),
        (None, {CLICKS: 5}, (OTHER,), 5),
        (None, {CLICKS: 5, OTHER: 9}, (CLICKS,), 9),
        (None, {CLICKS: 5, OTHER: 9}, (CLICKS, OTHER), 9),
        (4, {}, (CLICKS, OTHER), 4),
        (None, {}, (CLICKS, OTHER), None),
        (None, {CLICKS: 500, OTHER: 900}, (), 100),
        (None, {CLICKS: 500, OTHER: 9}, (OTHER,), 100),
        (500, {CLICKS: 5, OTHER: 9}, (), 5),
        (500, {}, (), None),
    ],
)
def test_valid_through(
    previous: int | None,
    greatest: dict[TopicPartition, int],
    complete: tuple[TopicPartition, ...],
    expected: int | None,
) -> None:
    assert valid_through(previous, BOTH, greatest, frozenset(complete), now=100) == expected


def test_after_the_timeout_a_cycle_that_discards_ends_without_a_commit() -> None:
    timing = replace(TIMING, discards=True)
    cycle = collecting().answer("c1", frozenset({CLICKS}))
    decision = at(cycle, 104.0, timing=timing)
    assert isinstance(decision, Discard)
    assert decision.missing == {OTHER}
    finished = decision.cycle.finish(104.0, timing)
    assert (finished.state, finished.due, finished.answered) == (State.IDLE, 110.0, frozenset())
    assert isinstance(at(finished, 110.0, timing=timing), Ask)
    answered = cycle.answer("c1", frozenset({OTHER}))
    assert isinstance(at(answered, 104.0, timing=timing), Commit)
