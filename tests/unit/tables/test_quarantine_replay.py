"""Messages in quarantine become rows once, whatever interrupts whom."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.archive.objects import Archive
from secor.archive.quarantine.listing import messages, quarantined
from secor.archive.quarantine.replay import ReplayResult
from secor.core.model import Entry, TopicPartition
from secor.tables.catalog import NewTable
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, Result, TableResult
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.repair.quarantine_replay import TableReplay
from secor.tables.staging.staged_manifests import Staging
from tests.fakes.archive import OperatorLedger
from tests.unit.tables.worker_world import WorkerWorld

FLIGHTS = TopicPartition("flights", 0)
MADE = {"auto_create": True, "evolve": True}
NARROW: Sequence[Mapping[str, Any]] = [
    {"table": "db.late", "field": "late", "equals": True, **MADE},
]
WIDE = [*NARROW, {"table": "db.all", "field": "id", "matches": "[0-9]+", **MADE}]
KEEP = 60.0


class Interrupted(BaseException):
    """The process ends here."""


class ReplayWorld(WorkerWorld):
    """A worker, commits, and replays by any number of processes."""

    def start(self) -> None:
        """Take everything up to the first commit."""
        self.ledger = OperatorLedger({})
        self.staging = Staging(self.own, "table", "g")
        self.history = CommitHistory(self.own, "table")
        self.committer = TableCommitter(
            self.catalog, self.history, self.clock, random.Random(1), group="g"
        )
        self.cycles = 0
        self.first = self.config
        tables = WorkerWorld(self.directory / "wide", WIDE).config.tables
        self.wide = self.config.model_copy(update={"tables": tables})
        self.filtered: Counter[str] = Counter()

    def take(self, *given: object) -> None:
        """Stage messages and commit them to the ledger."""
        self.stage(*given)
        self.ledger.entries[FLIGHTS] = Entry(self.offset, topic_id="topic-id")

    def widen(self) -> None:
        """Go on under a configuration that takes more messages."""
        self.config = self.wide
        self.plans = self.new_plans()

    def narrow(self) -> None:
        """Stage under the first configuration again; replays are under the wide one."""
        self.config = self.first
        self.plans = self.new_plans()
        self.config = self.wide

    def commit_table(self, table: str) -> TableResult:
        """Commit what is staged for a table, as a coordinator does."""
        self.cycles += 1
        committed = {FLIGHTS: self.offset}
        request = CommitRequest(f"cycle-{self.cycles}", 1)
        return self.committer.commit(table, self.staging.read(committed), request)

    def clean_up(self) -> None:
        """Finish every replay that is staged, as a coordinator does."""
        for item in self.staging.read({}):
            assert item.listed.replay
            self.committer.finish_replay(item)
            self.staging.delete(item.listed)

    def replay(self, *, dry_run: bool = False) -> list[ReplayResult]:
        """Replay the whole quarantine."""
        archive = Archive(self.own, "table")
        replay = TableReplay(
            archive,
            self.store,
            partial(self.new_plans(), "flights"),
            self.ledger,
            self.workspace,
            self.clock,
            self.filtered,
        )
        return [replay.replay(it, dry_run=dry_run) for it in quarantined(archive, "flights")]

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def left(self) -> list[bytes]:
        """Return the messages in quarantine."""
        archive = Archive(self.own, "table")
        found: list[bytes] = []
        for it in quarantined(archive, "flights"):
            for records, _ in messages(archive, it):
                found += records.column("value").to_pylist()
        return sorted(found)

    def empty_quarantine(self) -> None:
        for stored in list(self.own.list("table/_quarantine/")):
            self.own.delete(stored.key)

    def noted(self, table: str) -> tuple[str, ...]:
        return GroupRecord.of(self.catalog.load_table(table), "g").replays


@pytest.fixture
def world(tmp_path: Path) -> ReplayWorld:
    made = ReplayWorld(tmp_path, NARROW)
    made.start()
    made.take({"id": 1, "late": True}, {"id": 2}, {"id": 3}, b"no json")
    assert made.commit_table("db.late").result is Result.COMMITTED
    return made


def test_rows_come_once_however_often_it_is_said(world: ReplayWorld) -> None:
    [nothing] = world.replay()
    assert nothing.skipped == "every message is still bad"
    world.widen()
    [replayed] = world.replay()
    assert (replayed.placed, replayed.bad) == (2, 1)
    assert world.left() == [b"no json"]
    assert [it.skipped for it in world.replay()] == ["every message is still bad"]
    for _ in range(2):
        world.commit_table("db.all")
        assert world.ids("db.all") == [2, 3]
    assert len(world.noted("db.all")) == 1
    world.clean_up()
    assert world.commit_table("db.all").result is Result.NOTHING
    world.take({"id": 4})
    world.commit_table("db.all")
    assert world.ids("db.all") == [2, 3, 4]
    assert world.noted("db.all") == ()  # what is finished is forgotten
    assert world.ids("db.late") == [1]


def test_a_replay_keeps_the_entries_of_maps_that_are_null(world: ReplayWorld) -> None:
    fields = [pa.field("id", pa.int64()), pa.field("flags", pa.map_(pa.string(), pa.string()))]
    world.catalog.create_table("db.all", NewTable(pa.schema(fields)))
    message = {"id": 4, "flags": {"a": None, "b": "x"}}
    world.take(message)
    world.widen()
    world.replay()
    world.take(message)
    world.commit_table("db.all")
    replayed, daemon = (dict(row["flags"]) for row in world.rows("db.all") if row["id"] == 4)
    assert replayed == daemon == {"a": None, "b": "x"}


def test_nothing_is_done_in_a_dry_run(world: ReplayWorld) -> None:
    world.widen()
    before = set(world.own.objects)
    [told] = world.replay(dry_run=True)
    assert told.skipped is not None  # the table is not made for that
    assert world.catalog.list_tables("db") == ["db.late"]
    world.take({"id": 4})
    [told, *_] = world.replay(dry_run=True)
    assert (told.placed, told.bad) == (2, 1)
    assert before <= set(world.own.objects)
    assert not any(".replay-" in key for key in world.own.objects)


def test_what_is_not_committed_yet_is_left_alone(world: ReplayWorld) -> None:
    world.widen()
    world.ledger.entries[FLIGHTS] = Entry(2, topic_id="topic-id")
    [told] = world.replay()
    assert told.skipped is not None
    assert "is not committed yet" in told.skipped


def test_one_that_slept_since_it_had_parsed_adds_nothing(world: ReplayWorld) -> None:
    """Its manifest comes after another's was committed everywhere, and is deleted."""
    world.widen()
    world.take({"id": 4})  # the table is there before both of them parse
    before: Callable[[str, str], None] = world.own.before

    def sleep(call: str, key: str) -> None:
        if call == "put" and ".replay-" in key:
            world.own.before = before
            world.replay()
            world.commit_table("db.all")
            world.clean_up()
            world.take({"id": 5})
            world.commit_table("db.all")
            assert world.noted("db.all") == ()

    world.own.before = sleep
    world.replay()
    world.take({"id": 6})
    world.commit_table("db.all")
    assert world.ids("db.all") == [2, 3, 4, 5, 6]
    world.replay()
    assert world.left() == [b"no json"]


def test_of_two_configurations_one_wins_and_says_what_stays_in_quarantine(
    tmp_path: Path,
) -> None:
    """The other one has parsed, and finds fewer messages good; it wakes when all is done."""
    world = ReplayWorld(tmp_path, NARROW)
    world.start()
    world.take({"id": 2}, {"id": 3})
    only_two = [{"table": "db.all", "field": "id", "equals": 2, **MADE}]
    tables = WorkerWorld(tmp_path / "two", only_two).config.tables
    world.config = world.config.model_copy(update={"tables": tables})
    before: Callable[[str, str], None] = world.own.before

    def sleep(call: str, key: str) -> None:
        if call == "put" and ".replay-" in key:
            world.own.before = before
            world.config = world.wide
            assert [it.bad for it in world.replay()] == [0]

    world.own.before = sleep
    world.replay()
    world.commit_table("db.all")
    assert world.ids("db.all") == [2, 3]
    assert world.left() == []


class Points:
    """Ends the process at one side of one call of the store."""

    def __init__(self, last: int) -> None:
        self.number = 0
        self.last = last

    def __call__(self, call: str, key: str) -> None:
        self.number += 1
        if self.number == self.last:
            raise Interrupted


def test_every_call_may_be_the_last(world: ReplayWorld) -> None:
    """Killed before or after any call of the store, then said again; also with commits between."""
    world.widen()
    world.take({"id": 4})
    world.commit_table("db.all")
    world.replay()
    world.commit_table("db.all")
    world.empty_quarantine()
    wanted = [2, 3, 4]
    interrupted, last = 1, 0
    while interrupted:
        last, interrupted = last + 1, 0
        number = 10 * last
        world.narrow()
        world.take({"id": number}, {"id": number + 1}, b"bad %d" % last)
        for phase in ("before", "after"):
            setattr(world.own, phase, Points(last))
            try:
                world.replay()
            except Interrupted:
                interrupted += 1
            setattr(world.own, phase, lambda call, key: None)
            if last % 2:
                world.commit_table("db.all")
            if last % 3 == 0 and interrupted == 2:
                world.commit_table("db.all")
                world.clean_up()
        world.replay()
        world.commit_table("db.all")
        wanted += [number, number + 1]
        assert world.ids("db.all") == wanted
        assert world.left() == [b"bad %d" % last]
        world.empty_quarantine()
    assert last > 10


def test_messages_that_change_rows_by_key_are_not_replayed(world: ReplayWorld) -> None:
    """An older message would undo what newer ones did."""
    changing = {"table": "db.all", "mode": "upsert", "key": ["id"], **MADE}
    alone = {"commit": {"coordinator": "alone"}}
    tables = WorkerWorld(world.directory / "changing", [*NARROW, changing], alone).config.tables
    world.wide = world.config.model_copy(update={"tables": tables})
    world.widen()
    [left] = world.replay()
    assert left.skipped is not None
    assert "change rows by their key" in left.skipped
    assert len(world.left()) == 3
