"""Commits to Hudi tables: whoever dies, sleeps or comes between, each batch is there once."""

from __future__ import annotations

from contextlib import suppress

import pytest

from secor.adapters.hudi.fence import require_unmoved
from secor.adapters.hudi.leftovers import delete_leftovers
from secor.core.errors import ConfigurationError, CorruptFile, Refused, TableStopped, Unavailable
from secor.core.small_objects import put_bytes
from secor.tables.catalog import TableCommit
from secor.tables.table_commit import Result
from tests.fakes.hudi import STEPS, FakeHudi, reader_of
from tests.unit.tables.hudi_world import LOCATION, TABLE, HudiWorld


class Crash(BaseException):
    """The process is gone."""


class Once:
    """Does something when a write first reaches a step."""

    def __init__(self, step: str, act: object) -> None:
        self.step, self.act, self.done = step, act, False

    def __call__(self, step: str) -> None:
        if step == self.step and not self.done:
            self.done = True
            if callable(self.act):
                self.act()
            elif isinstance(self.act, BaseException):
                raise self.act


@pytest.fixture
def world() -> HudiWorld:
    return HudiWorld()


def test_a_cycle_without_anything_new_commits_nothing(world: HudiWorld) -> None:
    first = world.stage()
    assert world.commit().result is Result.COMMITTED
    assert world.commit().result is Result.NOTHING
    assert world.hudi.rows() == [first]
    assert world.next_offset() == 10


@pytest.mark.parametrize("step", STEPS)
def test_one_that_is_killed_at_any_step_is_followed_by_another(world: HudiWorld, step: str) -> None:
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    with pytest.raises(Crash):
        world.commit(Once(step, Crash()))
    paths.append(world.stage())
    assert world.commit().result is Result.COMMITTED
    assert world.hudi.rows() == paths
    assert world.next_offset() == 30


@pytest.mark.parametrize("cycles", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_one_that_sleeps_at_any_step_while_another_commits(
    world: HudiWorld, step: str, cycles: int
) -> None:
    """It wakes after its successor's commits, and adds nothing to what they have."""
    paths = [world.stage()]

    def others() -> None:
        for _ in range(cycles):
            paths.append(world.stage())
            world.commit()

    result = world.commit(Once(step, others))
    assert result.error is None or isinstance(result.error, Unavailable)
    assert world.commit().error is None  # its next cycle
    assert world.hudi.rows() == paths
    assert world.next_offset() == world.offset
    assert world.hudi.leftovers(LOCATION) == []


def test_files_that_were_put_after_the_rollback_of_one_that_then_died_are_deleted(
    world: HudiWorld,
) -> None:
    """Else readers would take them for those of an archived commit."""
    world.stage()

    def other_completes() -> None:
        world.commit()
        put_bytes(world.hudi.store, f"{LOCATION}/day=1/b_0-1-2_{late}.parquet", b"late")
        put_bytes(world.hudi.store, f"{LOCATION}/day=1/.b_{late}.log.1_0-1-2", b"late")
        raise Crash

    late = "20261122000000001"
    with pytest.raises(Crash):
        world.commit(Once("checked", other_completes))
    assert len(world.hudi.leftovers(LOCATION)) == 2
    goes_on = world.hudi.begin(LOCATION)
    put_bytes(world.hudi.store, f"{LOCATION}/c_0-1-2_{goes_on}.parquet", b"of another")
    assert delete_leftovers(reader_of(world.hudi), LOCATION) == [
        f"{LOCATION}/day=1/.b_{late}.log.1_0-1-2",
        f"{LOCATION}/day=1/b_0-1-2_{late}.parquet",
    ]
    assert world.hudi.leftovers(LOCATION) == []  # and what goes on is left alone


@pytest.mark.parametrize("kept", [True, False])
def test_files_of_archived_commits_stay(world: HudiWorld, kept: bool) -> None:
    for _ in range(3):
        world.stage()
        world.commit()
    files = world.hudi.files(LOCATION)
    world.hudi.archive(LOCATION, 1)
    put_bytes(world.hudi.store, f"{LOCATION}/.hoodie/timeline/history/manifest_1", b"")
    if kept:  # then others between it and the newest may have been archived
        at = "20261122000000001"
        put_bytes(world.hudi.store, f"{LOCATION}/.hoodie/timeline/{at}_{at}.savepoint", b"")
    assert delete_leftovers(reader_of(world.hudi), LOCATION) == []
    assert world.hudi.files(LOCATION) == files


@pytest.mark.parametrize("step", STEPS)
def test_two_that_are_killed_one_after_the_other(world: HudiWorld, step: str) -> None:
    path = world.stage()
    for _ in range(2):
        with suppress(Crash):  # after the last step nothing is left to do
            world.commit(Once(step, Crash()))
    world.commit()
    assert world.hudi.rows() == [path]


@pytest.mark.parametrize("step", ["begins", "checked", "completed"])
def test_what_others_commit_in_between_changes_nothing(world: HudiWorld, step: str) -> None:
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    world.hudi.commit_of_others(LOCATION)
    result = world.commit(Once(step, lambda: world.hudi.commit_of_others(LOCATION)))
    assert result.error is None or isinstance(result.error, Unavailable)
    world.commit()
    world.hudi.commit_of_others(LOCATION)
    assert world.commit().result is Result.NOTHING
    assert world.hudi.rows() == paths


def test_a_commit_whose_answer_was_lost_is_found_on_the_timeline(world: HudiWorld) -> None:
    path = world.stage()
    assert world.commit(Once("completed", Unavailable("no answer"))).result is Result.COMMITTED
    assert world.hudi.rows() == [path]
    world.stage()
    result = world.commit(Once("written", Unavailable("Spark died")))
    assert (result.result, str(result.error)) == (Result.FAILED, "Spark died")


def test_a_table_that_was_restored_is_stopped_until_a_person_has_decided(world: HudiWorld) -> None:
    paths = [world.stage() for _ in range(1)]
    world.commit()
    for _ in range(2):
        paths.append(world.stage())
        world.commit()
    world.hudi.restore(LOCATION, 2)
    world.hudi.commit_of_others(LOCATION)
    stopped = world.commit()
    assert isinstance(stopped.error, TableStopped)
    assert stopped.error.reason == "rolled_back"
    replayed = world.settling().replay(TABLE, world.request(), dry_run=False)
    assert len(replayed.changes) == 2
    assert world.hudi.rows() == paths
    assert world.commit().result is Result.NOTHING

    world.hudi.restore(LOCATION, 1)
    assert isinstance(world.commit().error, TableStopped)
    world.settling().accept(TABLE, world.staged(), world.request(), dry_run=False)
    assert world.commit().result is Result.NOTHING
    assert world.hudi.rows() == paths[:1]
    assert world.next_offset() == 30


def test_commits_that_were_archived_are_still_known(world: HudiWorld) -> None:
    path = world.stage()
    world.commit()
    for _ in range(3):
        world.hudi.commit_of_others(LOCATION)
    world.hudi.archive(LOCATION, keep=2)
    assert world.commit().result is Result.NOTHING
    second = world.stage()
    assert world.commit().result is Result.COMMITTED
    assert world.hudi.rows() == [path, second]


def test_a_commit_that_nobody_noted_is_noted_by_the_next(world: HudiWorld) -> None:
    world.stage()
    with pytest.raises(Crash):
        world.commit(Once("completed", Crash()))
    world.stage()
    world.commit()
    world.hudi.restore(LOCATION, 1)
    assert isinstance(world.commit().error, TableStopped)


def test_a_table_that_was_dropped_is_stopped(world: HudiWorld) -> None:
    world.stage()
    world.commit()
    world.hudi.store.objects.clear()
    stopped = world.commit()
    assert isinstance(stopped.error, TableStopped)
    assert stopped.error.reason == "gone"


def test_groups_have_vectors_of_their_own(world: HudiWorld) -> None:
    world.stage()
    world.commit()
    other = world.catalog(group="another").load_table(TABLE)
    assert not [name for name in other.properties if name.startswith("secor.")]


def test_without_spark_nothing_is_committed(world: HudiWorld) -> None:
    catalog = world.catalog(engine=False)
    table = catalog.load_table(TABLE)
    with pytest.raises(ConfigurationError, match="secor tables run"):
        catalog.commit(table, TableCommit(None, ()))
    with pytest.raises(ConfigurationError, match="no branches"):
        world.catalog().commit(table, TableCommit(None, (), branch="audit"))


def test_nobody_writes_beside_a_write_that_goes_on(world: HudiWorld) -> None:
    """Hudi does not roll such a write back where writers share the table by a lock."""
    store = world.hudi.store
    world.hudi.create(LOCATION)
    with pytest.raises(Refused, match="0 writes go on"):
        require_unmoved(store, LOCATION, "g", None)
    folder = f"{LOCATION}/.hoodie/timeline"
    put_bytes(store, f"{folder}/20261122000000001.commit.requested", b"")
    put_bytes(store, f"{folder}/20261122000000002.compaction.requested", b"")
    require_unmoved(store, LOCATION, "g", None)
    put_bytes(store, f"{folder}/20261122000000003.deltacommit.inflight", b"")
    with pytest.raises(Refused, match="2 writes go on"):
        require_unmoved(store, LOCATION, "g", None)


def test_the_timeline_of_older_tables_is_read_too() -> None:
    world = HudiWorld(hudi=FakeHudi())
    store = world.hudi.store
    put_bytes(store, f"{LOCATION}/.hoodie/hoodie.properties", b"hoodie.table.version=6\n")
    body = b'{"extraMetadata": {"secor.group": "g", "secor.commit": "c1", "secor.g.vector": "{}"}}'
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000001.deltacommit", body)
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000002.commit", b"{}")
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000003.clean", b"Obj")
    put_bytes(store, f"{LOCATION}/.hoodie/archived/20261122000000009.commit", b"{}")
    assert world.catalog().load_table(TABLE).properties["secor.g.vector"] == "{}"


def test_a_commit_that_cannot_be_read_is_told_with_its_place(world: HudiWorld) -> None:
    world.hudi.create(LOCATION)
    put_bytes(
        world.hudi.store,
        f"{LOCATION}/.hoodie/timeline/20261122000000001_20261122000000002.commit",
        b"Obj\x01",
    )
    with pytest.raises(CorruptFile, match=r"20261122000000002\.commit: no commit of Hudi's"):
        world.catalog().load_table(TABLE)
