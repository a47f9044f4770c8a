"""What somebody else does to a table of a real catalog, between our staging and our commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table as LibraryTable
from pyiceberg.types import LongType

from secor.batch.policy import Reason
from secor.core.errors import TableStopped, TableUnusable
from secor.tables.commit.commit_result import Result
from secor.tables.overview import look_at, tables_of_group
from tests.unit.tables.committing_world import EVENTS, FLIGHTS, CommittingWorld
from tests.unit.tables.worker_world import WorkerWorld, chunk_of

ROUTE = {
    "table": EVENTS,
    "auto_create": True,
    "evolve": True,
    "partition_by": ["bucket(2, id)"],
}
METADATA = {"rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]}}


@pytest.fixture
def group(tmp_path: Path) -> CommittingWorld:
    """Two commits are in the table, and one batch is staged."""
    group = CommittingWorld(WorkerWorld(tmp_path, [ROUTE], METADATA))
    group.write()
    group.write()
    group.stage()
    return group


def library_table(group: CommittingWorld) -> LibraryTable:
    return group.world.catalog.library.load_table(EVENTS)


def reason_of(group: CommittingWorld) -> str:
    result = group.try_commit()
    assert result.result is Result.STOPPED
    assert isinstance(result.error, TableStopped)
    return result.error.reason


def test_a_dropped_table_keeps_what_is_staged_and_one_made_again_waits_for_a_person(
    group: CommittingWorld,
) -> None:
    group.world.catalog.library.drop_table(EVENTS)
    assert reason_of(group) == "gone"
    group.world.plans = group.world.new_plans()
    group.world.stage({"id": 1, "at": "x"})  # the next batch makes it again
    assert reason_of(group) == "replaced"
    group.settling.accept(EVENTS, group.staged(), group.request(), dry_run=False)
    group.commit()
    rows = group.world.rows(EVENTS)
    assert [row["_offset"] for row in rows] == [9]  # what was staged for the old one is given up


def test_files_for_a_dropped_table_that_come_after_the_accept_stop_it_again(
    group: CommittingWorld,
) -> None:
    """A worker follows a minute or so later.  What it stages until then is not lost in silence."""
    world = group.world
    outdated = world.plans("flights", None)
    world.catalog.library.drop_table(EVENTS)
    world.plans = world.new_plans()
    world.stage({"id": 1, "at": "x"})
    group.settling.accept(EVENTS, group.staged(), group.request(), dry_run=False)
    batch = world.open(outdated, world.offset)
    batch.append(chunk_of([{"id": 2, "at": "x"}], FLIGHTS, world.offset))
    world.put(batch.seal(Reason.AGE))
    world.offset += 1
    assert reason_of(group) == "replaced"
    accepted = group.settling.accept(EVENTS, group.staged(), group.request(), dry_run=False)
    assert "are given up" in accepted.changes[0]
    world.stage({"id": 3, "at": "x"})
    assert group.commit() is Result.COMMITTED
    assert sorted(row["_offset"] for row in world.rows(EVENTS)) == [9, 11]


def test_a_renamed_table_waits_for_its_name(group: CommittingWorld) -> None:
    library = group.world.catalog.library
    library.rename_table(EVENTS, "db.moved")
    assert reason_of(group) == "gone"
    library.rename_table("db.moved", EVENTS)
    assert group.commit() is Result.COMMITTED
    group.assert_exact()


def roll_back(group: CommittingWorld) -> None:
    table = library_table(group)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()


@pytest.mark.parametrize("settled", ["replay", "accept"])
def test_a_table_that_was_rolled_back_is_stopped_until_a_person_settles_it(
    group: CommittingWorld, settled: str
) -> None:
    roll_back(group)
    assert reason_of(group) == "rolled_back"
    if settled == "replay":
        group.settling.replay(EVENTS, group.request(), dry_run=False)
    else:
        group.settling.accept(EVENTS, group.staged(), group.request(), dry_run=False)
    group.commit()
    offsets = sorted(row["_offset"] for row in group.world.rows(EVENTS))
    assert offsets == [*range(3), *(range(3, 6) if settled == "replay" else ()), *range(6, 9)]
    group.write()
    assert len(group.world.rows(EVENTS)) == len(offsets) + 3


def test_a_branch_is_exact_beside_main_and_is_replayed_when_it_was_set_back(
    tmp_path: Path,
) -> None:
    group = CommittingWorld(WorkerWorld(tmp_path, [ROUTE], METADATA), branch="audit")
    group.write()
    first = library_table(group).refs()["audit"].snapshot_id
    group.write()
    group.stage()
    overwrite_with_a_foreign_row(group)  # on main
    assert group.commit() is Result.COMMITTED
    group.assert_exact()
    assert group.world.rows(EVENTS) == [], "main has nothing of it"
    with library_table(group).manage_snapshots() as change:
        change.remove_branch("audit")
    with library_table(group).manage_snapshots() as change:
        change.create_branch(first, "audit")
    group.stage()
    assert reason_of(group) == "rolled_back"
    group.settling.replay(EVENTS, group.request(), dry_run=False)
    assert group.commit() is Result.COMMITTED
    group.assert_exact()


def expire(group: CommittingWorld) -> None:
    """Leave only the newest snapshot."""
    library_table(group).maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    assert len(library_table(group).metadata.snapshots) == 1


def overwrite_with_a_foreign_row(group: CommittingWorld) -> None:
    """Append, and delete it again."""
    table = library_table(group)
    table.append(pa.Table.from_pylist([{"at": "foreign"}], table.schema().as_arrow()))
    library_table(group).delete("at = 'foreign'")


def expire_our_commit(group: CommittingWorld) -> None:
    """Leave no snapshot that names our last commit."""
    overwrite_with_a_foreign_row(group)
    expire(group)


def rename_a_column(group: CommittingWorld) -> None:
    library_table(group).update_schema().rename_column("at", "moment").commit()


def drop_a_column(group: CommittingWorld) -> None:
    with library_table(group).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("at")


def add_a_column(group: CommittingWorld) -> None:
    library_table(group).update_schema().add_column("more", LongType()).commit()


def change_the_partition_spec(group: CommittingWorld) -> None:
    with library_table(group).update_spec() as update:
        update.remove_field("id_bucket")
        update.add_identity("at")


def set_properties(group: CommittingWorld) -> None:
    with library_table(group).transaction() as transaction:
        transaction.set_properties({"write.format.default": "avro", "owner": "somebody"})


@pytest.mark.parametrize(
    "change",
    [
        *(expire, expire_our_commit, overwrite_with_a_foreign_row),
        *(rename_a_column, drop_a_column, add_a_column, change_the_partition_spec),
        set_properties,
    ],
)
def test_what_others_change_meanwhile_costs_no_row(
    group: CommittingWorld, change: Callable[[CommittingWorld], None]
) -> None:
    change(group)
    assert group.commit() is Result.COMMITTED
    group.assert_exact()
    group.stage()  # still as the table was
    assert group.commit() is Result.COMMITTED
    group.world.plans = group.world.new_plans()
    if change is not set_properties:  # the library reads no Avro data files
        group.write()
        group.assert_exact()
        assert len(group.world.rows(EVENTS)) == group.world.offset


def put_on_version_3(group: CommittingWorld) -> None:
    """Change the table's metadata as another engine would; the library here cannot."""
    path = Path(library_table(group).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 0}))


def test_a_table_on_version_3_is_stopped_with_what_to_do_and_hides_no_other(
    group: CommittingWorld,
) -> None:
    put_on_version_3(group)
    assert reason_of(group) == "format_version"
    overview = look_at(group.committer, EVENTS, group.staged())
    assert overview.state == "stopped"
    assert "Give the messages another table" in overview.why
    names = tables_of_group(group.world.catalog, "g", [], ["db"], [])
    assert names == [EVENTS]  # what it says of the group can be read
    group.world.plans = group.world.new_plans()
    with pytest.raises(TableUnusable, match="format version 3"):
        group.stage()


def recreate(group: CommittingWorld) -> None:
    library = group.world.catalog.library
    schema = library_table(group).schema()
    library.drop_table(EVENTS)
    library.create_table(EVENTS, schema)


def change_the_codec(group: CommittingWorld) -> None:
    with library_table(group).transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "gzip"})


def move_data(group: CommittingWorld) -> None:
    location = library_table(group).location()
    with library_table(group).transaction() as transaction:
        transaction.set_properties({"write.data.path": f"{location}/elsewhere"})


def set_the_owner(group: CommittingWorld) -> None:
    with library_table(group).transaction() as transaction:
        transaction.set_properties({"owner": "somebody"})


@pytest.mark.parametrize(
    ("change", "files_change"),
    [
        *((it, True) for it in (recreate, add_a_column, change_the_partition_spec)),
        *((it, True) for it in (set_properties, change_the_codec, move_data)),
        *((it, False) for it in (set_the_owner, expire, overwrite_with_a_foreign_row)),
    ],
)
def test_the_fingerprint_tells_what_changes_the_files_and_nothing_else(
    group: CommittingWorld, change: Callable[[CommittingWorld], None], files_change: bool
) -> None:
    before = group.world.new_plans()("flights", None).fingerprint
    change(group)
    after = group.world.new_plans()("flights", None).fingerprint
    assert (before != after) is files_change


def test_a_property_that_allows_no_commit_is_in_the_overview_until_it_is_corrected(
    group: CommittingWorld,
) -> None:
    began = group.world.clock.monotonic()
    with library_table(group).transaction() as change:
        change.set_properties({"write.avro.compression-codec": "nonsense"})
    result = group.try_commit()
    assert result.result is Result.FAILED
    assert "Unsupported codec: nonsense" in str(result.error)
    assert group.world.clock.monotonic() == began  # the other tables of the cycle do not wait
    overview = look_at(group.committer, EVENTS, group.staged())
    assert (overview.state, overview.refused) == ("failed", ())
    assert "Unsupported codec: nonsense" in overview.why
    with library_table(group).transaction() as change:
        change.remove_properties("write.avro.compression-codec")
    assert look_at(group.committer, EVENTS, group.staged()).state == "ok"
    group.commit()
    group.assert_exact()
