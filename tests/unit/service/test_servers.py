"""What is known of the servers, from what the process asks them."""

from __future__ import annotations

import crc32c as checksum
import pytest

from secor.core.errors import AccessDenied, AlreadyExists, NotFound, SecorError, Unavailable
from secor.core.model import TopicPartition
from secor.service.monitoring.servers import MonitoredServer, WatchedLedger, WatchedStore
from tests.fakes.clock import FakeClock
from tests.fakes.ledger import LedgerServer
from tests.fakes.store import FakeStore

KEY = TopicPartition("clicks", 0)
BYTES = b"some"


class World:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0)
        self.server = MonitoredServer("the server", self.clock)
        self.error: SecorError | None = None
        self.store = WatchedStore(FakeStore(before=self.before), self.server)
        self.ledger_server = LedgerServer()
        self.fake_ledger = self.ledger_server.client("process 1")
        self.ledger = WatchedLedger(self.fake_ledger, self.server, session=True)

    def before(self, call: str, key: str) -> None:
        if self.error is not None:
            raise self.error

    def put(self) -> None:
        self.store.put("a", BYTES, checksum.crc32c(BYTES), {})


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_known_before_it_is_asked(world: World) -> None:
    before = world.server.state
    world.put()
    after = world.server.state
    assert (before.answers, after.answers) == (None, True)
    assert (before.answered_at, after.answered_at) == (None, 1000.0)
    assert [stored.key for stored in world.store.list("")] == ["a"]
    with world.store.open("a") as file:
        assert file.read() == BYTES
    assert world.store.head("a").size == len(BYTES)
    world.store.delete("a")
    assert list(world.store.list("")) == []


def test_that_an_object_is_there_or_not_is_an_answer(world: World) -> None:
    with pytest.raises(NotFound):
        world.store.head("a")
    assert world.server.state.answers is True
    world.put()
    world.server.failed(Unavailable("out"))
    with pytest.raises(AlreadyExists):
        world.put()
    assert world.server.state.answers is True


@pytest.mark.parametrize("error", [Unavailable("out"), AccessDenied("no right")])
def test_it_fails_since_the_first_error_until_it_answers(world: World, error: SecorError) -> None:
    world.error = error
    for _ in range(3):
        with pytest.raises(type(error)):
            world.put()
        with pytest.raises(type(error)):
            list(world.store.list(""))
        world.clock.sleep(10)
    state = world.server.state
    assert (state.answers, state.since, state.error_at) == (False, 1000.0, 1020.0)
    assert state.error is error
    world.error = None
    world.put()
    assert (world.server.state.answers, world.server.state.since) == (True, None)
    assert world.server.state.error is error, "the last one, though it is over"


def test_a_ledger_fails_while_its_session_is_down_and_says_why_when_asked(world: World) -> None:
    world.ledger.lease(KEY, 1.0).release()
    assert world.server.state.answers is True
    world.fake_ledger.available = False
    assert world.ledger.healthy() is False
    assert (world.server.state.answers, world.server.state.error) == (False, None)
    world.clock.sleep(5)
    with pytest.raises(Unavailable):
        world.ledger.read(KEY)
    assert world.ledger.healthy() is False
    assert (world.server.state.since, world.server.state.error_at) == (1000.0, 1005.0)
    world.fake_ledger.available = True
    assert world.ledger.healthy() is True
    assert world.server.state.answers is True, "nothing asks it where no messages come"


def test_a_ledger_that_refuses_in_a_good_session_fails_until_it_grants(world: World) -> None:
    world.server.failed(AccessDenied("no right"))
    assert world.ledger.healthy() is True
    assert world.server.state.answers is False
    world.ledger.read(KEY)
    assert world.server.state.answers is True


@pytest.mark.parametrize(("session", "answered_at"), [(True, 1060.0), (False, 1000.0)])
def test_a_session_answers_all_the_time_and_requests_when_they_are_sent(
    world: World, session: bool, answered_at: float
) -> None:
    ledger = WatchedLedger(world.fake_ledger, world.server, session=session)
    ledger.read(KEY)
    world.clock.sleep(60)
    assert ledger.healthy() is True
    assert world.server.state.answered_at == answered_at


def test_a_trouble_in_words_is_one_error_while_it_lasts(world: World) -> None:
    world.server.set_trouble("no leader")
    world.clock.sleep(5)
    world.server.set_trouble("no leader")
    state = world.server.state
    assert (state.answers, state.since, state.error_at) == (False, 1000.0, 1000.0)
    world.server.set_trouble("no coordinator")
    assert (str(world.server.state.error), world.server.state.since) == ("no coordinator", 1000.0)
    world.server.set_trouble(None)
    assert world.server.state.answers is True
