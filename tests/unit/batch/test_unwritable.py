"""The search for messages that cannot be written: few trials, a bound on time, no guesses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from secor.batch.unwritable import MOST_REFUSED, SECONDS, Search
from secor.core.model import Chunk, Part, TopicPartition
from tests.fakes.clock import FakeClock
from tests.fakes.format import chunk_of

KEY = TopicPartition("clicks", 0)


class Trials:
    """Fails for some offsets; each trial takes time."""

    def __init__(self, bad: set[int], seconds: float = 0.0) -> None:
        self.bad = bad
        self.clock = FakeClock()
        self.seconds = seconds
        self.sizes: list[int] = []

    def __call__(self, chunk: Chunk, parts: Sequence[Part] | None) -> str | None:
        self.clock.advance(self.seconds)
        offsets = set(chunk.records.column("offset").to_pylist())
        self.sizes.append(len(offsets))
        if parts is not None:
            assert sum(part.rows for part in parts) == len(offsets)
        return "bad" if self.fails(offsets) else None

    def fails(self, offsets: set[int]) -> bool:
        return bool(self.bad & offsets)


def search(trials: Trials, messages: int, *, parsed: bool = True) -> Search:
    records = chunk_of(list(range(messages)), [b"x"] * messages)
    half = messages // 2
    parts = [Part("a", records.slice(0, half)), Part("b", records.slice(half))]
    chunk = Chunk(KEY, records, messages + 5)
    return Search(chunk, parts if parsed else None, trials, trials.clock)


@pytest.mark.parametrize("parsed", [True, False])
@pytest.mark.parametrize("bad", [{0}, {9_999}, {4_999, 5_000}, {1, 3, 17, 8_000}])
def test_all_bad_messages_are_found(bad: set[int], parsed: bool) -> None:
    refused = search(Trials(bad), 10_000, parsed=parsed).run()
    assert set(refused.reasons) == bad
    assert refused.tried == 10_000


def test_one_bad_message_costs_about_as_much_as_writing_all_twice() -> None:
    trials = Trials({7_777})
    search(trials, 10_000).run()
    assert sum(trials.sizes) <= 20_100
    assert len(trials.sizes) <= 40


def test_a_search_ends_in_time_but_not_before_it_has_found_a_message() -> None:
    trials = Trials(set(range(10_000)), seconds=SECONDS)
    refused = search(trials, 10_000).run()
    assert set(refused.reasons) == {0}
    assert refused.tried == 1
    quick = search(Trials(set(range(10_000))), 10_000).run()
    assert set(quick.reasons) == set(range(MOST_REFUSED))


class NowAndThen(Trials):
    def fails(self, offsets: set[int]) -> bool:
        return len(self.sizes) % 2 == 0


def test_what_fails_now_and_then_is_no_message_s_fault() -> None:
    assert search(NowAndThen(set()), 64).run().reasons == {}


class Together(Trials):
    def fails(self, offsets: set[int]) -> bool:
        return self.bad <= offsets


def test_of_messages_that_only_fail_together_the_last_one_is_refused() -> None:
    assert set(search(Together({100, 900}), 1000).run().reasons) == {900}
