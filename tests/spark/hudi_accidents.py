"""What happens to Hudi tables beside the writes of one committer; run with Spark 3.5 by a test.

Each scene goes on with the table that the ones before it have left.
"""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from secor.adapters.hudi.timeline import Timeline, TimelineReader
from secor.core.errors import TableStopped, Unavailable
from secor.core.small_objects import put_bytes
from secor.spark.hudi_engine import SparkHudiEngine
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import CommitRequest, Result
from secor.tables.commit.merging import MergeResult
from secor.tables.hudi import BACKUPS, Guard, HudiWrite, write_options
from secor.tables.repair.settle import StateAcceptance
from secor.wiring.hudi import hudi_settings_of

if TYPE_CHECKING:
    from tests.spark.write_hudi_on_spark_35 import World

TOMBSTONES = [4, 5, 1011, 1012]
"""Offsets of the messages without a value."""

NEWEST, LATEST, LOG = "db.newest", "db.latest", "db.log"
ARCHIVED_SOON = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


class Crash(BaseException):
    """The committer is gone."""


class UnluckyEngine(SparkHudiEngine):
    """Writes, and then fails once with ``after``."""

    after: BaseException | None = None

    def write(self, write: HudiWrite) -> MergeResult:
        """Write; the answer may be lost."""
        merged = super().write(write)
        failure, self.after = self.after, None
        if failure is not None:
            raise failure
        return merged


def kill_task_once(mark: Path, guard: Guard) -> Guard:
    """Return a guard whose process is killed the first time, while Hudi reads the rows."""

    def check(location: str, group: str, expected: str | None, taken_back: frozenset[str]) -> None:
        guard(location, group, expected, taken_back)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return check


def happen(world: World) -> None:
    """Let everything happen; every scene asserts what readers see."""
    for scene in SCENES:
        began = time.monotonic()
        scene(world)
        print(f"{scene.__name__}: {time.monotonic() - began:.1f} s", flush=True)


def written_and_not_answered(world: World) -> None:
    """Completed, but Spark's answer is lost; and completed by one that then dies."""
    engine = world.new_engine()
    world.stage({"id": 10, "at": 1, "text": "a"})
    engine.after = Unavailable("the answer was lost")
    assert results(world, LOG, engine=engine) == [Result.COMMITTED]
    world.stage({"id": 10, "at": 2, "text": "b"})
    engine.after = Crash()
    try:
        world.commit_cycle(NEWEST, engine=engine)
        raise AssertionError("it was to die")
    except Crash:
        pass
    assert results(world, NEWEST, LOG) == [Result.NOTHING, Result.COMMITTED]
    assert row(world, 10) == "b"
    assert_logged_once(world)


def killed_while_spark_writes(world: World) -> None:
    """The instant stands, the rows do not; the next one rolls it back."""
    mark = world.directory / "killed"
    engine = world.new_engine(guard=kill_task_once(mark, world.guard))
    world.stage({"id": 11, "at": 1, "text": "c"})
    assert results(world, LOG, engine=engine) == [Result.FAILED]
    assert mark.exists()
    assert results(world, LOG) == [Result.COMMITTED]
    assert_logged_once(world)
    assert not timeline_of(world, LOG).writing


def rolled_back_as_it_completes(world: World) -> None:
    """Another one planned its rollback, and died: who writes next carries it out.

    The second time a younger commit is on top, and Hudi refuses that without a heartbeat.
    """
    location = world.hudi().load_table(LOG).location
    for younger in range(2):
        for number in range(younger + 1):
            world.stage({"id": 14 + number, "at": 1, "text": "g"})
            assert results(world, LOG, NEWEST) == [Result.COMMITTED] * 2
        assert list(world.store.list(f"{location}/.hoodie/{BACKUPS}/")), "nothing was copied"
        undone = timeline_of(world, LOG).commits[younger].requested
        plan_rollback(world, location, undone)
        assert results(world, LOG) == [Result.COMMITTED]  # all of it again
        assert undone not in {it.requested for it in timeline_of(world, LOG).commits}
        assert results(world, LOG) == [Result.NOTHING]
        assert_logged_once(world)


def plan_rollback(world: World, location: str, instant: str) -> None:
    """Put a plan that is older than the completion of the instant that it names."""
    with world.store.open(timeline_of(world, LOG).rollbacks[0].key) as file:
        plans = fastavro.reader(file)
        schema: Any = plans.writer_schema
        plan: Any = next(plans)
    plan["instantToRollback"]["commitTime"] = instant
    body = io.BytesIO()
    fastavro.writer(body, schema, [plan])
    planned = f"{location}/.hoodie/timeline/{int(instant) + 1}.rollback.requested"
    put_bytes(world.store, planned, body.getvalue())


def unfinished_below_a_completed_one(world: World) -> None:
    """Hudi refuses to roll such a write back, and so to begin a new one, without a heartbeat."""
    location = world.hudi().load_table(LOG).location
    before = min(it.requested for it in timeline_of(world, LOG).commits)
    for state in ("commit.requested", "inflight"):
        put_bytes(world.store, f"{location}/.hoodie/timeline/{int(before) - 1}.{state}", b"")
    world.stage({"id": 15, "at": 1, "text": "h"})
    assert results(world, LOG, NEWEST) == [Result.COMMITTED] * 2
    assert not timeline_of(world, LOG).writing
    assert_logged_once(world)


def two_at_once(world: World) -> None:
    """Both write the same rows at the same time: one completes, at most."""
    world.stage(*({"id": number, "at": 1, "text": "d"} for number in range(20, 40)))
    engines = [world.new_engine(), world.new_engine()]
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda it: results(world, LOG, engine=it), engines))
    assert both.count([Result.COMMITTED]) <= 1, both
    world.commit_cycle(LOG, NEWEST)
    assert_logged_once(world)
    assert row(world, 39) == "d"


def archived(world: World) -> None:
    """Others commit until the group's commits are no longer on the timeline."""
    settings = hudi_settings_of(world.config, NEWEST)
    options = {**write_options(settings, NEWEST, ["id"], []), **ARCHIVED_SOON}
    location = world.hudi().load_table(NEWEST).location
    rows = world.spark.sql(
        "SELECT 99L AS id, 1L AS at, 'of another' AS text, CAST(NULL AS LONG) AS new,"
        " false AS _hoodie_is_deleted"
    )
    for _ in range(6):
        if not of_group(world, timeline_of(world, NEWEST)):
            break
        rows.write.format("hudi").options(**options).mode("append").save(location)
    assert not of_group(world, timeline_of(world, NEWEST)), "nothing was archived"
    assert results(world, NEWEST) == [Result.NOTHING]  # all that is staged is known to be there
    world.stage({"id": 12, "at": 1, "text": "e"})
    assert results(world, NEWEST) == [Result.COMMITTED]
    assert (row(world, 12), row(world, 99)) == ("e", "of another")


def restored(world: World) -> None:
    """A savepoint is restored: the table stops, and its rows can be committed again."""
    location = world.hudi().load_table(NEWEST).location
    [newest, *_] = of_group(world, timeline_of(world, NEWEST))
    world.spark.sql(f"CALL create_savepoint(path => '{location}', commit_time => '{newest}')")
    world.stage({"id": 12, "at": 2, "text": "f"})
    assert results(world, NEWEST) == [Result.COMMITTED]
    world.spark.sql(f"CALL rollback_to_savepoint(path => '{location}', instant_time => '{newest}')")
    assert row(world, 12) == "e"
    [stopped] = world.commit_cycle(NEWEST)
    assert isinstance(stopped.error, TableStopped), stopped
    assert stopped.error.reason == "rolled_back"
    history = CommitHistory(world.own, "table")
    settling = StateAcceptance(world.committer(), history, "main")
    settling.replay(NEWEST, CommitRequest("replayed", 2), dry_run=False)
    assert row(world, 12) == "f"
    assert results(world, NEWEST) == [Result.NOTHING]


def compacted(world: World) -> None:
    """Inline compactions of merge-on-read tables are the newest commits, and have no vector."""
    for number in range(2):
        world.stage({"id": 13, "at": number, "text": str(number)})
        assert results(world, LATEST) == [Result.COMMITTED]
    actions = [it.action for it in timeline_of(world, LATEST).completed]
    assert "commit" in actions, actions  # what a compaction becomes when it is completed
    assert dict(world.read(LATEST, "id", "text"))[13] == "1"
    assert results(world, LATEST) == [Result.NOTHING]


SCENES = (
    written_and_not_answered,
    killed_while_spark_writes,
    rolled_back_as_it_completes,
    unfinished_below_a_completed_one,
    two_at_once,
    archived,
    restored,
    compacted,
)


def results(world: World, *names: str, engine: SparkHudiEngine | None = None) -> list[Result]:
    """Run a cycle."""
    return [it.result for it in world.commit_cycle(*names, engine=engine)]


def row(world: World, number: int) -> str | None:
    """Return the text of a row."""
    texts: dict[int, str] = dict(world.read(NEWEST, "id", "text"))
    return texts.get(number)


def assert_logged_once(world: World) -> None:
    """Each message with a value is one row of the table whose rows are inserted."""
    offsets = [it for (it,) in world.read(LOG, "_offset")]
    assert len(offsets) == len(set(offsets)), "twice"
    assert sorted(set(range(world.offset)).difference(offsets)) == TOMBSTONES, "lost"


def timeline_of(world: World, name: str) -> Timeline:
    """Read a timeline as another process would."""
    timeline = TimelineReader(world.store).read(world.hudi().load_table(name).location)
    assert timeline is not None
    return timeline


def of_group(world: World, timeline: Timeline) -> Sequence[str]:
    """Return when the group's commits were requested, the newest first."""
    reader = TimelineReader(world.store)
    return [it.requested for it in timeline.commits if "secor.group" in reader.added(it)]
