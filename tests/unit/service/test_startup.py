from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable

import pytest

from secor.core.errors import AccessDenied, OutcomeUnknown, SecorError, Unavailable
from secor.service import startup
from secor.service.startup import ConnectionAttempts, Doing, Hindrance
from tests.fakes.clock import FakeClock

LONG = 60.0


class Connection:
    """What the attempts are for."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Servers:
    """The attempts: each takes the next plan, a list of servers and what the last one does."""

    def __init__(self, *plans: tuple[list[str], SecorError | None]) -> None:
        self.plans = list(plans)
        self.connection = Connection()
        self.seen: list[Hindrance] = []
        self.look: Callable[[], Hindrance]

    def connect(self, ask: Doing) -> Connection:
        self.seen.append(self.look())
        servers, error = self.plans.pop(0)
        for server in servers:
            ask(server)
        self.seen.append(self.look())
        if error is not None:
            raise error
        return self.connection


def connecting(servers: Servers, clock: FakeClock | None = None) -> ConnectionAttempts[Connection]:
    attempts = ConnectionAttempts(
        servers.connect, clock=clock if clock is not None else FakeClock(), rng=random.Random(1)
    )
    servers.look = lambda: attempts.hindrance
    attempts.start()
    return attempts


def test_servers_that_are_out_are_asked_again_until_they_answer() -> None:
    servers = Servers(
        (["store"], Unavailable("503")),
        (["store", "ledger"], OutcomeUnknown("lost")),
        (["store", "ledger", "brokers"], None),
    )
    attempts = connecting(servers)
    assert attempts.poll(LONG) is servers.connection
    assert attempts.poll(0.0) is servers.connection
    assert servers.connection.closed == 0


def test_the_hindrance_is_the_server_that_has_not_answered() -> None:
    out = Unavailable("503")
    servers = Servers(
        (["store"], out),
        (["store"], out),
        (["store", "ledger"], None),
    )
    assert connecting(servers).poll(LONG) is not None
    assert [(hindrance.server, hindrance.error) for hindrance in servers.seen] == [
        ("the servers", None),
        ("store", None),
        ("store", out),
        ("store", out),  # asked again: it has not answered yet
        ("store", out),
        ("ledger", None),
    ]


def test_what_waiting_cannot_mend_is_raised_at_once() -> None:
    servers = Servers((["store"], AccessDenied("no such bucket")))
    with pytest.raises(AccessDenied, match="no such bucket"):
        connecting(servers).poll(LONG)


def test_there_is_no_connection_while_an_attempt_hangs() -> None:
    go = threading.Event()

    class Hanging(Servers):
        def connect(self, ask: Doing) -> Connection:
            assert go.wait(LONG)
            return super().connect(ask)

    servers = Hanging((["store"], None))
    attempts = connecting(servers)
    assert attempts.poll(0.01) is None
    go.set()
    assert attempts.poll(LONG) is servers.connection


def test_who_gives_up_waiting_closes_what_was_connected() -> None:
    servers = Servers((["store"], None))
    attempts = connecting(servers)
    assert attempts.poll(LONG) is not None
    attempts.abandon()
    assert servers.connection.closed == 1


def abandoned_in_an_attempt(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up while the first attempt is in work, let that end, and wait for the thread."""
    monkeypatch.setattr(startup, "ABANDONED", 0.0)  # seconds: the attempt ends after that
    asked, go_on = threading.Event(), threading.Event()
    connect = servers.connect

    def hang(ask: Doing) -> Connection:
        asked.set()
        assert go_on.wait(LONG)
        return connect(ask)

    servers.connect = hang  # type: ignore[method-assign]
    attempts = connecting(servers)
    assert asked.wait(LONG)
    attempts.abandon()
    go_on.set()
    with pytest.raises(RuntimeError):  # nothing was connected, and nothing was refused
        attempts.poll(LONG)


def test_an_attempt_that_succeeds_after_the_end_closes_what_it_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers((["store"], None))
    abandoned_in_an_attempt(servers, monkeypatch)
    assert servers.connection.closed == 1


def test_nobody_is_asked_again_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(*[(["store"], Unavailable("503"))] * 3)
    abandoned_in_an_attempt(servers, monkeypatch)
    assert len(servers.plans) == 2


def test_a_defect_while_connecting_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    defects: queue.SimpleQueue[type[BaseException]] = queue.SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", lambda defect: defects.put(defect.exc_type))

    class Broken(Servers):
        def connect(self, ask: Doing) -> Connection:
            raise ZeroDivisionError

    attempts = connecting(Broken())
    with pytest.raises(RuntimeError, match="defect"):
        attempts.poll(LONG)
    assert defects.get(timeout=LONG) is ZeroDivisionError
