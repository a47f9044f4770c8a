from collections.abc import Collection
from dataclasses import replace

import pytest

from secor.core.errors import TableStopped
from secor.core.model import TopicPartition
from secor.tables.commit.group_record import GroupRecord
from secor.tables.commit.selection import StagedSelection, select
from secor.tables.commit.vector import TopicOffsets, Vector
from tests.unit.tables.world import CLICKS, CLUSTER, EVENTS, OTHER, TableWorld


@pytest.fixture
def world() -> TableWorld:
    made = TableWorld()
    made.server.make(EVENTS)
    made.server.make("db.other")
    return made


def at(offset: int, topic_id: str | None = "topic-id", cluster: str = CLUSTER) -> GroupRecord:
    return GroupRecord(Vector({cluster: {"clicks": TopicOffsets(topic_id, {0: offset})}}))


def choose(
    world: TableWorld, record: GroupRecord | None = None, given_up: Collection[str] = ()
) -> StagedSelection:
    uuid = world.server.tables[EVENTS].uuid
    return select(EVENTS, uuid, record or GroupRecord(), world.staged(), given_up=given_up)


def ranges(selection: StagedSelection) -> list[str]:
    return [file.path.rpartition("/")[2] for files in selection.files for file in files.files]


def test_a_partition_that_the_vector_does_not_name_gives_all(world: TableWorld) -> None:
    for start, end in ((0, 5), (5, 9)):
        world.stage(world.manifest(start, end))
    world.stage(world.manifest(2, 4, topic_partition=OTHER))
    chosen = choose(world)
    assert ranges(chosen) == ["0-5@0", "5-9@0", "2-4@1"]
    assert chosen.vector.next_offset(CLUSTER, CLICKS) == 9
    assert chosen.vector.next_offset(CLUSTER, OTHER) == 4
    assert chosen.vector.topic(CLUSTER, "clicks") == TopicOffsets("topic-id", {0: 9, 1: 4})


def test_what_ends_at_or_below_the_vector_is_in_the_table_already(world: TableWorld) -> None:
    keys = [world.stage(world.manifest(start, start + 5)) for start in (0, 5, 10)]
    chosen = choose(world, at(10))
    assert ranges(chosen) == ["10-15@0"]
    assert chosen.done == set(keys[:2])


def test_what_the_ledger_has_not_committed_does_not_count(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.put(world.manifest(5, 9))
    assert ranges(choose(world)) == ["0-5@0"]
    world.move(CLICKS, 8)
    assert ranges(choose(world)) == ["0-5@0"]


def test_one_that_lies_across_the_vector_stops_its_partition_and_no_other(
    world: TableWorld,
) -> None:
    key = world.stage(world.manifest(0, 5))
    world.stage(world.manifest(5, 9))
    world.stage(world.manifest(2, 4, topic_partition=OTHER))
    chosen = choose(world, at(3))
    assert ranges(chosen) == ["2-4@1"]
    assert key in chosen.stopped[CLICKS]
    assert "3" in chosen.stopped[CLICKS]
    assert chosen.vector.next_offset(CLUSTER, CLICKS) == 3


def test_two_that_overlap_stop_their_partition_before_both(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    keys = [world.stage(world.manifest(5, 9)), world.stage(world.manifest(5, 12))]
    chosen = choose(world)
    assert ranges(chosen) == ["0-5@0"]
    assert all(key in chosen.stopped[CLICKS] for key in keys)


def test_two_that_overlap_stop_the_tables_that_have_files_in_one_of_them(world: TableWorld) -> None:
    world.stage(world.manifest(0, 9, ["db.other"]))
    world.stage(world.manifest(5, 12, ["db.other"]))
    world.stage(world.manifest(12, 15))
    chosen = choose(world)
    assert ranges(chosen) == ["12-15@0"]
    assert chosen.stopped == {}
    other = select("db.other", world.server.tables["db.other"].uuid, GroupRecord(), world.staged())
    assert CLICKS in other.stopped


def test_one_that_overlaps_a_long_one_before_the_last_is_seen(world: TableWorld) -> None:
    world.put(world.manifest(5, 7, ["db.other"]))
    first = world.stage(world.manifest(0, 100))
    assert first in choose(world).stopped[CLICKS]


def test_a_gap_is_no_fault(world: TableWorld) -> None:
    """Manifests that no table needs are deleted, and logs have gaps."""
    world.stage(world.manifest(7, 9))
    assert ranges(choose(world, at(3))) == ["7-9@0"]


def test_manifests_without_files_for_the_table_move_nothing(world: TableWorld) -> None:
    keys = [world.stage(world.manifest(0, 5, ())), world.stage(world.manifest(5, 9, ["db.other"]))]
    chosen = choose(world)
    assert chosen.empty
    assert chosen.vector == Vector()
    assert chosen.done == set(keys)


def test_a_damaged_manifest_stops_its_partition_for_every_table(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    bad = world.stage(world.manifest(5, 9))
    world.stage(world.manifest(9, 12))
    world.store.delete(bad)
    world.store.objects[bad] = replace(
        next(iter(world.store.objects.values())), content=b"no manifest"
    )
    chosen = choose(world)
    assert ranges(chosen) == ["0-5@0"]
    assert bad in chosen.stopped[CLICKS]


@pytest.mark.parametrize("change", ["another range", "another group"])
def test_a_manifest_under_a_key_that_is_not_its_own_stops_its_partition(
    world: TableWorld, change: str
) -> None:
    key = world.stage(world.manifest(0, 5))
    body = (
        world.manifest(0, 4) if change == "another range" else world.manifest(0, 5, group="other")
    ).dump()
    world.store.objects[key] = replace(world.store.objects[key], content=body)
    chosen = choose(world)
    assert chosen.empty
    assert key in chosen.stopped[CLICKS]


def test_a_manifest_that_is_too_large_to_be_one_is_not_read_and_stops_its_partition(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = world.stage(world.manifest(0, 5))
    monkeypatch.setattr("secor.tables.staging.staged_manifests.LARGEST_MANIFEST", 100)
    world.store.before = lambda call, _: pytest.fail("read") if call == "open" else None
    chosen = choose(world)
    assert chosen.empty
    assert f"{key}: " in chosen.stopped[CLICKS]
    assert "bytes are no manifest" in chosen.stopped[CLICKS]


def test_a_table_made_again_is_stopped_until_its_old_files_are_given_up(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    old = world.server.tables[EVENTS].uuid
    world.server.make(EVENTS)
    with pytest.raises(TableStopped, match="secor tables accept") as stopped:
        choose(world)
    assert stopped.value.reason == "replaced"
    world.stage(world.manifest(5, 9))
    chosen = choose(world, given_up=[old])
    assert ranges(chosen) == ["5-9@0"]
    assert choose(world, GroupRecord(chosen.vector)).empty


def test_the_vector_passes_over_what_is_given_up_and_over_nothing_later(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    old = world.server.tables[EVENTS].uuid
    later = world.manifest(5, 9)
    world.server.make(EVENTS)
    chosen = choose(world, given_up=[old])
    assert chosen.empty
    assert chosen.vector.next_offset(CLUSTER, CLICKS) == 5
    world.stage(later)
    with pytest.raises(TableStopped, match="secor tables accept"):
        choose(world, GroupRecord(chosen.vector))


def test_a_topic_made_again_is_stopped_even_where_its_offsets_look_done(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5, topic_id="new-id"))
    with pytest.raises(TableStopped, match="was topic-id and is new-id") as stopped:
        choose(world, at(100))
    assert stopped.value.reason == "topic_recreated"


def test_two_ids_of_a_topic_are_not_taken_in_one_commit(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5))
    world.stage(world.manifest(0, 5, topic_partition=OTHER, topic_id="new-id"))
    with pytest.raises(TableStopped, match="was recreated"):
        choose(world)


def test_an_unknown_topic_id_agrees_with_any(world: TableWorld) -> None:
    world.stage(world.manifest(5, 9, topic_id=None))
    assert ranges(choose(world, at(5))) == ["5-9@0"]
    chosen = choose(world, at(5, topic_id=None))
    assert chosen.vector.topic(CLUSTER, "clicks") == TopicOffsets(None, {0: 9})


def test_another_cluster_is_told_apart(world: TableWorld) -> None:
    world.stage(world.manifest(0, 5, cluster="cluster-2"))
    with pytest.raises(TableStopped, match=r"cluster-1.*cluster-2") as stopped:
        choose(world, at(100))
    assert stopped.value.reason == "other_cluster"


def test_a_topic_of_a_reserved_name_has_manifests_too(world: TableWorld) -> None:
    odd = TopicPartition("_quarantine", 0)
    world.stage(world.manifest(0, 5, topic_partition=odd))
    assert ranges(choose(world)) == ["0-5@0"]
