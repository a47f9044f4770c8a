from __future__ import annotations

import random

import pytest

from secor.core.retry import delay


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
