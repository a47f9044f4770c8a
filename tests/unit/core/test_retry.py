from __future__ import annotations

import random
import threading
from typing import Any, cast

import pytest

from secor.core.errors import Refused, SecorError, Unavailable
from secor.core.retry import EndedErrors, RepeatedErrors, delay, retry
from tests.fakes.clock import FakeClock


class Chosen(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("attempt", "least", "most"),
    [
        (0, 0.1, 0.2),
        (1, 0.2, 0.4),
        (2, 0.4, 0.8),
        (7, 12.8, 25.6),
        (8, 15.0, 30.0),
        (5_000, 15.0, 30.0),
    ],
)
def test_delays_double_up_to_the_cap_and_half_of_each_is_chance(
    attempt: int, least: float, most: float
) -> None:
    assert delay(attempt, rng=Chosen(0.0)) == pytest.approx(least)
    assert delay(attempt, rng=Chosen(1.0)) == pytest.approx(most)


def test_base_and_cap_are_the_callers() -> None:
    assert delay(3, base=1.0, cap=6.0, rng=Chosen(1.0)) == 6.0
    assert delay(1, base=1.0, cap=6.0, rng=Chosen(1.0)) == 2.0


def test_processes_that_failed_together_do_not_come_back_together() -> None:
    waits = {delay(3, rng=random.Random(seed)) for seed in range(20)}
    assert len(waits) == 20


class Action:
    """Fails ``failures`` times, then returns the number of calls."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return self.calls


def attempt(action: Action, **options: Any) -> tuple[int | Exception, list[float], list[Exception]]:
    """Return the result or the error, the delays, and the failures that were reported."""
    delays: list[float] = []
    failures: list[Exception] = []
    try:
        result: int | Exception = retry(
            action,
            (Unavailable,),
            attempts=3,
            sleep=delays.append,
            rng=random.Random(1),
            failed=failures.append,
            **options,
        )
    except SecorError as error:
        result = error
    return result, delays, failures


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_an_action_is_called_until_it_returns(failures: int) -> None:
    action = Action(failures, Unavailable("gone"))
    result, delays, reported = attempt(action)
    assert (result, len(delays), len(reported)) == (failures + 1, failures, failures)


def test_the_last_error_is_raised_without_a_delay_after_it() -> None:
    action = Action(9, Unavailable("gone"))
    result, delays, reported = attempt(action)
    assert result is action.error
    assert (action.calls, len(delays), len(reported)) == (3, 2, 3)
    assert delays[1] > delays[0]


def test_other_errors_are_raised_at_once() -> None:
    action = Action(9, Refused("another entry"))
    assert attempt(action) == (action.error, [], [])
    assert action.calls == 1


def test_what_nobody_wants_any_more_is_given_up_after_a_delay() -> None:
    action = Action(9, Unavailable("gone"))
    result, delays, _ = attempt(action, wanted=lambda: False)
    assert (result, action.calls, len(delays)) == (action.error, 1, 1)


def test_errors_that_repeat_are_a_row_until_a_success_ends_it() -> None:
    clock = FakeClock()
    errors = RepeatedErrors(clock.monotonic)
    assert errors.ended("a") is None
    assert [errors.failed("a", "x"), errors.failed("a", "x"), errors.failed("b")] == [
        *(True, False, True)
    ]
    clock.sleep(3.0)
    assert errors.failed("a", "y")  # another kind of error is worth a line
    assert errors.ended("a") == EndedErrors(3.0, 3)
    assert errors.ended("a") is None
    assert errors.failed("a", "x")


def test_a_row_that_two_threads_end_at_once_ends_once() -> None:
    errors = RepeatedErrors(FakeClock().monotonic)
    errors.failed("a")
    ended = []

    class Slow:
        """A lock that another thread gets first."""

        def __enter__(self) -> None:
            errors._lock = threading.Lock()
            ended.append(errors.ended("a"))

        def __exit__(self, *_: object) -> None:
            pass

    errors._lock = cast("Any", Slow())
    ended.append(errors.ended("a"))
    assert ended == [EndedErrors(0.0, 1), None]
