from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from secor.restore.target_ids import LOOK_EVERY, TargetGuard, TargetRemade, remade
from tests.fakes.clock import FakeClock


def test_a_target_with_another_id_is_named_and_one_without_is_not() -> None:
    (finding,) = remade({"a": "1", "b": "2", "c": "3", "d": "4"}, {"a": "1", "b": "9", "c": None})
    assert finding.topic == "b"
    assert finding.what.startswith("was deleted and made again since the job began (topic id 2")


class Job:
    """A job's record, and the brokers that it asks."""

    def __init__(self, **ids: str | None) -> None:
        self.ids: dict[str, str | None] = dict(ids)
        self.recorded: dict[str, str] = {}
        self.asked: list[list[str]] = []
        self.clock = FakeClock()
        self.guard = TargetGuard(self.record, self.ask, self.clock)

    def record(self, ids: Mapping[str, str]) -> Mapping[str, str]:
        self.recorded = {**ids, **self.recorded}
        return self.recorded

    def ask(self, topics: Sequence[str]) -> dict[str, str | None]:
        self.asked.append(list(topics))
        return {topic: self.ids.get(topic) for topic in topics}


def test_targets_are_looked_at_now_and_then_and_at_the_end() -> None:
    job = Job(a="1")
    job.guard.keep(["a"])
    job.ids["a"] = "2"
    job.guard.look()
    assert job.asked == [["a"], ["a"]]
    with pytest.raises(TargetRemade, match="a: was deleted and made again"):
        job.guard.look_now()
    job.clock.sleep(LOOK_EVERY)
    with pytest.raises(TargetRemade, match="a: was deleted and made again"):
        job.guard.look()


def test_a_target_that_comes_later_is_kept_beside_the_others() -> None:
    job = Job(a="1", b="2")
    job.guard.keep(["a"])
    job.guard.keep(["b"])
    assert job.recorded == {"a": "1", "b": "2"}
    job.ids["b"] = "3"
    with pytest.raises(TargetRemade, match="b: was deleted and made again"):
        job.guard.look_now()


def test_a_target_that_another_daemon_wrote_before_it_was_made_again_is_named_at_once() -> None:
    job = Job(a="2")
    job.recorded = {"a": "1"}
    with pytest.raises(TargetRemade, match="a: was deleted and made again"):
        job.guard.keep(["a"])


def test_brokers_without_ids_are_not_asked_again() -> None:
    job = Job(a=None)
    job.guard.keep(["a"])
    job.guard.look_now()
    assert job.asked == [["a"]]
