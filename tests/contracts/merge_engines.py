"""The contract of engines that merge rows: the fake of the simulation and Spark must both keep it.

Each case is one function of ``CASES``.  Rows are told apart by ``id``; what a reader sees is the
set of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import pytest

from secor.core.errors import Unavailable
from secor.tables.catalog import MAIN, Catalog, CommitResult, Outcome, Snapshot, Table, TableCommit
from secor.tables.commit.group_record import SUMMARY_COMMIT, SUMMARY_GROUP, SUMMARY_PART
from secor.tables.commit.merging import STAGED_AS, BranchMerge, MergeEngine, StagingCatalog
from secor.tables.staging.manifest import TableFiles

TABLE = "db.flights"


class Merging(Catalog, StagingCatalog, Protocol):
    """A catalog whose commits may have changes of rows."""


class EngineWorld(Protocol):
    """One table ``TABLE`` without a snapshot, and an engine."""

    @property
    def catalog(self) -> Merging:
        """Commits to the table."""

    @property
    def engine(self) -> MergeEngine:
        """Stages for it."""

    def changes(self, ids: Iterable[int]) -> TableFiles:
        """Stage upserts."""

    def deletions(self, ids: Iterable[int]) -> TableFiles:
        """Stage deletions of rows that are not there."""

    def appends(self, ids: Iterable[int]) -> TableFiles:
        """Stage rows that are appended."""

    def visible(self, branch: str = MAIN) -> set[int]:
        """Return the ids that a reader sees; each is there once."""

    def append_as_another(self, number: int) -> None:
        """Append a row as another writer does."""

    def drop(self) -> None:
        """Drop the table."""


def begin(world: EngineWorld, branch: str = MAIN) -> Table:
    """Return the table with one published row, 1."""
    table = world.catalog.load_table(TABLE)
    result = commit(world, table, "first", world.changes([1]), branch=branch)
    if result.outcome is Outcome.REFUSED:  # its branch has only just begun
        table = world.catalog.load_table(TABLE)
        result = commit(world, table, "first", world.changes([1]), branch=branch)
    assert result.outcome is Outcome.DONE, result.why
    assert world.visible(branch) == {1}
    return world.catalog.load_table(TABLE)


def commit(
    world: EngineWorld, table: Table, name: str, *files: TableFiles, branch: str = MAIN
) -> CommitResult:
    """Try a commit on what ``table`` shows."""
    summary = {SUMMARY_COMMIT: name, SUMMARY_GROUP: "g"}
    base = table.refs.get(branch)
    return world.catalog.commit(table, TableCommit(base, files, {"v": name}, summary, branch))


def stage(world: EngineWorld, table: Table, name: str, files: TableFiles) -> Snapshot:
    """Let the engine stage a snapshot; return it."""
    world.engine.stage(BranchMerge(name, table, MAIN, (files,), {SUMMARY_COMMIT: name}))
    snapshots = world.catalog.load_table(TABLE).snapshots.values()
    [staged] = [it for it in snapshots if it.summary.get(STAGED_AS) == name]
    return staged


def a_staged_snapshot_is_on_its_base_and_nobody_sees_it(world: EngineWorld) -> None:
    table = begin(world)
    staged = stage(world, table, "staged", world.changes([2]))
    assert staged.parent_id == table.refs[MAIN]
    assert staged.summary[SUMMARY_COMMIT] == "staged"
    after = world.catalog.load_table(TABLE)
    assert (after.refs, after.properties) == (table.refs, table.properties)
    assert world.visible() == {1}

    # Left behind, as by one that was killed: what is merged again is there once.
    again = stage(world, table, "again", world.changes([2]))
    assert again.parent_id == table.refs[MAIN]
    request = TableCommit(table.refs[MAIN], (), {"v": "again"}, {SUMMARY_COMMIT: "again"})
    published = world.catalog.publish(after, request, again.snapshot_id)
    assert published.outcome is Outcome.DONE
    assert world.visible() == {1, 2}
    assert world.catalog.load_table(TABLE).properties["v"] == "again"

    # Of two that were staged on one base the second can never be published.
    request = replace(request, properties={"v": "late"})
    late = world.catalog.publish(after, request, staged.snapshot_id)
    assert late.outcome is Outcome.REFUSED
    assert world.catalog.load_table(TABLE).properties["v"] == "again"


def a_base_that_is_not_the_heads_is_refused_and_made_again(world: EngineWorld) -> None:
    table = begin(world)
    world.append_as_another(100)
    refused = commit(world, table, "second", world.changes([2]))
    assert refused.outcome is Outcome.REFUSED
    assert world.visible() == {1, 100}
    present = world.catalog.load_table(TABLE)
    assert present.properties["v"] == "first"
    assert commit(world, present, "third", world.changes([2])).outcome is Outcome.DONE
    assert world.visible() == {1, 2, 100}


def changes_that_change_nothing_are_a_commit_all_the_same(world: EngineWorld) -> None:
    """Else the vector could never move beyond deletions of rows that are not there."""
    table = world.catalog.load_table(TABLE)
    assert commit(world, table, "nothing", world.deletions([7])).outcome is Outcome.DONE
    table = world.catalog.load_table(TABLE)
    assert (world.visible(), table.properties["v"]) == (set(), "nothing")
    table = begin(world)
    assert commit(world, table, "again", world.changes([1])).outcome is Outcome.DONE
    assert world.visible() == {1}
    assert world.catalog.load_table(TABLE).properties["v"] == "again"


def a_missing_branch_begins_where_main_is_and_main_stays(world: EngineWorld) -> None:
    table = begin(world, "audit")
    assert world.visible() == set()
    assert commit(world, table, "second", world.changes([2]), branch="audit").outcome is (
        Outcome.DONE
    )
    assert (world.visible("audit"), world.visible()) == ({1, 2}, set())


def appended_files_are_in_the_same_commit(world: EngineWorld) -> None:
    table = begin(world)
    result = commit(world, table, "both", world.changes([2]), world.appends([3]))
    assert result.outcome is Outcome.DONE
    assert world.visible() == {1, 2, 3}
    present = world.catalog.load_table(TABLE)
    head = present.head()
    assert head is not None
    assert head.summary[SUMMARY_COMMIT] == "both"
    below = present.snapshots[head.parent_id or 0]
    assert below.summary[SUMMARY_PART] == below.summary[STAGED_AS] == "both"
    assert below.parent_id == table.refs[MAIN]


def a_table_that_is_gone_is_an_error_and_no_commit(world: EngineWorld) -> None:
    table = begin(world)
    files = world.changes([2])
    world.drop()
    with pytest.raises(Unavailable):
        world.engine.stage(BranchMerge("gone", table, MAIN, (files,), {SUMMARY_COMMIT: "gone"}))


CASES: tuple[Callable[[EngineWorld], None], ...] = (
    a_staged_snapshot_is_on_its_base_and_nobody_sees_it,
    a_base_that_is_not_the_heads_is_refused_and_made_again,
    changes_that_change_nothing_are_a_commit_all_the_same,
    a_missing_branch_begins_where_main_is_and_main_stays,
    appended_files_are_in_the_same_commit,
    a_table_that_is_gone_is_an_error_and_no_commit,
)
