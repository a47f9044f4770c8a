"""Commits with changes of rows: staged where nobody sees them, published with the vector."""

from __future__ import annotations

from dataclasses import replace

import pytest

from secor.core.errors import TableStopped, Unavailable
from secor.tables.catalog import STAGED_WRITES, CommitResult, Outcome
from secor.tables.commit.commit_result import Result
from secor.tables.commit.expiry import ExpiryTable, expired_commits
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_PART, Lineage, lineage
from secor.tables.commit.merging import STAGED_AS, BranchMerge
from secor.tables.commit.selection import EVERY_OPERATION
from secor.tables.repair.settle import StateAcceptance
from secor.tables.staging.manifest import Manifest
from tests.unit.tables.world import CLICKS, CLUSTER, EVENTS, OTHER, TableWorld


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.committer.operations = EVERY_OPERATION
    made.server.make(EVENTS)
    return made


def changes(manifest: Manifest, *key: int) -> Manifest:
    """Return a manifest whose files are changes of rows."""
    tables = [replace(it, operation="changes", key=key or (1,)) for it in manifest.tables]
    return replace(manifest, tables=tuple(tables))


def test_rows_and_vector_become_visible_together(world: TableWorld) -> None:
    world.stage(changes(world.manifest(0, 5)))
    seen: list[tuple[list[str], object]] = []

    def look(call: str, table: str) -> None:
        seen.append((world.live(), world.record().vector.next_offset(CLUSTER, CLICKS)))

    world.catalog.before = look
    world.catalog.after = look
    assert world.commit().result is Result.COMMITTED
    assert set(map(str, seen)) == {str(([], None)), str((["0-5@0"], 5))}
    assert world.server.tables[EVENTS].properties[STAGED_WRITES] == "true"


def test_what_was_merged_on_another_base_is_merged_again(world: TableWorld) -> None:
    table = world.server.tables[EVENTS]
    world.stage(changes(world.manifest(0, 5)))
    stage, merges = world.server.stage, list[BranchMerge]()

    def stage_beside_another_writer(merge: BranchMerge) -> None:
        merges.append(merge)
        stage(merge)
        if len(merges) == 1:
            table.foreign_append(["mem://db.events/foreign"])

    world.server.stage = stage_beside_another_writer  # type: ignore[method-assign]
    result = world.commit()
    assert (result.result, result.conflicts) == (Result.COMMITTED, 1)
    assert world.live() == ["0-5@0", "foreign"]
    assert len({merge.id for merge in merges}) == 2


def test_an_engine_that_saw_another_snapshot_is_asked_again(world: TableWorld) -> None:
    """It loads the table by itself, perhaps from a cache, perhaps later than we did."""
    table = world.server.tables[EVENTS]
    world.stage(changes(world.manifest(0, 5)))
    stage, tries = world.server.stage, list[BranchMerge]()

    def stage_on_an_old_snapshot(merge: BranchMerge) -> None:
        tries.append(merge)
        if len(tries) > 1:
            stage(merge)
            return
        before = dict(table.refs)
        table.foreign_append(["mem://db.events/x"])
        stage(merge)
        table.refs = before

    world.server.stage = stage_on_an_old_snapshot  # type: ignore[method-assign]
    assert world.commit().conflicts == 1
    assert world.live() == ["0-5@0"]


def test_an_engine_that_fails_because_the_branch_moves_is_asked_again(world: TableWorld) -> None:
    """Iceberg's Java library validates a row-level operation before it stages the snapshot."""
    table = world.server.tables[EVENTS]
    world.stage(changes(world.manifest(0, 5)))
    stage, tries = world.server.stage, list[BranchMerge]()

    def fail_beside_another_writer(merge: BranchMerge) -> None:
        tries.append(merge)
        if len(tries) == 1:
            table.foreign_append(["mem://db.events/foreign"])
            raise Unavailable("Found conflicting files")
        stage(merge)

    world.server.stage = fail_beside_another_writer  # type: ignore[method-assign]
    result = world.commit()
    assert (result.result, result.conflicts) == (Result.COMMITTED, 1)
    assert world.live() == ["0-5@0", "foreign"]


def test_a_staged_snapshot_is_no_commit(world: TableWorld) -> None:
    """It has the commit's id, and is on no branch."""
    world.stage(changes(world.manifest(0, 5)))
    refused = CommitResult(Outcome.UNKNOWN, why="no answer")
    world.catalog.answers = [(refused, False)]
    result = world.commit()
    assert (result.result, result.unknown) == (Result.COMMITTED, 1)
    assert world.live() == ["0-5@0"]
    assert world.record().vector.next_offset(CLUSTER, CLICKS) == 5


def test_a_publish_without_an_answer_is_not_repeated(world: TableWorld) -> None:
    world.stage(changes(world.manifest(0, 5)))
    world.catalog.answers = [(CommitResult(Outcome.UNKNOWN, why="no answer"), True)]
    result = world.commit()
    assert (result.result, result.unknown) == (Result.COMMITTED, 1)
    assert world.server.commits == 1
    assert world.live() == ["0-5@0"]


def test_an_engine_that_fails_leaves_everything_to_the_next_cycle(world: TableWorld) -> None:
    world.stage(changes(world.manifest(0, 5)))
    stage = world.server.stage

    def fail(merge: BranchMerge) -> None:
        raise Unavailable("Spark could not merge")

    world.server.stage = fail  # type: ignore[method-assign]
    result = world.commit()
    assert result.result is Result.FAILED
    assert str(result.error) == "Spark could not merge"
    world.server.stage = stage  # type: ignore[method-assign]
    assert world.commit().result is Result.COMMITTED


def test_appends_of_the_same_cycle_are_in_the_same_commit(world: TableWorld) -> None:
    world.stage(changes(world.manifest(0, 5)))
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    result = world.commit()
    assert (result.result, result.files) == (Result.COMMITTED, 2)
    assert world.live() == ["0-3@1", "0-5@0"]
    assert world.server.commits == 1
    described = world.server.tables[EVENTS].describe()
    head = described.head()
    assert head is not None
    assert head.summary[SUMMARY_COMMIT] == result.commit
    assert head.parent_id is not None
    below = described.snapshots[head.parent_id].summary
    assert below[SUMMARY_PART] == below[STAGED_AS] == result.commit
    assert SUMMARY_COMMIT not in below


def test_a_branch_set_back_between_both_snapshots_of_a_commit_is_rolled_back(
    world: TableWorld,
) -> None:
    world.stage(changes(world.manifest(0, 5)))
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    world.commit()
    table = world.server.tables[EVENTS]
    head = table.describe().head()
    assert head is not None
    table.roll_back(head.parent_id)
    assert lineage(table.describe(), "main", world.record()) is Lineage.ROLLED_BACK
    world.stage(world.manifest(3, 4, topic_partition=OTHER))
    assert isinstance(world.commit().error, TableStopped)


@pytest.fixture
def set_back(world: TableWorld) -> TableWorld:
    """A branch at the lower snapshot of a commit: merged rows below, appended rows above it."""
    table = world.server.tables[EVENTS]
    table.foreign_append(["foreign"])
    world.stage(changes(world.manifest(0, 5)))
    world.stage(world.manifest(0, 3, topic_partition=OTHER))
    world.commit()
    head = table.describe().head()
    assert head is not None
    table.roll_back(head.parent_id)
    assert world.live() == ["0-5@0", "foreign"]
    return world


def settling(world: TableWorld) -> StateAcceptance:
    return StateAcceptance(world.committer, world.history, "main")


def test_merged_rows_come_back_after_a_rollback_below_a_commit_that_was_accepted_in_part(
    set_back: TableWorld,
) -> None:
    world, table = set_back, set_back.server.tables[EVENTS]
    settling(world).accept(EVENTS, [], world.request(), dry_run=False)
    world.stage(world.manifest(3, 4, topic_partition=OTHER))
    world.commit()
    assert world.live() == ["0-5@0", "3-4@1", "foreign"]
    table.roll_back(min(table.snapshots))
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    # What the person gave up stays away.
    assert world.live() == ["0-5@0", "3-4@1", "foreign"]


def test_only_appends_are_repeated_of_a_commit_whose_merged_rows_the_branch_has(
    set_back: TableWorld,
) -> None:
    world, table = set_back, set_back.server.tables[EVENTS]
    done = settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert [change.rpartition(": ")[2] for change in done.changes] == ["1 file"]
    assert world.live() == ["0-3@1", "0-5@0", "foreign"]
    table.roll_back(min(table.snapshots))
    settling(world).replay(EVENTS, world.request(), dry_run=False)
    assert world.live() == ["0-3@1", "0-5@0", "foreign"]


def test_the_object_of_a_commit_stays_while_a_branch_has_its_lower_snapshot(
    set_back: TableWorld,
) -> None:
    world, table = set_back, set_back.server.tables[EVENTS]
    settling(world).accept(EVENTS, [], world.request(), dry_run=False)
    table.expire(keep=9)  # all that is on no branch
    described = table.describe()
    known = ExpiryTable(described, world.record())
    assert [*expired_commits(world.history, [known], float("inf"))] == []


def test_rows_told_apart_by_other_columns_wait_for_the_next_commit(world: TableWorld) -> None:
    world.stage(changes(world.manifest(0, 5)))
    world.stage(changes(world.manifest(5, 9), 1, 2))
    world.stage(changes(world.manifest(9, 12)))
    reached = []
    for _ in range(3):
        assert world.commit().result is Result.COMMITTED
        reached.append(world.record().vector.next_offset(CLUSTER, CLICKS))
    assert reached == [5, 9, 12]
    assert world.commit().result is Result.NOTHING


def test_without_an_engine_changes_stop_the_table(world: TableWorld) -> None:
    world.committer.operations = frozenset({"append"})
    world.stage(changes(world.manifest(0, 5)))
    result = world.commit()
    assert result.result is Result.STOPPED
    assert "secor tables run" in str(result.error)
