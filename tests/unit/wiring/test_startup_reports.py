"""What a daemon tells while servers are out at its start."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from secor.core.errors import Unavailable
from secor.service.monitoring.health import Health
from secor.service.startup import Hindrance
from secor.service.status.board import About, Board
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.wiring.startup_reports import PATIENCE, REMIND, StartupReports
from tests.fakes.clock import FakeClock

ERROR = Unavailable("cannot reach s3://secret-name: 503 <b>")


class Manager:
    def __init__(self) -> None:
        self.said: list[str] = []

    def ready(self) -> None:
        self.said.append("ready")

    def watchdog(self) -> None:
        self.said.append("watchdog")

    def stopping(self) -> None:
        self.said.append("stopping")

    def status(self, text: str) -> None:
        self.said.append(text)


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.health = Health(self.clock, limit=1e9)
        self.board = Board(self.clock, About("1", "group", "here", (), "numpy"))
        self.manager = Manager()
        self.waiting = StartupReports(
            self.health,
            self.board,
            self.manager,
            self.clock,
            {"the Kafka brokers": "k-1:9092, k-2:9092"},
        )

    def warned(self, hindrance: Hindrance, seconds: int) -> list[tuple[float, str]]:
        """Tell once a second; return when which server was warned of."""
        found = []
        began = self.clock.monotonic()
        for _ in range(seconds):
            with capture_logs() as lines:
                self.waiting.report(hindrance)
            at = self.clock.monotonic() - began
            found += [(at, line["server"]) for line in lines if line["log_level"] == "warning"]
            self.clock.advance(1)
        return found

    def hindrance(self, server: str, error: Unavailable | None) -> Hindrance:
        return Hindrance(server, self.clock.monotonic(), error)


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_everybody_hears_of_it_but_probes_learn_no_names(setup: Setup) -> None:
    setup.waiting.report(setup.hindrance("the object store", ERROR))
    setup.clock.advance(7)
    assert setup.health.ready().body == b"starting: waiting for the object store\n"
    assert setup.manager.said == [f"waiting for the object store: {ERROR}"]
    told = json.loads(json.dumps(picture(setup.board, setup.health)))["hindrance"]
    assert (told["server"], told["age"], told["message"]) == ("the object store", 7.0, str(ERROR))
    assert "tried again" in told["remedy"]
    shown = page(picture(setup.board, setup.health))
    assert "503 &lt;b&gt;" in shown
    assert "waiting for the object store" in shown


def test_a_server_that_says_nothing_is_named_by_its_address(setup: Setup) -> None:
    silent = setup.hindrance("the Kafka brokers", None)
    setup.clock.advance(PATIENCE)
    with capture_logs() as lines:
        setup.waiting.report(silent)
    assert [(line["server"], line["address"]) for line in lines] == [
        ("the Kafka brokers", "k-1:9092, k-2:9092")
    ]
    assert setup.manager.said == [
        "waiting for the Kafka brokers at k-1:9092, k-2:9092: no answer yet"
    ]
    assert setup.health.ready().body == b"starting: waiting for the Kafka brokers\n"


def test_a_snapshot_of_the_loop_ends_it(setup: Setup) -> None:
    setup.waiting.report(setup.hindrance("the object store", ERROR))
    setup.board.show([], ledger_up=True)
    assert picture(setup.board, setup.health)["hindrance"] is None


def test_the_first_error_of_a_server_that_was_silent_is_told_at_once(setup: Setup) -> None:
    silent = setup.hindrance("the Kafka brokers", None)
    assert len(setup.warned(silent, int(PATIENCE) + 2)) == 1
    failed = setup.hindrance("the Kafka brokers", ERROR)
    assert setup.warned(failed, 10) == [(0, "the Kafka brokers")]
    assert setup.warned(silent, 10) == []
    assert setup.warned(failed, 10) == []


def test_a_warning_comes_at_once_and_then_every_few_minutes(setup: Setup) -> None:
    warned = setup.warned(setup.hindrance("the object store", ERROR), 2 * int(REMIND) + 10)
    assert warned == [(at, "the object store") for at in (0, REMIND, 2 * REMIND)]


def test_another_server_is_another_warning(setup: Setup) -> None:
    assert len(setup.warned(setup.hindrance("the object store", ERROR), 3)) == 1
    assert setup.warned(setup.hindrance("ZooKeeper", ERROR), 3) == [(0, "ZooKeeper")]


def test_an_answer_that_is_only_slow_is_no_warning(setup: Setup) -> None:
    waits = setup.hindrance("ZooKeeper", None)
    assert setup.warned(waits, int(PATIENCE)) == []
    assert len(setup.warned(waits, 3)) == 1
