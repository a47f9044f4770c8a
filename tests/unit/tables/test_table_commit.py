from itertools import count, pairwise

import pytest

from secor.core.errors import ConfigurationError, TableStopped, Unavailable
from secor.core.model import TopicPartition
from secor.tables.catalog import CommitResult, Outcome
from secor.tables.commit.commit_result import Result
from secor.tables.commit.table_commit import ATTEMPTS
from secor.tables.repair.settle import StateAcceptance
from tests.unit.tables.world import CLICKS, CLUSTER, EVENTS, GROUP, OTHER, TableWorld

UNKNOWN = CommitResult(Outcome.UNKNOWN, why="no answer")
REFUSED = CommitResult(Outcome.REFUSED, why="somebody was faster")


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    return made


def settling(world: TableWorld) -> StateAcceptance:
    return StateAcceptance(world.committer, world.history, world.branch)


def test_files_and_vector_are_committed_together(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    key = world.stage(world.manifest(5, 9))
    result = world.commit()
    assert (result.result, result.files, result.records) == (Result.COMMITTED, 2, 9)
    assert world.live() == ["0-5@0", "5-9@0"]
    record = world.record()
    assert record.vector.next_offset(CLUSTER, CLICKS) == 9
    assert record.commit is not None
    assert record.commit.id == result.commit
    kept = world.history.read(world.server.tables[EVENTS].uuid, record.commit.id)
    assert kept.vector == record.vector
    assert key in kept.manifests
    assert kept.group == GROUP
    assert world.commit().result is Result.NOTHING
    assert world.live() == ["0-5@0", "5-9@0"]


def test_the_object_of_a_commit_is_there_before_the_commit(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    seen: list[int] = []

    def before(call: str, identifier: str) -> None:
        if call == "commit":
            seen.append(len([*world.history.list()]))

    world.catalog.before = before
    world.commit()
    assert seen == [1]


@pytest.mark.parametrize("effective", [True, False])
def test_an_unknown_commit_is_settled_by_looking(world: TableWorld, effective: bool) -> None:
    world.stage(world.manifest(0, 5))
    world.catalog.answers = [(UNKNOWN, effective)]
    result = world.commit()
    assert (result.result, result.unknown) == (Result.COMMITTED, 1)
    assert world.live() == ["0-5@0"]
    assert world.server.commits == 1
    assert result.snapshot == world.server.tables[EVENTS].refs["main"]


def test_a_refused_commit_begins_again_with_the_same_files(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))

    def before(call: str, identifier: str) -> None:
        if call == "commit" and world.server.commits == 0:
            world.catalog.before = lambda call, identifier: None
            world.server.tables[EVENTS].foreign_append(["mem://db.events/foreign"])

    world.catalog.before = before
    result = world.commit()
    assert (result.result, result.conflicts) == (Result.COMMITTED, 1)
    assert world.live() == ["0-5@0", "foreign"]


def test_who_is_refused_waits_as_long_as_its_attempt_took(world: TableWorld) -> None:
    """Of two whose attempts undo each other the other one ends meanwhile."""
    world.stage(world.manifest(0, 5))
    world.catalog.answers = [(REFUSED, False)] * 2
    began: list[float] = []

    def before(call: str, _: str) -> None:
        if call == "commit":
            began.append(world.clock.monotonic())
            world.clock.sleep(12)

    world.catalog.before = before
    assert world.commit().result is Result.COMMITTED
    pauses = [after - at - 12 for at, after in pairwise(began)]
    assert all(12 <= pause <= 24 for pause in pauses), pauses
    assert pauses[0] != pauses[1], "two that were refused together do not come back together"


def test_after_a_refusal_what_another_coordinator_took_is_left_out(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    other = TableWorld(
        server=world.server, ledger=world.ledger, clock=world.clock, numbers=count(100)
    )
    other.store.objects = world.store.objects

    def before(call: str, identifier: str) -> None:
        if call == "commit":
            world.catalog.before = lambda call, identifier: None
            world.stage(world.manifest(5, 9))
            assert other.commit().result is Result.COMMITTED

    world.catalog.before = before
    assert world.commit().result is Result.NOTHING
    assert world.live() == ["0-5@0", "5-9@0"]


def test_one_that_is_overtaken_between_its_look_and_its_commit_is_refused(
    world: TableWorld,
) -> None:
    world.stage(world.manifest(0, 5))
    other = TableWorld(
        server=world.server, ledger=world.ledger, clock=world.clock, numbers=count(100)
    )
    other.store.objects = world.store.objects

    def before(call: str, key: str) -> None:
        if call == "put" and "_commits" in key:
            world.store.before = lambda call, key: None
            assert other.commit().result is Result.COMMITTED

    world.store.before = before
    result = world.commit()
    assert (result.result, result.conflicts) == (Result.NOTHING, 1)
    assert world.live() == ["0-5@0"]


def test_attempts_come_to_an_end(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.catalog.answers = [(REFUSED, False)] * ATTEMPTS
    result = world.commit()
    assert (result.result, result.conflicts) == (Result.FAILED, ATTEMPTS)
    assert isinstance(result.error, Unavailable)
    assert world.commit().result is Result.COMMITTED


def test_a_table_that_is_gone_is_stopped_and_named(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    del world.server.tables[EVENTS]
    result = world.commit()
    assert result.result is Result.STOPPED
    assert isinstance(result.error, TableStopped)
    assert result.error.reason == "gone"


def test_a_table_of_format_version_3_is_stopped(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.server.tables[EVENTS].format_version = 3
    result = world.commit()
    assert isinstance(result.error, TableStopped)
    assert result.error.reason == "format_version"


def test_valid_through_waits_for_a_stopped_partition(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.stage(world.manifest(0, 5, topic_partition=OTHER))
    world.stage(world.manifest(5, 7, topic_partition=OTHER))
    world.stage(world.manifest(5, 9, topic_partition=OTHER))
    request = world.request()
    staged = world.staged()
    advanced = type(request)(request.id, 1, lambda previous: 77)
    result = world.committer.commit(EVENTS, staged, advanced)
    assert set(result.stopped) == {OTHER}
    assert result.valid_through is None
    assert world.live() == ["0-5@0", "0-5@1"]


# ------------------------------------------------------------ a person decides


def rolled_back(world: TableWorld) -> None:
    """Commit three batches, then set the table back to the first."""
    for start in (0, 5, 10):
        world.stage(world.manifest(start, start + 5))
        assert world.commit().result is Result.COMMITTED
    fake = world.server.tables[EVENTS]
    fake.roll_back(sorted(fake.snapshots)[0])
    assert world.live() == ["0-5@0"]


def test_a_table_that_was_rolled_back_is_stopped(world: TableWorld) -> None:
    rolled_back(world)
    world.stage(world.manifest(15, 20))
    result = world.commit()
    assert isinstance(result.error, TableStopped)
    assert result.error.reason == "rolled_back"
    assert "secor tables replay" in str(result.error)
    assert world.live() == ["0-5@0"]


def test_accept_goes_on_without_what_was_removed(world: TableWorld) -> None:
    rolled_back(world)
    world.stage(world.manifest(15, 20))
    trial = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=True)
    assert trial.commit is None
    assert len(trial.changes) == 1
    done = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert done.changes == trial.changes
    world.commit()
    assert world.live() == ["0-5@0", "15-20@0"]


def test_replay_commits_again_what_was_removed(world: TableWorld) -> None:
    rolled_back(world)
    world.server.tables[EVENTS].foreign_append(["mem://db.events/foreign"])
    for key in [found.key for found in world.staging.find()]:
        world.store.delete(key)  # it needs no manifests any more
    trial = settling(world).replay(EVENTS, world.request(), dry_run=True)
    assert len(trial.changes) == 2
    assert world.live() == ["0-5@0", "foreign"]
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert world.live() == ["0-5@0", "10-15@0", "5-10@0", "foreign"]
    assert world.record().vector.next_offset(CLUSTER, CLICKS) == 15
    with pytest.raises(ConfigurationError, match="not rolled back"):
        settling(world).replay(EVENTS, world.request(), dry_run=False)
    world.stage(world.manifest(15, 20))
    assert world.commit().result is Result.COMMITTED


def test_an_unknown_replay_is_not_repeated(world: TableWorld) -> None:
    rolled_back(world)
    world.catalog.answers = [(UNKNOWN, True)]
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert world.live() == ["0-5@0", "10-15@0", "5-10@0"]


def test_replay_after_an_accept_brings_back_only_what_came_later(world: TableWorld) -> None:
    rolled_back(world)
    settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    accepted = world.server.tables[EVENTS].refs["main"]
    world.stage(world.manifest(15, 20))
    world.commit()
    world.server.tables[EVENTS].roll_back(accepted)
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert world.live() == ["0-5@0", "15-20@0"]


@pytest.mark.parametrize("settled", ["accept", "replay"])
def test_a_second_rollback_knows_what_the_first_one_came_to(
    world: TableWorld, settled: str
) -> None:
    """What a replay has put back is not put back twice, what was given up stays away."""
    rolled_back(world)
    fake = world.server.tables[EVENTS]
    first = fake.refs["main"]
    if settled == "accept":
        settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    else:
        settling(world).replay(EVENTS, world.request(), dry_run=False)
    world.stage(world.manifest(15, 20))
    world.commit()
    before = world.live()
    fake.roll_back(first)
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert world.live() == before


def test_expired_files_are_not_replayed(world: TableWorld) -> None:
    rolled_back(world)
    world.server.tables[EVENTS].expire(5)
    with pytest.raises(TableStopped, match="expired"):
        settling(world).replay(EVENTS, world.request(), dry_run=False)


def test_a_missing_commit_object_is_named(world: TableWorld) -> None:
    rolled_back(world)
    [*listed] = world.history.list()
    middle = next(it for it in listed if it.id == "cycle-1-0")
    world.store.delete(middle.key)
    with pytest.raises(TableStopped, match="object of commit cycle-1-0 is gone"):
        settling(world).replay(EVENTS, world.request(), dry_run=False)


def test_accept_takes_a_table_that_was_made_again(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.server.make(EVENTS)
    assert world.commit().result is Result.STOPPED
    settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    world.stage(world.manifest(5, 9))
    assert world.commit().result is Result.COMMITTED
    assert world.live() == ["5-9@0"]


@pytest.mark.parametrize(("topic_id", "cluster"), [("new-id", CLUSTER), ("topic-id", "cluster-2")])
def test_accept_takes_another_source_after_what_is_left_of_the_old_one(
    world: TableWorld, topic_id: str, cluster: str
) -> None:
    world.stage(world.manifest(0, 5))
    world.commit()
    world.stage(world.manifest(5, 9))
    late = TopicPartition("clicks", 3)
    other = world.manifest(0, 4, topic_partition=late, topic_id=topic_id, cluster=cluster)
    world.stage(other)
    assert world.commit().result is Result.STOPPED
    settled = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert len(settled.changes) == 1
    assert world.live() == ["0-5@0", "5-9@0"]


def test_accept_of_a_topic_made_again_begins_at_its_first_offset(world: TableWorld) -> None:
    world.stage(world.manifest(0, 100))
    world.commit()
    for found in world.staging.find():
        world.store.delete(found.key)
    world.stage(world.manifest(0, 4, topic_id="new-id"))
    assert world.commit().result is Result.STOPPED
    settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert world.commit().result is Result.COMMITTED
    assert world.live() == ["0-100@0", "0-4@0"]


@pytest.mark.parametrize("end", [4, 12])
def test_accept_of_a_topic_made_again_knows_the_old_ones_manifests_as_old(
    world: TableWorld, end: int
) -> None:
    """They are kept for a while after they were committed."""
    world.stage(world.manifest(0, 5))
    world.stage(world.manifest(5, 9))
    world.commit()
    world.stage(world.manifest(9, 11))
    world.clock.advance(1.0)
    world.stage(world.manifest(0, end, topic_id="new-id"))
    stopped = world.commit()
    assert isinstance(stopped.error, TableStopped)
    assert stopped.error.reason == "topic_recreated"
    world.move(CLICKS, 12)
    first = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert first.changes == ("topic clicks was topic-id and is new-id from now on",)
    assert world.live() == ["0-5@0", "5-9@0", "9-11@0"]
    again = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert again.commit is None
    committed = world.commit()
    assert (committed.result, committed.stopped) == (Result.COMMITTED, {})
    assert world.live() == [f"0-{end}@0", "0-5@0", "5-9@0", "9-11@0"]
    assert len(world.commit().done) == 4


def test_accept_takes_one_of_two_topics_after_the_other(world: TableWorld) -> None:
    """Nothing of either is in the table yet."""
    world.stage(world.manifest(0, 5, topic_id="old-id"))
    world.clock.advance(1.0)
    world.stage(world.manifest(0, 7, topic_id="new-id"))
    assert world.commit().result is Result.STOPPED
    settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert world.live() == ["0-5@0"]
    assert world.commit().result is Result.COMMITTED
    assert world.live() == ["0-5@0", "0-7@0"]


def test_accept_has_nothing_to_do_where_nothing_is_wrong(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    settled = settling(world).accept(EVENTS, world.staged(), world.request(), dry_run=False)
    assert settled.changes == ()
    assert settled.commit is None
    assert world.live() == []
