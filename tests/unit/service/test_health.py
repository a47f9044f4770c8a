from __future__ import annotations

from http import HTTPStatus

import pytest

from secor.service.monitoring.health import Health, HealthResponse, reasons_to_wait
from tests.fakes.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_loop_that_turns_is_alive(clock: FakeClock) -> None:
    health = Health(clock, limit=30.0)
    clock.sleep(25)
    health.beat()
    clock.sleep(30)
    assert health.alive().status is HTTPStatus.OK


def test_a_loop_that_stands_still_is_neither_alive_nor_ready(clock: FakeClock) -> None:
    health = Health(clock, limit=30.0)
    health.waiting([])
    clock.sleep(31)
    for answer in (health.alive(), health.ready()):
        assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.body == b"the loop has been stuck for 31 s\n"


def test_a_process_is_not_ready_before_it_has_said_so(clock: FakeClock) -> None:
    health = Health(clock, limit=30.0)
    assert health.ready().body == b"starting\n"
    health.waiting(["one thing", "another"])
    assert health.ready().body == b"one thing\nanother\n"
    health.waiting([])
    assert health.ready() == HealthResponse(HTTPStatus.OK, b"ready\n")
    health.waiting([], ["a remark"])
    assert health.ready() == HealthResponse(HTTPStatus.OK, b"ready\na remark\n")
    health.waiting(["a reason"], ["a remark"])
    assert health.ready().body == b"a reason\na remark\n"


@pytest.mark.parametrize(
    ("assigned", "stopped", "ledger_up", "words"),
    [
        (1, 0, True, []),
        (2, 1, True, []),
        (2, 2, True, ["stopped"]),
        (0, 0, True, ["partitions"]),
        (1, 0, False, ["ledger"]),
        (0, 0, False, ["partitions", "ledger"]),
    ],
)
def test_reasons_name_what_is_waited_for(
    assigned: int, stopped: int, ledger_up: bool, words: list[str]
) -> None:
    found = reasons_to_wait(assigned=assigned, stopped=stopped, ledger_up=ledger_up)
    assert len(found) == len(words)
    assert all(word in reason for word, reason in zip(words, found, strict=True))


def test_a_reason_that_no_text_can_hold_is_still_an_answer() -> None:
    health = Health(FakeClock(), limit=60.0)
    health.waiting(["c/0 stopped: no such city: \ud800"])
    assert health.ready().body == b"c/0 stopped: no such city: \\ud800\n"
