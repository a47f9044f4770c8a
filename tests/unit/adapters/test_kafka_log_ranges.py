"""The ranges of logs, asked for together."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from secor.adapters.kafka import log_ranges
from secor.adapters.kafka.log_ranges import EpochEnds, LogRangeCache
from secor.core.errors import Unavailable
from secor.core.model import LogRange, TopicPartition

KEYS = [TopicPartition("clicks", number) for number in range(5)]
UNKNOWN = KEYS[3]
LONG_AGO = 0.0


class Broker:
    """Counts what it is asked; each answer is another."""

    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []
        self.is_out = False
        self.ranges = LogRangeCache(self.one, self.many)

    def one(self, key: TopicPartition) -> LogRange:
        self.asked.append([key])
        return LogRange(len(self.asked), 100)

    def many(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, LogRange]:
        self.asked.append(list(keys))
        if self.is_out:
            raise Unavailable("out")
        return {key: LogRange(len(self.asked), 100) for key in keys if key != UNKNOWN}


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.ranges.assigned(KEYS)
    return broker


def test_what_comes_together_is_asked_for_together(broker: Broker) -> None:
    assert [broker.ranges.get(key, LONG_AGO).start for key in KEYS] == [1, 1, 1, 2, 1]
    assert broker.asked == [KEYS, [UNKNOWN]]


def test_an_answer_is_given_once(broker: Broker) -> None:
    broker.ranges.get(KEYS[0], LONG_AGO)
    assert broker.ranges.get(KEYS[1], LONG_AGO).start == 1
    assert broker.ranges.get(KEYS[1], LONG_AGO).start > 1


def test_who_asks_for_now_shares_nothing(broker: Broker) -> None:
    broker.ranges.get(KEYS[0], LONG_AGO)
    assert broker.ranges.get(KEYS[1], None).start == 2
    assert broker.asked[1] == [KEYS[1]]


def test_an_answer_from_before_the_question_arose_is_none(broker: Broker) -> None:
    broker.ranges.get(KEYS[0], LONG_AGO)
    assert broker.ranges.get(KEYS[1], time.monotonic()).start > 1


def test_an_answer_gets_old(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.ranges.get(KEYS[0], LONG_AGO)
    monkeypatch.setattr(log_ranges, "LIFETIME", 0.0)
    assert broker.ranges.get(KEYS[1], LONG_AGO).start > 1


def test_answers_that_have_got_old_are_asked_for_together_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.ranges.get(KEYS[0], LONG_AGO)
    monkeypatch.setattr(log_ranges, "LIFETIME", -1.0)
    assert broker.ranges.get(KEYS[1], LONG_AGO).start == 2
    monkeypatch.undo()
    assert broker.ranges.get(KEYS[2], LONG_AGO).start == 2
    broker.ranges.revoked([KEYS[4]])
    monkeypatch.setattr(log_ranges, "LIFETIME", -1.0)
    assert broker.ranges.get(KEYS[0], LONG_AGO).start == 3
    assert broker.asked[1:] == [[KEYS[1], UNKNOWN, KEYS[2], KEYS[4]], [KEYS[0], UNKNOWN]]


def test_what_left_is_not_asked_for_and_comes_back_new(broker: Broker) -> None:
    broker.ranges.revoked(KEYS[1:3])
    broker.ranges.get(KEYS[0], LONG_AGO)
    assert broker.asked == [[KEYS[0], *KEYS[3:]]]
    broker.ranges.revoked([KEYS[4]])
    assert broker.ranges.get(KEYS[4], LONG_AGO).start > 1


def test_a_question_that_fails_is_put_for_one(broker: Broker) -> None:
    broker.is_out = True
    assert broker.ranges.get(KEYS[0], LONG_AGO) == LogRange(2, 100)
    assert broker.asked == [KEYS, [KEYS[0]]]


def test_no_question_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ranges, "TOGETHER", 3)
    broker = Broker()
    broker.ranges.assigned(KEYS)
    for key in KEYS:
        broker.ranges.get(key, LONG_AGO)
    assert [len(keys) for keys in broker.asked] == [3, 2, 1]


def test_epochs_that_are_asked_for_during_a_request_go_together_in_the_next() -> None:
    asked: list[dict[TopicPartition, int]] = []
    goes_on, has_begun = threading.Event(), threading.Event()

    def ask(epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked.append(dict(epochs))
        has_begun.set()
        assert goes_on.wait(10)
        return {key: 100 + epoch for key, epoch in epochs.items() if key != UNKNOWN}

    ends = EpochEnds(ask)
    answers: dict[TopicPartition, int | None] = {}

    def get(number: int) -> None:
        answers[KEYS[number]] = ends.get(KEYS[number], number)

    threads = [threading.Thread(target=get, args=(number,)) for number in range(len(KEYS))]
    threads[0].start()
    assert has_begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(ends._waiting) < len(KEYS) - 1:
        assert threads[0].is_alive()
    goes_on.set()
    for thread in threads:
        thread.join(10)
    assert [sorted(epochs) for epochs in asked] == [KEYS[:1], KEYS[1:]]
    assert answers == {key: None if key == UNKNOWN else 100 + n for n, key in enumerate(KEYS)}


def test_an_error_of_that_request_is_everybody_s() -> None:
    def ask(_: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        raise Unavailable("out")

    ends = EpochEnds(ask)
    for _ in range(2):
        with pytest.raises(Unavailable, match="out"):
            ends.get(KEYS[0], 1)
