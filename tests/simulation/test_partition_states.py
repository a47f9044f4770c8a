"""Every state that a topic partition can come to, whatever happens in whatever order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache

import pytest

from secor.consume.partition_states import READING, UPLOADING, Command, Commands, Event
from secor.consume.partition_status import waits_for_time
from tests.simulation.partition_model import (
    EARLY,
    LATE,
    Choices,
    Model,
    RecordedStates,
    Step,
    begin,
    steps,
    take,
)

Transition = tuple[Model, Step, Model, Commands]


@cache
def transitions() -> tuple[Transition, ...]:
    """Take every possible step in every reachable state.  Raises with the way to a failure."""
    ways: dict[tuple[object, ...], list[Step]] = {begin().facts: []}
    waiting = deque([begin()])
    taken: list[Transition] = []
    while waiting:
        before = waiting.popleft()
        for step in steps(before):
            way = [*ways[before.facts], step]
            try:
                after, commands = take(before, step)
                promises(after)
            except AssertionError as error:
                error.add_note(" → ".join(map(str, way)))
                raise
            taken.append((before, step, after, commands))
            if after.facts not in ways:
                ways[after.facts] = way
                waiting.append(after)
    return tuple(taken)


def promises(model: Model) -> None:
    """What holds in every state."""
    assert model.open_batch == model.states.is_reading
    assert model.fetching == (model.states.reading == "reading")
    assert not model.open_batch or model.assigned, "read while it is not ours"
    assert model.sealed <= 2, "more local files than one batch on its way and the last"
    assert model.uploading == model.states.is_uploading
    idle = not (model.assigned or model.searching or model.uploading or model.sealed)
    assert model.states.ended == idle


def test_no_order_of_events_breaks_a_promise() -> None:
    """And these are all the states that there are, so none is missing in what follows."""
    reading = {"idle", "uploading", "backing off"}
    expected = {
        "waiting": {"idle"},
        "locating": {"idle"},
        "leaving": {"idle"},
        "reading": reading,
        "paused": reading,
        "stopped": reading | {"queued"},
        "retired": reading | {"queued", "giving up"},
    }
    reached: dict[str, set[str]] = {}
    for before, _, after, _ in transitions():
        for states in (before.states, after.states):
            reached.setdefault(states.reading, set()).add(states.uploading)
    assert reached == expected


def test_every_row_of_the_tables_is_needed() -> None:
    assert transitions()
    assert set(READING) | set(UPLOADING) <= RecordedStates.rows


def test_a_round_is_nothing_to_a_partition_that_waits_for_no_time() -> None:
    skipped = 0
    for before, step, after, commands in transitions():
        if step.events == (Event.ROUND,) and not waits_for_time(before.states):
            skipped += 1
            assert (before.facts, commands) == (after.facts, ()), before
    assert skipped


def rounds(now: float) -> Iterator[tuple[Model, Model, Commands]]:
    for before, step, after, commands in transitions():
        if step.events == (Event.ROUND,) and step.now == now:
            yield before, after, commands


def test_nothing_that_waits_for_a_time_is_forgotten() -> None:
    """When the time has come a round goes on with whatever no thread is at."""
    for before, _, commands in rounds(LATE):
        if before.searching or before.uploading:
            expected: Commands = ()
        elif before.sealed:
            expected = (Command.UPLOAD,)
        elif before.open_batch or not before.assigned:
            expected = ()
        elif before.states.reading == "stopped":
            expected = (Command.RETIRE, Command.BEGIN_AGAIN)
        else:
            expected = (Command.LOCATE,)
        assert commands == expected, before


def test_before_its_time_nothing_is_tried_again() -> None:
    for before, after, commands in rounds(EARLY):
        if before.states.uploading == "queued":
            assert commands == (Command.UPLOAD,)
        else:
            assert commands == ()
            assert after.facts == before.facts


def test_reading_goes_on_and_pauses_as_the_loop_says() -> None:
    for _, step, after, _ in transitions():
        if step.events in ((Event.GO,), (Event.LOCATED,)):
            assert after.states.reading == "reading"
            assert after.sealed == 0 or step.events == (Event.GO,)
        if step.events == (Event.HOLD,):
            assert after.states.reading == "paused"


def test_a_failure_that_needs_a_person_stops_it() -> None:
    for before, step, after, _ in transitions():
        if {Event.STOP_DROPPING, Event.STOP_KEEPING} & set(step.events):
            assert (after.states.reading, after.assigned) == ("stopped", True)
        elif before.states.reading == "stopped" and step.events != (Event.ROUND,):
            assert after.states.reading == "stopped" or not after.assigned


SEALING = {Event.LEAVE_KEEPING, Event.RESTART_KEEPING, Event.STOP_KEEPING, Event.SEAL}
NEUTRAL = {Event.STOP_DROPPING, Event.HOLD, Event.GO, Event.ROUND, Event.UPLOAD_RETRYABLE}


def test_a_sealed_batch_goes_only_when_it_is_committed_or_nobody_wants_it() -> None:
    for before, step, after, _ in transitions():
        event = step.events[0]
        if event in SEALING:
            sealed = before.open_batch and step.choices == Choices()
            assert after.sealed == before.sealed + sealed
        if event in NEUTRAL and before.states.uploading != "giving up":
            assert after.sealed == before.sealed
        if event in (Event.COMMITTED, Event.COMMITTED_FIRST):
            assert after.sealed == before.sealed - 1


def test_a_further_batch_changes_nothing_for_the_one_before() -> None:
    for before, step, after, _ in transitions():
        if step.events[0] in SEALING and before.sealed:
            assert after.states.uploading == before.states.uploading


def test_a_batch_that_nobody_wants_gets_no_further_attempt() -> None:
    for before, step, after, _ in transitions():
        if before.uploading and step.events[0] in (Event.LEAVE_DROPPING, Event.RESTART_DROPPING):
            assert after.states.uploading == "giving up"
            assert after.sealed == 1
        if before.states.uploading == "giving up" and not after.uploading:
            assert after.states.ended


def test_it_begins_again_after_a_failure_and_never_after_it_has_left() -> None:
    for before, step, after, _ in transitions():
        if not before.begun_again and after.begun_again:
            assert {Event.RESTART_DROPPING, Event.RESTART_KEEPING, Event.ROUND, Event.SEAL} & set(
                step.events
            )
        left = {Event.LEAVE_DROPPING, Event.LEAVE_KEEPING} & set(step.events)
        if left:
            assert not after.assigned
            assert not after.begun_again
        if before.assigned and not after.assigned and not left:
            assert after.begun_again


def test_whatever_has_left_ends_as_soon_as_its_tasks_do() -> None:
    for before, step, after, _ in transitions():
        if step.events == (Event.LEAVE_DROPPING,):
            assert after.states.ended == (not before.searching and not before.uploading)
        if not before.assigned and step.events in ((Event.COMMITTED,), (Event.SEARCH_ENDED,)):
            assert after.states.ended


@pytest.mark.parametrize("event", [Event.LEAVE_DROPPING, Event.SEAL, Event.LOCATED])
def test_an_event_that_cannot_happen_is_refused_and_changes_nothing(event: Event) -> None:
    """A retired partition takes none of them."""
    model, _ = take(begin(), Step((Event.LEAVE_DROPPING,)))
    facts = model.facts
    with pytest.raises(AssertionError, match="cannot happen while retired"):
        model.states.on(event, EARLY)
    assert model.facts == facts


def test_the_times_are_counted_from_what_began_them() -> None:
    """Further events in the same state do not put them off."""
    states = begin().states
    states.on(Event.WAKE, 10.0)
    states.on(Event.LOCATED, 20.0)
    states.on(Event.SEAL, 30.0)
    states.on(Event.SEALED, 30.0)
    states.on(Event.STOP_KEEPING, 40.0)
    states.on(Event.UPLOAD_RETRYABLE, 70.0)
    assert (states.wake_at, states.retry_at) == (100.0, 75.0)
    assert states.on(Event.ROUND, 74.9) == ()
    assert states.on(Event.ROUND, 75.0) == (Command.UPLOAD,)
    states.on(Event.COMMITTED, 99.0)
    assert states.on(Event.ROUND, 99.9) == ()
    assert states.on(Event.ROUND, 100.0) == (Command.RETIRE, Command.BEGIN_AGAIN)
