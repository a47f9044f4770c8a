from __future__ import annotations

import pytest

from secor.restore.target_ids import LOOK_EVERY, TargetGuard, TargetRemade, remade
from tests.fakes.clock import FakeClock


def test_a_target_with_another_id_is_named_and_one_without_is_not() -> None:
    (finding,) = remade({"a": "1", "b": "2", "c": "3", "d": "4"}, {"a": "1", "b": "9", "c": None})
    assert finding.topic == "b"
    assert finding.what.startswith("was deleted and made again since the job began (topic id 2")


def test_targets_are_looked_at_now_and_then_and_at_the_end() -> None:
    ids: dict[str, str | None] = {"a": "1"}
    asked: list[list[str]] = []

    def ask(topics: list[str]) -> dict[str, str | None]:
        asked.append(topics)
        return ids

    clock = FakeClock()
    guard = TargetGuard({"a": "1"}, ask, clock)
    guard.look_now()
    ids["a"] = "2"
    guard.look()
    assert asked == [["a"]]
    with pytest.raises(TargetRemade, match="a: was deleted and made again"):
        guard.look_now()
    clock.sleep(LOOK_EVERY)
    with pytest.raises(TargetRemade, match="a: was deleted and made again"):
        guard.look()


def test_brokers_without_ids_are_not_asked() -> None:
    TargetGuard({}, lambda _topics: pytest.fail("asked"), FakeClock()).look_now()
