"""The process around the loop, on a clock that stands."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from secor.core.errors import AccessDenied
from secor.service.daemon import READY_AFTER, ConnectedParts, Daemon
from secor.service.startup import Hindrance
from tests.fakes.clock import FakeClock


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class World:
    """Everything around the daemon; ``told`` is what happened, in order."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.told: list[str] = []
        self.connected_after: float | None = None
        self.refused: AccessDenied | None = None
        self.turns = 0
        self.drains_in = 3.0
        self.drain_began: float | None = None
        self.on_turn: Callable[[], None] = lambda: None
        self.daemon = Daemon(
            self,
            clock=self.clock,
            service_manager=self,
            beat=lambda: None,
            waiting=lambda _: self.tell("waiting"),
            close=lambda: self.tell("closed"),
            drain_timeout=240.0,
        )

    def tell(self, what: str) -> None:
        if what not in self.told:
            self.told.append(what)

    # -- the connecting
    hindrance = Hindrance("the object store", 0.0, None)

    def start(self) -> None:
        self.began = self.clock.monotonic()

    def poll(self, timeout: float) -> ConnectedParts | None:
        self.on_turn()
        self.clock.advance(timeout)
        if self.refused is not None:
            raise self.refused
        waited = self.clock.monotonic() - self.began
        if self.connected_after is None or waited < self.connected_after:
            return None
        return ConnectedParts(self, lambda: self.tell("report"), lambda: self.tell("disconnected"))

    def abandon(self) -> None:
        self.tell("abandoned")

    # -- the consumer
    def run_once(self, timeout: float) -> None:
        self.clock.advance(timeout)
        self.on_turn()

    def drain(self) -> None:
        self.tell("drain")
        self.drain_began = self.clock.monotonic()

    @property
    def drained(self) -> bool:
        assert self.drain_began is not None
        return self.clock.monotonic() - self.drain_began >= self.drains_in

    # -- the service manager
    def ready(self) -> None:
        self.tell("READY")

    def watchdog(self) -> None:
        self.tell("WATCHDOG")

    def status(self, text: str) -> None:
        self.tell(text)

    def stopping(self) -> None:
        self.tell("STOPPING")

    def stop_after(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds

        def look() -> None:
            if self.clock.monotonic() >= end:
                self.daemon.stop()

        self.on_turn = look


@pytest.fixture
def world() -> World:
    return World()


def test_it_connects_works_drains_and_closes_in_this_order(world: World) -> None:
    world.connected_after = 0.0
    world.stop_after(5)
    assert world.daemon.run()
    assert world.told == [
        "READY",
        "WATCHDOG",
        "report",
        "STOPPING",
        "drain",
        "disconnected",
        "closed",
    ]


def test_a_signal_while_it_waits_for_servers_ends_it(world: World) -> None:
    world.stop_after(5)
    assert world.daemon.run()
    assert world.told == ["WATCHDOG", "waiting", "STOPPING", "abandoned", "closed"]


def test_the_service_manager_need_not_wait_for_servers(world: World) -> None:
    world.stop_after(READY_AFTER - 2)
    world.daemon.run()
    assert "READY" not in world.told
    later = World()
    later.stop_after(READY_AFTER + 2)
    later.daemon.run()
    assert later.told[:3] == ["WATCHDOG", "waiting", "READY"]


def test_a_mistake_ends_it_at_once_and_everything_is_closed(world: World) -> None:
    world.refused = AccessDenied("no such bucket")
    with pytest.raises(AccessDenied):
        world.daemon.run()
    assert world.told == ["closed"]


def test_a_drain_that_gets_nowhere_has_an_end(world: World) -> None:
    world.connected_after = 0.0
    world.drains_in = 1e9
    world.stop_after(5)
    began = world.clock.monotonic()
    assert not world.daemon.run()
    assert 240 <= world.clock.monotonic() - began <= 250
    assert world.told[-2:] == ["disconnected", "closed"]


def test_a_thread_that_ends_by_a_defect_ends_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    world.connected_after = 0.0

    def defect() -> None:
        thread = threading.Thread(target=lambda: 1 // 0, name="erasures")
        thread.start()
        thread.join()

    world.on_turn = defect
    with pytest.raises(RuntimeError, match="the thread erasures has ended") as raised:
        world.daemon.run()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert printed
    assert world.told[-2:] == ["disconnected", "closed"]
    assert threading.excepthook == printed.append
