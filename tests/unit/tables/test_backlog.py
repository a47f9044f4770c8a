import pytest

from secor.core.errors import TableStopped
from secor.tables.commit.backlog import backlog, backlog_by_table
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.observer import Backlog
from tests.unit.tables.world import CLICKS, EVENTS, OTHER, TableWorld

SECOND = "db.other"


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make(SECOND)
    return made


def test_files_and_rows_of_one_table_or_of_all_are_summed_up(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5, [EVENTS, SECOND]))
    at = world.clock.now()
    world.clock.advance(10)
    world.stage(world.manifest(5, 9))
    staged = world.staged()
    assert backlog(staged) == Backlog(2, 3, 1400, at, rows=14)
    assert backlog_by_table(staged, {}) == {
        EVENTS: Backlog(2, 2, 900, at, rows=9),
        SECOND: Backlog(1, 1, 500, at, rows=5),
    }
    assert backlog([]) == Backlog(0, 0, 0, None)


def test_a_table_lacks_what_it_has_neither_had_nor_committed(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5, [EVENTS, SECOND]))
    key = world.stage(world.manifest(5, 9, [EVENTS]))
    world.stage(world.manifest(0, 2, [EVENTS], topic_partition=OTHER))
    staged = world.staged()
    stopped = TableStopped("it is gone", "gone")
    results = {
        EVENTS: TableResult(
            EVENTS, Result.COMMITTED, done=frozenset({key}), stopped={CLICKS: "an overlap"}
        ),
        SECOND: TableResult(SECOND, Result.STOPPED, error=stopped),
    }
    lacking = backlog_by_table(staged, results)
    assert {table: (it.manifests, it.rows) for table, it in lacking.items()} == {
        EVENTS: (1, 5),
        SECOND: (1, 5),
    }
    assert set(backlog_by_table(staged, {})) == {EVENTS, SECOND}
    everything = {table: TableResult(table, Result.NOTHING) for table in (EVENTS, SECOND)}
    assert backlog_by_table(staged, everything) == {}


def test_the_coordinator_tells_what_each_table_lacks(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5, [EVENTS, SECOND]))
    del world.server.tables[SECOND]
    world.coordinator().step()
    (told,) = world.observer.backlogs
    assert set(told.by_table) == {SECOND}
    assert told.by_table[SECOND].rows == 5
