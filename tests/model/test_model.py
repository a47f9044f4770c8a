"""The model of the commit protocol, in small worlds; scripts/model searches larger ones."""

from __future__ import annotations

import pytest

from tests.model.checker import BREAKS, HOLDS, check

SMALL = {
    "puts that land at any later time": 2,
    "a log that is compacted": 2,
    "late puts in a log that is compacted": 2,
    "late puts where configurations change": 2,
}


@pytest.mark.parametrize("name", HOLDS)
def test_each_message_is_stored_once_whatever_happens(name: str) -> None:
    assert check(HOLDS[name], SMALL.get(name, 3)).broken is None


@pytest.mark.parametrize("name", BREAKS)
def test_a_step_left_out_is_noticed(name: str) -> None:
    assert check(BREAKS[name], 3).broken is not None
