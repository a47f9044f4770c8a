"""Commits to Hudi tables: whoever dies, sleeps or comes between, each batch is there once."""

from __future__ import annotations

import io
from contextlib import suppress

import fastavro
import pytest
from greenlet import getcurrent, greenlet

from secor.adapters.hudi.fence import require_unmoved
from secor.adapters.hudi.notes import delete_leftovers
from secor.adapters.hudi.timeline import extra_metadata, instants_of_rollback
from secor.core.errors import ConfigurationError, CorruptFile, Refused, TableStopped, Unavailable
from secor.core.small_objects import put_bytes
from secor.tables.catalog import TableCommit
from secor.tables.commit.commit_result import Result, TableResult
from secor.tables.hudi import BACKUPS
from tests.fakes.hudi import (
    MAKES,
    PLAN,
    PLANNED,
    ROLLBACK_STEPS,
    STEPS,
    FakeHudi,
    avro,
    reader_of,
)
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


def test_one_that_is_killed_while_it_makes_the_table_is_followed_by_another(
    world: HudiWorld,
) -> None:
    path = world.stage()
    with pytest.raises(Crash):
        world.commit(Once(MAKES, Crash()))
    assert world.hudi.store.objects
    assert world.commit().result is Result.COMMITTED
    assert world.hudi.rows() == [path]


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


def complete_late(
    world: HudiWorld, step: str, *, dies: str = "", slow_dies: str = ""
) -> list[TableResult]:
    """Let a slow writer complete while another one, at ``step``, rolls it back; return the results
    of those that do not die, each at a later step.
    """
    results: list[TableResult] = []
    test = getcurrent()

    def slow_at(step: str) -> None:
        if step == "written":
            test.switch()
        if step == slow_dies:
            raise Crash

    def commit_slowly() -> None:
        with suppress(Crash):
            results.append(world.commit(slow_at))

    slow = greenlet(commit_slowly)
    slow.switch()
    completes = Once(step, slow.switch)

    def at(step: str) -> None:
        completes(step)
        if completes.done and step == dies:
            raise Crash

    with suppress(Crash):
        results.append(world.commit(at))
    return results


ENDS = [(step, dies) for step in ROLLBACK_STEPS for dies in ("", *ROLLBACK_STEPS, "requested")]
PLANNED_TOO_LATE = ("rolls back", "planned")
"""Nobody can tell this from a person who plans to roll a commit back, and dies."""


@pytest.mark.parametrize(("step", "dies"), [it for it in ENDS if it != PLANNED_TOO_LATE])
def test_a_commit_that_completes_while_it_is_rolled_back_is_written_again(
    world: HudiWorld, step: str, dies: str
) -> None:
    """Whether it counted already, and wherever who rolls it back dies."""
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    for result in complete_late(world, step, dies=dies):
        assert result.error is None or isinstance(result.error, Unavailable)
    paths.append(world.stage())
    assert [world.commit().error for _ in range(3)] == [None] * 3
    assert world.commit().result is Result.NOTHING
    assert sorted(set(world.hudi.rows())) == paths
    assert world.next_offset() == world.offset
    assert world.hudi.leftovers(LOCATION) == []


def test_a_commit_does_not_count_from_the_moment_in_which_its_rollback_is_planned(
    world: HudiWorld,
) -> None:
    """It would be removed by whoever carries the plan out."""
    world.stage()
    world.commit()
    path = world.stage()
    complete_late(world, "planned", dies="planned", slow_dies="completed")
    assert path in world.hudi.rows()
    assert world.next_offset() == 10
    assert [it.endswith(PLANNED) for it in world.hudi.timeline(LOCATION)].count(True) == 1
    with pytest.raises(Refused, match="commits were taken back"):
        require_unmoved(world.hudi.store, LOCATION, "g", "cycle-0-0")
    taken_back = frozenset(["cycle-1-0"])
    world.hudi.begin(LOCATION)
    require_unmoved(world.hudi.store, LOCATION, "g", "cycle-0-0", taken_back)


def test_writes_go_on_where_a_plan_comes_after_commits_that_are_younger(world: HudiWorld) -> None:
    """Hudi carries it out only where the commit that it names has a heartbeat."""
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    planned: list[str] = []

    def draw_time() -> None:
        planned.extend([str(next(world.hudi.times)), unfinished(world)])

    world.commit(Once("written", draw_time))
    for _ in range(2):
        paths.append(world.stage())
        world.commit()
    put_plan(world, *planned)
    paths.append(world.stage())
    assert [world.commit().error for _ in range(3)] == [None] * 3
    assert world.commit().result is Result.NOTHING
    assert sorted(set(world.hudi.rows())) == paths
    assert world.next_offset() == world.offset
    assert not [it for it in world.hudi.store.objects if "heartbeat" in it]


def test_a_write_finds_what_its_reader_found_where_a_plan_comes_after_younger_commits(
    world: HudiWorld,
) -> None:
    """A plan has its time before it is put, and its rival may have slept in between."""
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    planned: list[str] = []

    def plan() -> None:
        planned.extend([str(next(world.hudi.times)), unfinished(world)])

    world.commit(Once("written", plan))
    paths.append(world.stage())
    world.commit()  # on top of the one that is about to be taken back
    world.hudi.begin(LOCATION)
    put_plan(world, *planned)
    require_unmoved(
        world.hudi.store, LOCATION, "g", "cycle-0-0", frozenset(["cycle-1-0", "cycle-2-0"])
    )


@pytest.mark.parametrize("early", [True, False])
def test_a_commit_does_not_count_whose_base_was_removed_while_it_was_written(
    world: HudiWorld, *, early: bool
) -> None:
    """A rival had seen the base unfinished, slept, and rolls it back after the guard's look."""
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    base: list[str] = []

    def see_unfinished() -> None:
        base.extend([unfinished(world), str(next(world.hudi.times))])

    def remove() -> None:
        instant, drawn = base
        world.hudi._roll_back(LOCATION, instant, drawn if early else "", backs_up=True)

    world.commit(Once("written", see_unfinished))
    paths.append(world.stage())
    world.commit(Once("checked", remove))
    paths.append(world.stage())
    assert [world.commit().error for _ in range(3)] == [None] * 3
    assert world.commit().result is Result.NOTHING
    assert sorted(set(world.hudi.rows())) == paths
    assert world.next_offset() == world.offset


def put_plan(world: HudiWorld, when: str, instant: str) -> None:
    """Put the plan that rolls an instant back."""
    body = avro(PLAN, {"instantToRollback": {"commitTime": instant, "action": "commit"}})
    put_bytes(world.hudi.store, f"{LOCATION}/.hoodie/timeline/{when}.{PLANNED}", body)


def unfinished(world: HudiWorld) -> str:
    """Return the instant that somebody writes."""
    return max(it for it in world.hudi.timeline(LOCATION) if it.endswith(".inflight"))[:17]


@pytest.mark.parametrize("step", ["rolls back", "plans"])
def test_a_commit_that_counted_and_was_removed_is_written_again(
    world: HudiWorld, step: str
) -> None:
    """Who removed it had seen it unfinished: the plan is older, or Hudi has left a copy."""
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    complete_late(world, step, dies="requested")
    assert world.hudi.rows() == paths[:1]
    repeated = world.commit()
    assert (repeated.result, repeated.records, repeated.repeated) == (Result.COMMITTED, 10, 1)
    last = world.commit()
    assert (last.result, last.repeated) == (Result.NOTHING, 0)
    assert world.hudi.rows() == paths


def test_a_rollback_that_a_person_planned_stops_the_table_whoever_carries_it_out(
    world: HudiWorld,
) -> None:
    paths = [world.stage()]
    world.commit()
    paths.append(world.stage())
    world.commit()
    newest = max(it for it in world.hudi.timeline(LOCATION) if it.endswith(".commit"))
    world.hudi.plan_rollback(LOCATION, newest[:17])
    assert world.next_offset() == 20  # until it is carried out
    paths.append(world.stage())
    stopped = world.commit()
    assert isinstance(stopped.error, TableStopped)
    assert stopped.error.reason == "rolled_back"
    world.settling().replay(TABLE, world.request(), dry_run=False)
    world.commit()
    assert world.hudi.rows() == paths


def test_the_first_commit_of_a_group_is_known_to_be_taken_back(world: HudiWorld) -> None:
    """Without the plan it would look as one that is being archived."""
    paths = [world.stage()]
    complete_late(world, "deletes", dies="requested", slow_dies="completed")
    world.hudi.commit_of_others(LOCATION)
    assert world.commit().error is None
    assert world.commit().result is Result.NOTHING
    assert sorted(set(world.hudi.rows())) == paths


def test_commits_on_top_of_one_without_its_instant_do_not_count(world: HudiWorld) -> None:
    """Also where no rollback tells it: these are archived by themselves."""
    paths = []
    for _ in range(3):
        paths.append(world.stage())
        world.commit()
    at = sorted(it for it in world.hudi.timeline(LOCATION) if it.endswith(".commit"))[1][:17]
    for name in (".hoodie/timeline/{}.commit.requested", ".hoodie/timeline/{}.inflight"):
        world.hudi.store.delete(f"{LOCATION}/{name.format(at)}")
    world.hudi.store.delete(f"{LOCATION}/a_0-1-2_{at}.parquet")
    repeated = world.commit()
    assert (repeated.result, repeated.repeated) == (Result.COMMITTED, 2)
    assert world.commit().result is Result.NOTHING
    assert sorted(set(world.hudi.rows())) == paths


def test_a_write_is_refused_whose_own_rollback_is_planned(world: HudiWorld) -> None:
    own = world.hudi.begin(LOCATION)
    require_unmoved(world.hudi.store, LOCATION, "g", None)
    world.hudi.plan_rollback(LOCATION, own)
    with pytest.raises(Refused, match="this write is being rolled back"):
        require_unmoved(world.hudi.store, LOCATION, "g", None)


def test_an_unfinished_write_below_a_completed_one_is_rolled_back(world: HudiWorld) -> None:
    """Hudi refuses that, and nobody could write any more."""
    path = world.stage()
    world.commit()
    folder = f"{LOCATION}/.hoodie/timeline"
    for state in ("commit.requested", "inflight"):
        put_bytes(world.hudi.store, f"{folder}/20261121000000001.{state}", b"")
    second = world.stage()
    assert world.commit().result is Result.COMMITTED
    assert world.hudi.rows() == [path, second]
    assert not [it for it in world.hudi.store.objects if "heartbeat" in it]


def test_plans_that_name_nothing_and_plans_that_cannot_be_read(world: HudiWorld) -> None:
    """Hudi deletes an empty plan; another one is told with its place."""
    path = world.stage()
    world.commit()
    folder = f"{LOCATION}/.hoodie/timeline"
    put_bytes(world.hudi.store, f"{folder}/20261121000000001.{PLANNED}", b"")
    assert world.commit().result is Result.NOTHING
    assert world.hudi.rows() == [path]
    put_bytes(world.hudi.store, f"{folder}/20261121000000002.{PLANNED}", b"Obj\x01")
    result = world.commit()
    assert isinstance(result.error, CorruptFile)
    assert "20261121000000002.rollback.requested: no rollback of Hudi's" in str(result.error)


def test_copies_of_rolled_back_instants_go_with_their_rollbacks(world: HudiWorld) -> None:
    world.stage()
    with pytest.raises(Crash):
        world.commit(Once("written", Crash()))
    world.commit()
    copies = f"{LOCATION}/.hoodie/{BACKUPS}/"
    assert len(list(world.hudi.store.list(copies))) == 2
    folder = f"{LOCATION}/.hoodie/timeline/"
    for name in [it for it in world.hudi.timeline(LOCATION) if "rollback" in it]:
        assert delete_leftovers(reader_of(world.hudi), LOCATION) == []
        assert len(list(world.hudi.store.list(copies))) == 2
        world.hudi.store.delete(folder + name)
    delete_leftovers(reader_of(world.hudi), LOCATION)
    assert list(world.hudi.store.list(copies)) == []


def test_what_is_left_of_commits_while_they_are_archived_counts(world: HudiWorld) -> None:
    """Their other files go before themselves."""
    paths = []
    for _ in range(3):
        paths.append(world.stage())
        world.commit()
    folder = f"{LOCATION}/.hoodie/timeline/"
    archived = [it for it in world.hudi.timeline(LOCATION) if it.endswith(".commit")][:2]
    for name in world.hudi.timeline(LOCATION):
        if name not in archived and name[:17] in {it[:17] for it in archived}:
            world.hudi.store.delete(folder + name)
    assert world.commit().result is Result.NOTHING
    paths.append(world.stage())
    assert world.commit().result is Result.COMMITTED
    assert world.hudi.rows() == paths


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
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000001.deltacommit.requested", b"")
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000001.deltacommit.inflight", b"")
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000002.commit", b"{}")
    put_bytes(store, f"{LOCATION}/.hoodie/20261122000000003.clean", b"Obj")
    put_bytes(store, f"{LOCATION}/.hoodie/archived/20261122000000009.commit", b"{}")
    assert world.catalog().load_table(TABLE).properties["secor.g.vector"] == "{}"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy"])
def test_a_damaged_file_of_the_timeline_is_corrupt_whatever_the_library_raises(codec: str) -> None:
    file = io.BytesIO()
    texts = {"type": "map", "values": "string"}
    fields = [
        {"name": "extraMetadata", "type": texts},
        {"name": "commitsRollback", "type": {"type": "array", "items": "string"}},
    ]
    schema = {"type": "record", "name": "Commit", "fields": fields}
    fastavro.writer(
        file, schema, [{"extraMetadata": {"a": "b" * 50}, "commitsRollback": ["c"]}], codec=codec
    )
    whole = file.getvalue()
    for at in range(4, len(whole)):
        for byte in (0, whole[at] ^ 1, 255):
            damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
            for read in (extra_metadata, instants_of_rollback):
                with suppress(CorruptFile):
                    read(damaged, "the key")


def test_a_commit_that_cannot_be_read_is_told_with_its_place(world: HudiWorld) -> None:
    world.hudi.create(LOCATION)
    put_bytes(
        world.hudi.store,
        f"{LOCATION}/.hoodie/timeline/20261122000000001_20261122000000002.commit",
        b"Obj\x01",
    )
    with pytest.raises(CorruptFile, match=r"20261122000000002\.commit: no commit of Hudi's"):
        world.catalog().load_table(TABLE)
