"""``secor tables repair`` records anew what hides rows, beside a group that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secor.cli.exit_codes import Exit
from secor.core.errors import ConfigurationError
from secor.tables.commit.commit_result import Result
from tests.unit.cli.verifying_world import VerifyingWorld, with_wrong_bounds

TABLE = {"table": "db.flights", "auto_create": True}
NAME = "db.flights"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerifyingWorld:
    """Two commits: the first one's file has bounds that hide a row."""
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    with monkeypatch.context() as older:
        with_wrong_bounds(older)
        world.write({"id": 1}, {"id": 2})
    world.write({"id": 3}, {"id": 4})
    return world


def by_equality(world: VerifyingWorld) -> list[int]:
    """Return the rows that a reader finds by their values."""
    table = world.worker.catalog.library.load_table(NAME)
    return [n for n in range(10) if table.scan(f"id = {n}").to_arrow().num_rows == 1]


def snapshots(world: VerifyingWorld) -> int:
    return len(world.worker.catalog.load_table(NAME).snapshots)


def test_rows_are_found_again_and_the_group_goes_on(world: VerifyingWorld) -> None:
    assert by_equality(world) == [1, 3, 4]
    code, text = world.repair()
    assert (code, text.splitlines()[-1]) == (
        Exit.OK,
        "db.flights: 2 findings corrected, in a snapshot",
    )
    assert by_equality(world) == [1, 2, 3, 4]
    assert world.verify()[0] == Exit.OK
    world.write({"id": 5})
    assert by_equality(world) == [1, 2, 3, 4, 5]
    assert world.verify()[0] == Exit.OK
    before = snapshots(world)
    code, text = world.repair(NAME)
    assert (code, text.splitlines()[-1]) == (Exit.OK, "db.flights: nothing is to be corrected")
    assert snapshots(world) == before


def test_a_dry_run_changes_nothing_and_ends_with_5(world: VerifyingWorld) -> None:
    before = snapshots(world)
    code, text = world.repair("--dry-run")
    assert code == Exit.DIFFERENT
    assert "column id: the recorded upper bound is 1, the file has greatest value 2" in text
    last = text.splitlines()[-1]
    assert last == "db.flights: 2 findings would be corrected: this was a dry run"
    assert snapshots(world) == before
    code, text = world.repair("--dry-run", "--json")
    (table,) = json.loads(text)["tables"]
    assert (table["table"], len(table["wrong"]), table["corrected"]) == (NAME, 2, False)


def test_rollbacks_are_seen_and_settled_as_before(world: VerifyingWorld) -> None:
    library = world.worker.catalog.library
    first, second = library.load_table(NAME).metadata.snapshots
    assert world.repair()[0] == Exit.OK
    table = library.load_table(NAME)
    table.manage_snapshots().rollback_to_snapshot(second.snapshot_id).commit()
    world.write({"id": 5})  # nothing of the group's was rolled back
    table = library.load_table(NAME)
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    committing = world.committing
    result = committing.committer.commit(NAME, committing.staged(), committing.request())
    assert result.result is Result.STOPPED
    committing.settling.replay(NAME, committing.request(), dry_run=False)
    assert world.repair()[0] == Exit.OK
    assert by_equality(world) == [1, 2, 3, 4, 5]
    assert world.verify()[0] == Exit.OK


def test_a_file_that_is_damaged_is_left_and_said(world: VerifyingWorld, tmp_path: Path) -> None:
    file = max(tmp_path.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    file.write_bytes(b"PAR1 and no more")
    code, text = world.repair()
    assert code == Exit.DIFFERENT
    assert file.name in text
    assert text.splitlines()[-2:] == [
        "db.flights: 2 findings corrected, in a snapshot",
        "db.flights: 1 finding left: see above what to do",
    ]


def test_a_table_that_nobody_knows_is_refused(world: VerifyingWorld) -> None:
    with pytest.raises(ConfigurationError, match=r"db\.other"):
        world.repair("db.other")
