"""From what a person asks for to a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from secor.archive.backfill import planning
from secor.archive.backfill.coverage import (
    chosen_by_name,
    covers_of,
    cut,
    gaps,
    merged,
    segments_of,
    within,
)
from secor.archive.backfill.model import BackfillPlan, Segment, decode_plan, encode
from secor.archive.backfill.paths import BackfillPaths
from secor.archive.backfill.plan_request import RequestedMessages
from secor.archive.objects import ArchivedObject
from secor.core.errors import ConfigurationError
from secor.core.model import OffsetRange, TopicPartition
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.core.small_objects import put_bytes
from tests.fakes.store import FakeStore
from tests.unit.archive.backfill_world import TOPIC, World, config, put_all, sealed_batches


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.made(FakeStore(), tmp_path)
    yield made
    made.workspace.close()


def fake(world: World) -> FakeStore:
    assert isinstance(world.store, FakeStore)
    return world.store


def ranges(plan: BackfillPlan) -> list[tuple[int, int, int]]:
    return [(batch.partition, batch.start, batch.end) for batch in plan.batches]


def offsets(partition: int, start: int, end: int) -> RequestedMessages:
    return RequestedMessages(offsets={partition: [OffsetRange(start, end)]})


def test_a_range_is_widened_to_whole_batches(world: World) -> None:
    plan = world.plan(offsets(0, 25, 41))
    assert ranges(plan) == [(0, 20, 40), (0, 40, 60)]
    assert plan.generation == 2
    replaced = {one.key for one in plan.replaced}
    assert replaced == {
        f"partition/{TOPIC}/dt=2023-11-15/1_0_{20:020d}.txt.gz",
        f"partition/{TOPIC}/dt=2023-11-15/1_0_{40:020d}.txt.gz",
        f"partition/_quarantine/{TOPIC}/1_0_{20:020d}.seq",
        f"partition/_quarantine/{TOPIC}/1_0_{40:020d}.seq",
    }
    assert [part.key for batch in plan.batches for part in batch.inputs] == [
        f"backup/{TOPIC}/offset=0/1_0_{20:020d}.seq",
        f"backup/{TOPIC}/offset=0/1_0_{40:020d}.seq",
    ]


def test_thousands_of_batches_are_planned_in_linear_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = 300
    for start in range(1000, 1000 + batches):
        info = ObjectInfo(TopicPartition(TOPIC, 5), OffsetRange(start, start + 1), start, 1, 1, "f")
        for key in (
            f"backup/{TOPIC}/offset=0/1_5_{start:020d}.seq",
            f"partition/{TOPIC}/dt=2023-11-15/1_5_{start:020d}.txt.gz",
        ):
            put_bytes(fake(world), key, b"", info.metadata())
    looks = 0
    inside = OffsetRange.__contains__

    def counted(offset_range: OffsetRange, offset: int) -> bool:
        nonlocal looks
        looks += 1
        return inside(offset_range, offset)

    monkeypatch.setattr(OffsetRange, "__contains__", counted)
    plan = world.planner(lambda _: 1000 + batches).plan(offsets(5, 1000, 1000 + batches))
    assert [(batch.start, len(batch.replaces)) for batch in plan.batches] == [
        (start, 1) for start in range(1000, 1000 + batches)
    ]
    assert looks < 10 * batches


def test_a_wrong_object_leads_to_its_batch(world: World) -> None:
    key = f"partition/{TOPIC}/dt=2023-11-15/1_1_{30:020d}.txt.gz"
    assert ranges(world.plan(RequestedMessages(keys=[key]))) == [(1, 30, 60)]


@pytest.mark.parametrize("key", ["partition/orders/dt=x/1_0_00000000000000000000", "elsewhere"])
def test_a_key_of_another_topic_is_refused(world: World, key: str) -> None:
    with pytest.raises(ConfigurationError, match="no object of topic"):
        world.plan(RequestedMessages(keys=[key]))


def test_times_lead_to_the_batches_that_may_have_them(world: World) -> None:
    at = 1_700_000_000_000
    assert ranges(world.plan(RequestedMessages(times=(at + 20, at + 30)))) == [
        (0, 20, 40),
        (1, 0, 30),
    ]
    with pytest.raises(ConfigurationError, match="stored nothing of these times"):
        world.plan(RequestedMessages(times=(0, 5)))


def test_nothing_beyond_what_is_committed_is_touched(world: World) -> None:
    plan = world.planner(lambda _: 40).plan(offsets(0, 0, 60))
    assert ranges(plan) == [(0, 0, 20), (0, 20, 40)]
    with pytest.raises(ConfigurationError, match="stored nothing"):
        world.planner(lambda _: 0).plan(offsets(0, 0, 60))


def test_without_a_ledger_the_objects_tell_how_far_the_group_is(world: World) -> None:
    plan = world.planner(lambda _: None).plan(offsets(0, 0, 1000))
    assert ranges(plan)[-1] == (0, 40, 60)


def test_a_batch_of_which_everything_was_filtered_is_done_again(world: World) -> None:
    for one in list(fake(world).objects):
        if one.startswith("partition/") and "_0_000000000000000000" in one:
            info = fake(world).objects[one].metadata
            if info["batch-start"] == "20":
                fake(world).delete(one)
    plan = world.plan(offsets(0, 0, 60))
    assert ranges(plan) == [(0, 0, 20), (0, 20, 40), (0, 40, 60)]
    assert not plan.batches[1].replaces
    assert plan.batches[1].inputs


def test_a_backup_that_lags_behind_stops_the_plan(world: World) -> None:
    fake(world).delete(f"backup/{TOPIC}/offset=0/1_0_{40:020d}.seq")
    with pytest.raises(ConfigurationError, match="catch up"):
        world.plan(offsets(0, 20, 60))


def test_a_hole_in_the_backup_stops_the_plan_unless_allowed(world: World) -> None:
    fake(world).delete(f"backup/{TOPIC}/offset=0/1_0_{20:020d}.seq")
    with pytest.raises(ConfigurationError, match=r"no backup object has offsets \[20, 40\)"):
        world.plan(offsets(0, 0, 60))
    plan = world.planner(allow_gaps=True).plan(offsets(0, 0, 60))
    assert plan.notes
    assert not plan.batches[1].inputs


def test_the_generation_is_above_all_that_is_replaced(world: World) -> None:
    with pytest.raises(ConfigurationError, match="higher number"):
        world.planner().plan(offsets(0, 0, 20), generation=1)
    assert world.planner().plan(offsets(0, 0, 20), generation=7).generation == 7


def test_of_two_generations_of_the_backup_the_newest_is_read(world: World) -> None:
    put_all(world.store, sealed_batches(world.backup, world.workspace, generation=3))
    plan = world.plan(offsets(0, 0, 20))
    assert [part.key for part in plan.batches[0].inputs] == [
        f"backup/{TOPIC}/offset=0/3_0_{0:020d}.seq"
    ]


def test_many_backup_objects_are_chosen_by_their_names(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = world.plan(offsets(0, 20, 40))
    monkeypatch.setattr(planning, "MOST_ASKED", 0)
    heads: list[str] = []
    fake(world).before = lambda call, key: heads.append(key) if call == "head" else None
    plan = world.plan(offsets(0, 20, 40))
    assert plan.batches == wanted.batches
    assert "chosen by their names" in plan.notes[0]
    assert not [key for key in heads if key.startswith("backup/")]


def test_a_text_backup_is_refused(world: World, tmp_path: Path) -> None:
    world.backup = config(tmp_path / "bucket", "backup", format="text", prefix="texts")
    put_all(world.store, sealed_batches(world.backup, world.workspace))
    with pytest.raises(ConfigurationError, match="text records no offsets"):
        world.plan()


def test_messages_of_a_recreated_topic_are_not_mixed(world: World) -> None:
    for number, key in enumerate(sorted(fake(world).objects)):
        if key.startswith("backup/"):
            one = fake(world).objects[key]
            one.metadata["topic-id"] = f"id-{number}"
    plan = world.plan(offsets(0, 0, 20))
    assert plan.batches[0].topic_id is not None
    for key, one in fake(world).objects.items():
        if key.startswith("partition/") and one.metadata["batch-start"] == "0":
            one.metadata["batch-end"] = "40"
    with pytest.raises(ConfigurationError, match="two topics"):
        world.plan(offsets(0, 0, 20))


def test_a_plan_survives_its_file_and_keeps_its_id(world: World) -> None:
    plan = world.plan()
    again = decode_plan(encode(plan), "plan.json")
    assert again == plan
    assert again.id == plan.id
    with pytest.raises(ConfigurationError, match=r"plan\.json"):
        decode_plan(b"{}", "plan.json")
    with pytest.raises(ConfigurationError, match="plan again"):
        decode_plan(encode(replace(plan, version=9)), "plan.json")


def test_very_many_objects_are_chosen_by_their_names_alone() -> None:
    names = [
        ArchivedObject("t", ObjectName("b/t", "offset=0", 1, 0, at * 10, ".seq"), 100, 0.0)
        for at in range(200_000)
    ]
    chosen, covers = chosen_by_name(names, OffsetRange(1_000_005, 1_000_025))
    assert [one.name.start_offset for one in chosen] == [1_000_000, 1_000_010, 1_000_020]
    parts = within(segments_of(covers), OffsetRange(1_000_005, 1_000_025))
    assert [(part.start, part.end) for part in parts] == [
        (1_000_005, 1_000_010),
        (1_000_010, 1_000_020),
        (1_000_020, 1_000_025),
    ]


@pytest.mark.parametrize("second", [90, 103], ids=["by range", "by first message"])
def test_the_objects_of_a_batch_over_the_edge_of_a_bucket_share_its_range(second: int) -> None:
    """Of two objects of one start offset, the bucket tells which has what."""
    names = [
        ObjectName("b/t", bucket, 1, 0, start, ".seq")
        for bucket, start in [("offset=0", 90), ("offset=100", second), ("offset=100", 110)]
    ]
    objects = [ArchivedObject("t", name, 100, 0.0) for name in names]
    chosen, covers = chosen_by_name(objects, OffsetRange(95, 105))
    assert [one.name for one in chosen] == names[:2]
    edge = max(second, 100)
    assert [(part.start, part.end) for part in segments_of(covers)] == [(90, edge), (edge, 110)]
    info = ObjectInfo(TopicPartition("t", 0), OffsetRange(90, 110), 0, 1, 1, "f" * 16)
    described = [replace(one, info=info) for one in objects[:2]]
    assert [(part.start, part.end) for part in covers_of(described)] == [(90, edge), (edge, 110)]


def test_ranges_meet_overlap_and_leave_gaps() -> None:
    a, b, c = OffsetRange(0, 10), OffsetRange(10, 20), OffsetRange(15, 30)
    assert merged([c, a, b]) == [OffsetRange(0, 30)]
    assert merged([c, a, b], touching=False) == [a, OffsetRange(10, 30)]
    parts = [Segment("x", 5, 10, 1), Segment("y", 12, 20, 1)]
    assert gaps(parts, OffsetRange(0, 25)) == [
        OffsetRange(0, 5),
        OffsetRange(10, 12),
        OffsetRange(20, 25),
    ]


def test_batches_are_cut_where_the_old_ones_were_and_else_as_the_backup() -> None:
    old = [OffsetRange(10, 20), OffsetRange(10, 20), OffsetRange(20, 30)]
    parts = [Segment("x", start, start + 10, 1) for start in (0, 5, 15, 30, 40)]
    assert cut(OffsetRange(0, 50), old, parts) == [
        OffsetRange(0, 5),
        OffsetRange(5, 10),
        OffsetRange(10, 20),
        OffsetRange(20, 30),
        OffsetRange(30, 40),
        OffsetRange(40, 50),
    ]


@pytest.mark.parametrize(
    ("prefix", "hashed", "key", "staged"),
    [
        ("a/b", False, "a/b/t/dt=1/1_0_x", "a/b/_backfill/id/t/dt=1/1_0_x"),
        ("", False, "t/dt=1/1_0_x", "_backfill/id/t/dt=1/1_0_x"),
        ("a", True, "12ab/a/t/dt=1/1_0_x", "12ab/a/_backfill/id/t/dt=1/1_0_x"),
        ("a", False, "a/_quarantine/t/1_0_x", "a/_backfill/id/_quarantine/t/1_0_x"),
    ],
)
def test_staged_objects_have_a_prefix_of_their_own(
    prefix: str, hashed: bool, key: str, staged: str
) -> None:
    places = BackfillPaths(prefix, hashed, "t", "id")
    assert places.staged(key) == staged
    assert places.replaced(key) == staged.replace("_backfill", "_replaced")
    [own] = places.staging()
    assert places.journal("x") == f"{own}_journal/x.json"
    if not hashed:
        assert staged.startswith(own)


def test_staged_and_replaced_objects_are_no_topics(world: World) -> None:
    for directory in ("_backfill", "_replaced"):
        local = world.workspace.create()
        local.finish()
        world.store.put(f"partition/{directory}/id/{TOPIC}/dt=1/1_0_{7:020d}.gz", local.path, 0, {})
    assert world.planner().archive.topics() == [TOPIC]


@pytest.fixture
def nameless(tmp_path: Path) -> Iterator[World]:
    """Return a world whose partition group is Java Secor: its objects have no metadata."""
    made = World.made(FakeStore(), tmp_path / "nameless", names_alone=True)
    yield made
    made.workspace.close()


def test_names_alone_give_the_plan_that_metadata_give(world: World, nameless: World) -> None:
    for wanted in (offsets(0, 25, 41), offsets(1, 0, 5), None):
        plan, other = world.plan(wanted), nameless.plan(wanted)
        assert ranges(plan) == ranges(other)
        assert [one.key for one in plan.replaced] == [one.key for one in other.replaced]
        assert plan.batches[0].inputs == other.batches[0].inputs
        assert "Java Secor" in other.notes[-1]
        assert not plan.notes
    key = f"partition/{TOPIC}/dt=2023-11-15/1_1_{30:020d}.txt.gz"
    assert ranges(nameless.plan(RequestedMessages(keys=[key]))) == [(1, 30, 60)]


def test_of_names_alone_the_last_batch_ends_at_the_committed_offset(nameless: World) -> None:
    plan = nameless.planner(lambda _: 55).plan(offsets(0, 41, 60))
    assert ranges(plan) == [(0, 40, 55)]
    with pytest.raises(ConfigurationError, match=r"1_0_0*40.*no later object says where it ends"):
        nameless.planner(lambda _: None).plan(offsets(0, 41, 60))
    assert ranges(nameless.planner(lambda _: None).plan(offsets(0, 1, 5))) == [(0, 0, 20)]


def test_what_was_uploaded_and_never_committed_is_left_where_it_is(nameless: World) -> None:
    plan = nameless.planner(lambda _: 40).plan(offsets(0, 25, 60))
    assert ranges(plan) == [(0, 20, 40)]
    assert not [one.key for one in plan.replaced if f"{40:020d}" in one.key]


def test_of_names_alone_a_batch_ends_within_its_generation_or_where_the_next_one_begins(
    nameless: World,
) -> None:
    newer = nameless.faulty.model_copy(
        update={"output": nameless.faulty.output.model_copy(update={"generation": 3})}
    )
    shelf = [it for it in sealed_batches(newer, nameless.workspace) if it.range.start == 40]
    put_all(nameless.store, shelf, names_alone=True)
    oldest = nameless.faulty.output.prefix
    for stored in list(nameless.store.list(f"{oldest}/")):
        if f"1_0_{40:020d}" in stored.key:
            nameless.store.delete(stored.key)
    plan = nameless.plan(offsets(0, 21, 22))
    assert ranges(plan) == [(0, 20, 40)]
    assert plan.generation == 2
    assert nameless.plan(offsets(0, 41, 42)).generation == 4
