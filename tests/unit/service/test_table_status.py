"""What the status page of a daemon of a table group shows of its tables."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from secor.core.errors import SecorError, TableStopped, Unavailable
from secor.core.model import TopicPartition
from secor.service.metrics import Metrics
from secor.service.monitoring.health import Health
from secor.service.monitoring.table_telemetry import TableTelemetry
from secor.service.status import table_board
from secor.service.status.board import Board
from secor.service.status.page import page
from secor.service.status.picture import picture
from secor.service.status.table_board import TableBoard
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.control import ControlEvent, EventKind
from secor.tables.cycle import Cycle, State
from secor.tables.observer import Backlog
from secor.wiring.http_server import pages_of_tables
from tests.fakes.clock import FakeClock
from tests.unit.service.test_status import ABOUT, HOSTILE, Elements
from tests.unit.tables.world import EVENTS, TableWorld

HERE = "host-1"
OTHER = "host-2"
COMMITTED = TableResult(
    "db.t", Result.COMMITTED, commit="c" * 32 + "-0", files=2, records=30, valid_through=990_000
)
COMMIT_TO_TABLE = ControlEvent(
    EventKind.COMMIT_TO_TABLE,
    "g",
    "cycle-7",
    900,
    OTHER,
    table="db.t",
    snapshot=1,
    valid_through=970_000,
)


class Setup:
    def __init__(self) -> None:
        self.clock = FakeClock(now=1000.0, monotonic=50.0)
        self.tables = TableBoard(self.clock, HERE, ["db.t"])
        self.board = Board(self.clock, ABOUT, self.tables)
        self.telemetry = TableTelemetry(Metrics(), self.clock, self.tables)

    def picture(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(json.dumps(self._picture()))
        return shown

    def page(self) -> str:
        return page(self._picture())

    def table(self) -> dict[str, Any]:
        (shown,) = self.picture()["tables"]
        assert isinstance(shown, dict)
        return shown

    def _picture(self) -> dict[str, Any]:
        return picture(self.board, Health(self.clock, limit=30.0))


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_other_groups_have_no_tables(setup: Setup) -> None:
    setup.board.tables = None
    assert (setup.picture()["coordination"], setup.picture()["tables"]) == (None, [])
    assert "Tables" not in setup.page()


def test_a_table_of_the_configuration_is_shown_before_anything_is_known_of_it(
    setup: Setup,
) -> None:
    table = setup.table()
    assert (table["table"], table["state"], table["seen_age"]) == ("db.t", "unknown", None)
    assert (table["last_commit"], table["valid_through"], table["staged"]) == (None, None, None)
    coordination = setup.picture()["coordination"]
    assert (coordination["coordinator"], coordination["here"]) == (None, False)
    assert (coordination["state"], coordination["staged"]) == (None, None)
    assert "db.t" in setup.page()


def test_without_any_table_the_page_says_so(setup: Setup) -> None:
    setup.board.tables = TableBoard(setup.clock, HERE)
    assert "This process knows of none yet." in setup.page()


def test_a_coordinator_shows_its_cycle_and_the_last_commit(setup: Setup) -> None:
    setup.tables.watch(Cycle(State.COLLECTING))
    setup.telemetry.leading(True, 995)
    setup.telemetry.table_committed(replace(COMMITTED, conflicts=2))
    setup.telemetry.cycle_ended(1.5, 0)
    setup.telemetry.cycle_ended(4.0, 3)
    setup.clock.advance(20.0)
    coordination, table = setup.picture()["coordination"], setup.table()
    assert (coordination["coordinator"], coordination["here"]) == (HERE, True)
    assert (coordination["epoch"], coordination["state"]) == (995, "collecting")
    cycles = coordination["cycles"]
    assert (cycles["complete"], cycles["partial"], cycles["failed"]) == (1, 1, 0)
    assert (cycles["last"]["age"], cycles["last"]["without_answer"]) == (20.0, 3)
    assert coordination["conflicts"] == 2
    assert (table["state"], table["conflicts"], table["seen_age"]) == ("ok", 2, 20.0)
    commit = table["last_commit"]
    assert (commit["id"], commit["age"], commit["rows"]) == ("c" * 32 + "-0", 20.0, 30)
    assert table["valid_through"] == "1970-01-01T00:16:30+00:00"
    assert table["valid_through_age"] == 30.0
    shown = setup.page()
    assert "this process" in shown
    assert ">cccccccc<" in shown, "the beginning of the id"
    assert "1970-01-01 00:16:30 UTC" in shown


def test_a_cycle_without_anything_new_leaves_the_last_commit(setup: Setup) -> None:
    setup.telemetry.table_committed(replace(COMMITTED, conflicts=1))
    setup.clock.advance(60.0)
    setup.telemetry.table_committed(TableResult("db.t", Result.NOTHING))
    table = setup.table()
    assert (table["last_commit"]["age"], table["seen_age"]) == (60.0, 0.0)
    assert (table["valid_through_age"], table["conflicts"]) == (70.0, 1)


@pytest.mark.parametrize(
    ("result", "error", "state"),
    [
        (Result.STOPPED, TableStopped("db.t: was rolled back", "rolled_back"), "stopped"),
        (Result.FAILED, Unavailable("db.t: the catalog is out"), "failed"),
    ],
)
def test_a_table_that_goes_no_further_says_why_and_what_to_do(
    setup: Setup, result: Result, error: SecorError, state: str
) -> None:
    setup.telemetry.table_committed(COMMITTED)
    setup.telemetry.table_committed(TableResult("db.t", result, error=error))
    table = setup.table()
    assert (table["state"], table["why"]) == (state, str(error))
    assert table["last_commit"]["rows"] == 30
    shown = setup.page()
    assert '<p class="bad">Stopped or failed: db.t</p>' in shown
    assert f"{error}. <em>{table['remedy']}</em>" in shown
    setup.telemetry.table_committed(TableResult("db.t", Result.NOTHING))
    assert (setup.table()["state"], setup.table()["why"]) == ("ok", None)
    assert "Stopped or failed" not in setup.page()


def test_a_stopped_topic_partition_of_a_table_is_named(setup: Setup) -> None:
    stopped = {TopicPartition("clicks", 0): "two manifests overlap"}
    setup.telemetry.table_committed(replace(COMMITTED, stopped=stopped))
    table = setup.table()
    assert table["state"] == "stopped", "as 'secor tables status' calls it"
    assert table["stopped_partitions"] == {"clicks/0": "two manifests overlap"}
    assert "clicks/0 goes no further here:</span> two manifests overlap." in setup.page()


def test_what_is_staged_is_shown_for_the_group_and_for_each_table(setup: Setup) -> None:
    setup.telemetry.table_committed(COMMITTED)
    lacks = Backlog(1, 2, 2048, 940.0, rows=50)
    setup.telemetry.staged(Backlog(3, 7, 4096, 900.0, rows=90, by_table={"db.t": lacks}))
    staged = {"batches": 3, "files": 7, "rows": 90, "bytes": 4096, "oldest_age": 100.0}
    assert setup.picture()["coordination"]["staged"] == staged
    assert setup.table()["staged"]["rows"] == 50
    parts = re.findall(r'<span class="part">([^<]*)</span>', setup.page())
    assert parts[:4] == ["7 files", "90 rows", "4 KiB", "100 s old"]
    assert parts[-4:] == ["2 files", "50 rows", "2 KiB", "60 s old"]
    setup.telemetry.staged(Backlog(0, 0, 0, None))
    assert setup.table()["staged"]["files"] == 0
    assert "nothing" in setup.page()


def test_a_failed_cycle_is_told_until_one_goes_through(setup: Setup) -> None:
    setup.telemetry.cycle_failed(Unavailable("the store is out"))
    setup.clock.advance(3.0)
    cycles = setup.picture()["coordination"]["cycles"]
    assert (cycles["failed"], cycles["error"]["age"]) == (1, 3.0)
    assert "3 s ago: the store is out." in setup.page()
    setup.telemetry.cycle_ended(1.0, 0)
    assert setup.picture()["coordination"]["cycles"]["error"] is None
    assert "the store is out" not in setup.page()


def test_a_worker_shows_who_coordinates_and_what_it_heard(setup: Setup) -> None:
    setup.tables.watch(Cycle(State.STANDBY))
    setup.tables.hear(ControlEvent(EventKind.START_COMMIT, "g", "cycle-7", 900, OTHER))
    setup.tables.hear(COMMIT_TO_TABLE)
    setup.tables.hear(ControlEvent(EventKind.DATA_COMPLETE, "g", "cycle-7", 900, "a worker"))
    setup.clock.advance(4.0)
    coordination, table = setup.picture()["coordination"], setup.table()
    assert (coordination["coordinator"], coordination["here"]) == (OTHER, False)
    assert (coordination["epoch"], coordination["heard_age"]) == (900, 4.0)
    assert coordination["state"] == "standby"
    assert (table["state"], table["staged"]) == ("ok", None)
    assert table["last_commit"]["id"] == "cycle-7"
    assert (table["last_commit"]["rows"], table["valid_through_age"]) == (None, 34.0)
    shown = setup.page()
    assert OTHER in shown
    assert "<dt>it was heard</dt><dd>4 s ago</dd>" in shown


def test_its_own_events_and_those_of_others_do_not_change_who_leads(setup: Setup) -> None:
    setup.telemetry.leading(True, 995)
    setup.telemetry.table_committed(COMMITTED)
    setup.tables.hear(replace(COMMIT_TO_TABLE, sender=HERE))
    assert setup.table()["last_commit"]["id"] == "c" * 32 + "-0"
    setup.tables.hear(COMMIT_TO_TABLE)
    assert setup.table()["last_commit"]["id"] == "cycle-7", "a person's 'secor tables commit'"
    assert setup.picture()["coordination"]["here"]


def test_who_ceases_to_coordinate_no_longer_knows_how_the_tables_are(setup: Setup) -> None:
    setup.telemetry.leading(True, 995)
    setup.telemetry.table_committed(COMMITTED)
    setup.telemetry.table_committed(
        TableResult("db.t", Result.STOPPED, error=TableStopped("db.t: is gone", "gone"))
    )
    setup.telemetry.staged(Backlog(1, 2, 900, 940.0))
    setup.telemetry.leading(False, 995)
    coordination, table = setup.picture()["coordination"], setup.table()
    assert (coordination["coordinator"], coordination["staged"]) == (None, None)
    assert (table["state"], table["why"], table["staged"]) == ("unknown", None, None)
    assert table["last_commit"]["rows"] == 30
    setup.tables.hear(COMMIT_TO_TABLE)
    assert setup.picture()["coordination"]["coordinator"] == OTHER
    assert setup.table()["state"] == "ok"


def test_whatever_others_have_written_is_escaped(setup: Setup) -> None:
    setup.tables.hear(
        replace(COMMIT_TO_TABLE, table=HOSTILE, commit=HOSTILE, sender=HOSTILE, valid_through=None)
    )
    where = TopicPartition(HOSTILE, 0)
    setup.telemetry.table_committed(
        TableResult(f"a{HOSTILE}", Result.STOPPED, error=TableStopped(HOSTILE, "gone"))
    )
    setup.telemetry.table_committed(
        TableResult(f"b{HOSTILE}", Result.NOTHING, stopped={where: HOSTILE})
    )
    setup.telemetry.cycle_failed(Unavailable(HOSTILE))
    shown = setup.page()
    assert Elements(shown).tags.count("script") == 1  # our own
    assert shown.count("<script") == 1  # our own
    assert set(Elements(shown).addresses) == {"data:,", "/status.json", "/metrics"}


def test_a_timestamp_that_no_calendar_has_is_shown_all_the_same(setup: Setup) -> None:
    microseconds = 1_790_000_000_000_000
    setup.telemetry.table_committed(replace(COMMITTED, valid_through=microseconds))
    table = setup.table()
    assert table["valid_through"] == "1790000000000 seconds since 1970"
    assert table["valid_through_age"] == 0.0
    assert "1790000000000 seconds since 1970" in setup.page()


def test_tables_beyond_a_limit_make_the_oldest_go(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_board, "MOST_TABLES", 2)
    for number in range(3):
        setup.clock.advance(1.0)
        setup.tables.hear(replace(COMMIT_TO_TABLE, table=f"db.forged_{number}"))
    assert [it["table"] for it in setup.picture()["tables"]] == ["db.forged_1", "db.forged_2"]


def test_a_process_that_only_coordinates_has_a_page_of_its_tables(setup: Setup) -> None:
    health = Health(setup.clock, limit=30.0)
    pages = pages_of_tables(f"g{HOSTILE}", setup.tables, health, setup.clock)
    setup.telemetry.leading(True, 995)
    setup.telemetry.table_committed(COMMITTED)
    shown = pages["/"]().body.decode()
    assert set(Elements(shown).addresses) == {"data:,", "/status.json", "/metrics"}
    assert Elements(shown).tags.count("script") == 1  # our own
    assert "db.t" in shown
    assert ">stuck<" not in shown
    told = json.loads(pages["/status.json"]().body)
    assert (told["group"], told["instance"]) == (f"g{HOSTILE}", HERE)
    assert told["coordination"]["here"]
    assert [table["table"] for table in told["tables"]] == ["db.t"]
    setup.clock.advance(31.0)
    assert ">stuck<" in pages["/"]().body.decode()


def test_a_worker_hears_of_the_commits_that_a_coordinator_makes(setup: Setup) -> None:
    world = TableWorld()
    world.server.make(EVENTS)
    world.stage(world.manifest(0, 5, timestamp=1000))
    leader = TableBoard(world.clock, "coordinator-1")
    telemetry = TableTelemetry(Metrics(), world.clock, leader)
    coordinator = world.coordinator(observer=telemetry)
    leader.watch(coordinator)
    coordinator.step()
    for event in world.channel.sent:
        setup.tables.hear(event)
    known, heard = leader.known(), setup.tables.known()
    assert (known.leads, known.state) == (True, State.IDLE)
    assert (heard.coordinator, heard.epoch) == ("coordinator-1", known.epoch)
    (own,) = known.tables
    of_worker = next(table for table in heard.tables if table.table == EVENTS)
    assert own.state == of_worker.state == "ok"
    assert own.valid_through == of_worker.valid_through == 1000
    assert own.commit is not None
    assert of_worker.commit is not None
    assert own.commit.id.startswith(of_worker.commit.id), "as docs/status.md says"
    assert (own.commit.rows, known.cycles.complete) == (5, 1)
