from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.core.model import OffsetRange
from secor.core.object_info import ObjectInfo
from secor.tables.commit.expiry import (
    ExpiredObject,
    ExpiryTable,
    expired_changes,
    expired_commits,
    expired_manifests,
    expired_plans,
    orphans,
)
from secor.tables.commit.plan_notes import PlanNotes
from secor.tables.commit.selection import EVERY_OPERATION
from tests.unit.tables.world import CLICKS, EVENTS, OTHER, PREFIX, TableWorld

NOW = 2_000_000_000.0


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make("db.other")
    return made


def known(world: TableWorld, table: str = EVENTS) -> ExpiryTable:
    return ExpiryTable(*world.committer.look(table, settles=True))


def put_file(
    world: TableWorld,
    folder: Path,
    path: str,
    start: int,
    end: int,
    partition: int = 0,
    root: str = f"mem://{EVENTS}/data",
) -> str:
    """Put a data file below the table as a worker does."""
    topic_partition = CLICKS if partition == 0 else OTHER
    info = ObjectInfo(topic_partition, OffsetRange(start, end), start, end - start, 1, "f" * 16)
    file = folder / "file"
    file.write_bytes(b"rows")
    key = f"{root}/{path}"
    world.store.put(key, file, crc32c(b"rows"), info.metadata())
    return key


def keys(found: object) -> list[str]:
    return [it.key for it in found if isinstance(it, ExpiredObject)]  # type: ignore[attr-defined]


def test_commit_objects_go_with_the_snapshots_of_their_commits(world: TableWorld) -> None:
    for start in (0, 5, 10):
        world.stage(world.manifest(start, start + 5))
        world.commit()
    assert keys(expired_commits(world.history, [known(world)], NOW)) == []
    world.server.tables[EVENTS].expire(1)
    gone = keys(expired_commits(world.history, [known(world)], NOW))
    assert [key.rpartition("/")[2] for key in gone] == ["cycle-0-0.json", "cycle-1-0.json"]
    assert keys(expired_commits(world.history, [known(world)], 0.0)) == []
    assert keys(expired_commits(world.history, [], NOW)) == []


def test_the_object_of_a_refused_commit_goes(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))

    def before(call: str, identifier: str) -> None:
        if call == "commit":
            world.catalog.before = lambda call, identifier: None
            world.server.tables[EVENTS].foreign_append(["x"])

    world.catalog.before = before
    world.commit()
    (orphan,) = keys(expired_commits(world.history, [known(world)], NOW))
    assert orphan.endswith("/cycle-0-0.json")


def test_a_manifest_stays_until_every_table_has_it(world: TableWorld) -> None:
    both = world.stage(world.manifest(0, 5, [EVENTS, "db.other"]))
    empty = world.stage(world.manifest(5, 6, []))
    waiting = world.stage(world.manifest(6, 9))
    tables = [known(world), known(world, "db.other")]
    assert keys(expired_manifests(world.staged(), tables, NOW)) == [empty]
    world.commit("db.other")
    tables = [known(world), known(world, "db.other")]
    assert keys(expired_manifests(world.staged(), tables, NOW)) == [empty]
    world.commit()
    tables = [known(world), known(world, "db.other")]
    assert keys(expired_manifests(world.staged(), tables, NOW)) == [both, empty, waiting]
    assert keys(expired_manifests(world.staged(), tables, 0.0)) == []
    assert keys(expired_manifests(world.staged(), tables[1:], NOW)) == [empty]


def test_a_stopped_table_needs_its_manifests(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.commit()
    world.server.make(EVENTS)
    assert keys(expired_manifests(world.staged(), [known(world)], NOW)) == []


def test_only_files_that_nothing_can_ever_name_are_orphans(
    world: TableWorld, tmp_path: Path
) -> None:
    live = put_file(world, tmp_path, "live", 0, 5)
    lost = put_file(world, tmp_path, "lost", 0, 5)
    put_file(world, tmp_path, "of a partition that the table does not know", 0, 5, partition=1)
    put_file(world, tmp_path, "staged, and its manifest is not put yet", 5, 9)
    put_file(world, tmp_path, "across what the table has", 3, 9)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"x")
    world.store.put(f"mem://{EVENTS}/data/foreign", foreign, crc32c(b"x"), {})
    world.stage(world.manifest(0, 5))
    world.commit()
    found = orphans(world.store, known(world), world.staged(), lambda: [live], NOW)
    assert keys(found) == [lost]
    young = orphans(world.store, known(world), world.staged(), lambda: [live], 0.0)
    assert keys(young) == []


def test_merged_changes_go_when_no_rollback_can_need_them(
    world: TableWorld, tmp_path: Path
) -> None:
    world.committer.operations = EVERY_OPERATION
    root = f"{PREFIX}/_changes"
    paths = [
        put_file(world, tmp_path, str(start), start, start + 5, root=f"{root}/{EVENTS}")
        for start in (0, 5, 10)
    ]

    def expired(before: float = NOW) -> list[str]:
        gone = keys(expired_commits(world.history, [known(world)], NOW))
        staged = world.staged()
        found = expired_changes(
            world.store, root, world.history, known(world), staged, gone, before
        )
        return keys(found)

    for path, start in zip(paths, (0, 5, 10), strict=True):
        (files,) = world.manifest(start, start + 5).tables
        data = (replace(files.files[0], path=path),)
        changes = replace(files, operation="changes", key=(1,), files=data)
        key = world.stage(replace(world.manifest(start, start + 5), tables=(changes,)))
        assert expired() == []  # staged
        if start < 10:
            world.commit()
            world.store.delete(key)
            assert expired() == []  # a rollback may need them
    world.server.tables[EVENTS].expire(1)
    assert expired() == paths[:1]
    assert expired(0.0) == []


def test_old_notes_of_plans_go_but_for_those_of_open_intents(world: TableWorld) -> None:
    notes = PlanNotes(world.store, PREFIX)
    for fingerprint in ("a" * 16, "b" * 16):
        notes.put("clicks", fingerprint, {})
    world.clock.advance(10)
    notes.put("clicks", "c" * 16, {})
    before = world.clock.now() - 5
    expired = expired_plans(notes, lambda: ["b" * 16], before)
    assert keys(expired) == [notes.key("clicks", "a" * 16)]
    assert list(expired_plans(notes, lambda: pytest.fail("nobody is asked"), 0.0)) == []
