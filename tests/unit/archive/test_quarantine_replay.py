"""Replaying the quarantine: every message once, whatever interrupts it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from secor.archive.kept_schemas import KeptSchema, KeptSchemas
from secor.archive.quarantine.listing import counted, marker_key, markers, quarantined
from secor.archive.quarantine.replay import Replay, ReplayResult, fixed_plan
from secor.archive.repair.move_offset import move, plan_move
from secor.batch.plan import TopicPlan
from secor.core.errors import ConfigurationError, CorruptFile, DiskFull
from secor.core.model import Entry, OffsetRange
from secor.core.naming import ObjectName, parse_key
from secor.core.ports import Sink
from secor.parsing.parts import REASON_HEADER
from secor.wiring.plans import plan_for, replaying_plans
from tests.fakes.clock import FakeClock
from tests.fakes.failing_format import FailingFormat, refuse
from tests.unit.archive.parsed_world import HERE, NO_BOTS, WHEN, World, config


class Crash(BaseException):
    """The process is killed."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "local")
    made.consume()
    return made


def test_line_18_a_message_without_a_time_is_quarantined_and_is_never_of_1970(world: World) -> None:
    """Scenario 18: no silent 1970, nothing dropped without trace."""
    assert world.data == {"dt=2023-11-14": [0, 3]}
    assert world.bad == {"": [1, 2, 4, 5]}


def test_the_quarantine_tells_why_and_gives_the_message_as_it_came(world: World) -> None:
    [found] = quarantined(world.archive, "clicks")
    reasons = counted(world.archive, found).reasons
    assert reasons.total() == 4
    assert {reason.partition(":")[0] for reason in reasons} == {"time", "decode"}
    [records] = list(world.archive.read(found))
    assert [row["headers"][-1]["key"] for row in records.to_pylist()] == [REASON_HEADER] * 4


def test_a_replay_places_what_is_good_now_and_keeps_what_is_still_bad(world: World) -> None:
    [done] = world.replay({**WHEN, "transforms": [NO_BOTS]})
    assert (done.placed, done.filtered, done.bad) == (2, 1, 1)
    assert world.data == {"dt=2023-11-14": [4, 0, 3], "dt=2023-11-15": [1]}
    assert world.bad == {"replay=1": [2]}
    key = "p/clicks/dt=2023-11-15/1_0_00000000000000000000.replayed-1.seq"
    metadata = world.store.head(key).metadata or {}
    assert (metadata["batch-start"], metadata["batch-end"]) == ("0", "6")
    assert metadata["replay-of"] == "1_0_00000000000000000000.seq"


def test_a_replay_said_again_changes_nothing(world: World) -> None:
    world.replay(WHEN)
    before = dict(world.store.objects)
    [again] = world.replay(WHEN)
    assert again.skipped == "every message is still bad"
    assert world.store.objects == before
    world.once()


def test_what_stays_bad_can_be_replayed_once_more(world: World) -> None:
    world.replay(WHEN)
    [done] = world.replay({"decoder": "none"})
    assert (done.placed, done.bad) == (1, 0)
    assert world.bad == {}
    world.once()


def test_a_dry_run_only_tells(world: World) -> None:
    before = dict(world.store.objects)
    [done] = world.replay(WHEN, dry_run=True)
    assert (done.placed, done.bad) == (3, 1)
    assert world.store.objects == before


def test_what_is_not_committed_yet_is_left_alone(world: World) -> None:
    world.ledger.entries[HERE] = Entry(3)
    [done] = world.replay(WHEN)
    assert done.skipped is not None
    assert "not committed" in done.skipped
    assert world.bad == {"": [1, 2, 4, 5]}


def test_what_another_replay_has_done_meanwhile_is_done(world: World) -> None:
    [found] = quarantined(world.archive, "clicks")
    world.replay(WHEN)
    before = dict(world.store.objects)
    plan = plan_for(config(WHEN), "clicks", limited=False)
    doing = Replay(world.archive, fixed_plan(plan), world.ledger, world.workspace(), FakeClock())
    done = doing.replay(found)
    assert done.gone
    assert (done.placed, done.bad, done.skipped) == (0, 0, None)
    assert world.store.objects == before


def test_messages_of_a_topic_that_was_made_again_may_be_placed(tmp_path: Path) -> None:
    """Their batch is as committed as it will ever be: the ledger tells of the new topic."""
    world = World(tmp_path / "local")
    world.consume(topic_id="old")
    world.ledger.entries[HERE] = Entry(2, topic_id="old")
    [waiting] = world.replay(WHEN)
    assert waiting.skipped is not None
    world.ledger.entries[HERE] = Entry(2, topic_id="new")
    [done] = world.replay(WHEN)
    assert (done.placed, done.bad) == (3, 1)


def crash_at(world: World, number: int, *, before: bool) -> None:
    """Let the process die around the ``number``th call that changes the store."""
    calls = iter(range(1000))

    def hook(call: str, key: str) -> None:
        del key
        if call in ("put", "delete") and next(calls) == number:
            raise Crash

    setattr(world.store, "before" if before else "after", hook)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_a_crash_at_any_step_and_the_same_replay_end_with_each_message_once(
    world: World, number: int, before: bool
) -> None:
    # Marker, two files, successor in quarantine, deletion.
    crash_at(world, number, before=before)
    with pytest.raises(Crash):
        world.replay(WHEN)
    world.store.before = world.store.after = lambda _call, _key: None
    world.replay(WHEN)
    world.once()
    assert world.bad == {"replay=1": [2]}


def test_a_marker_that_is_none_is_told_of_and_nothing_is_placed(
    world: World, tmp_path: Path
) -> None:
    [found] = quarantined(world.archive, "clicks")
    path = tmp_path / "marker"
    path.write_bytes(b"[]")
    world.store.put(marker_key(found.name), path, crc32c(b"[]"), {})
    before = dict(world.store.objects)
    with pytest.raises(CorruptFile, match="is no marker of a replay"):
        world.replay(WHEN)
    assert world.store.objects == before


def test_a_replay_begun_under_another_configuration_is_not_mixed_with_this_one(
    world: World,
) -> None:
    crash_at(world, 2, before=False)
    with pytest.raises(Crash):
        world.replay({**WHEN, "layout": "hour={time:%H}"})
    world.store.after = lambda _call, _key: None
    with pytest.raises(ConfigurationError, match="--take-over"):
        world.replay(WHEN)
    world.replay(WHEN, take_over=True)
    world.once()
    assert set(world.data) == {"dt=2023-11-14", "dt=2023-11-15"}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(8))
def test_a_crash_at_any_step_of_taking_over_is_answered_by_taking_over_again(
    world: World, number: int, before: bool
) -> None:
    # Of the first: marker, two files, successor.  Deleted: these; then anew, and deletion.
    crash_at(world, 4, before=True)
    with pytest.raises(Crash):
        world.replay({**WHEN, "layout": "hour={time:%H}"})
    world.store.before = lambda _call, _key: None
    crash_at(world, number, before=before)
    with pytest.raises(Crash):
        world.replay(WHEN, take_over=True)
    world.store.before = world.store.after = lambda _call, _key: None
    world.replay(WHEN, take_over=True)
    world.once()
    assert set(world.data) == {"dt=2023-11-14", "dt=2023-11-15"}
    assert world.bad == {"replay=1": [2]}


def test_a_process_that_slept_cannot_place_the_messages_once_more(world: World) -> None:
    """It read the quarantine, another replayed it, then it goes on under its own plan."""

    def sleep(call: str, key: str) -> None:
        if call == "put" and "_replay_" in key:
            world.store.before = lambda _call, _key: None
            world.replay(WHEN)

    world.store.before = sleep
    with pytest.raises(ConfigurationError, match="another configuration"):
        world.replay({**WHEN, "layout": "hour={time:%H}"})
    world.once()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_two_replays_at_once_place_each_message_once(
    world: World, number: int, before: bool
) -> None:
    """Around the ``number``th change that one makes, the other does all of its work."""
    calls = iter(range(1000))

    def other(call: str, key: str) -> None:
        del key
        if call in ("put", "delete") and next(calls) == number:
            world.store.before = world.store.after = lambda _call, _key: None
            world.replay(WHEN)
            world.once()

    setattr(world.store, "before" if before else "after", other)
    world.replay(WHEN)
    world.once()
    assert world.bad == {"replay=1": [2]}
    world.replay(WHEN)
    world.once()


def test_an_operator_who_stores_again_deletes_quarantine_results_and_markers(
    world: World,
) -> None:
    world.replay(WHEN)
    planned = plan_move(world.ledger, world.archive, HERE, 0, generation=1, delete_objects=True)
    move(world.ledger, world.archive, planned)
    assert world.store.objects == {}


def test_the_marker_is_no_object_of_messages(world: World) -> None:
    world.replay(WHEN)
    name = ObjectName("p/_quarantine/clicks", "", 1, 0, 0, ".seq")
    key = marker_key(name)
    assert markers(world.archive, HERE, start=0, generation=1) == [key]
    assert markers(world.archive, HERE, start=1, generation=1) == []
    assert parse_key(name.root, key) is None
    body = json.loads(world.store.content(key))
    assert sum(body["objects"].values()) == 4


def test_messages_of_another_generation_stay_in_it(world: World) -> None:
    [found] = quarantined(world.archive, "clicks")
    assert found.info is not None
    assert found.info.batch == OffsetRange(0, 6)
    plan = replace(plan_for(config(WHEN), "clicks", limited=False), generation=9)
    doing = Replay(world.archive, fixed_plan(plan), world.ledger, world.workspace(), FakeClock())
    done = doing.replay(found)
    assert {key.rpartition("/")[2][:2] for key in done.keys} == {"1_"}


# ---------------------------------------------------------- schemas kept with the objects


@pytest.fixture
def growing(tmp_path: Path) -> World:
    """All is in quarantine, and no schema is known yet."""
    made = World(tmp_path / "local", format="parquet")
    made.consume(plan_for(config({"time_field": "none_such"}, "parquet"), "clicks"))
    return made


def columns(world: World) -> set[str]:
    """The columns of the only file among the data."""
    [key] = [key for key in world.store.objects if parse_key("p/clicks", key)]
    return set(pq.read_schema(io.BytesIO(world.store.content(key))).names)


WHOLE = {"layout": "offset={offset:10}"}


def schemas(world: World) -> list[str]:
    return sorted(key for key in world.store.objects if "_schema/" in key)


def test_a_replay_lets_the_kept_schema_grow_as_the_daemon_does(growing: World) -> None:
    [done] = growing.replay(WHOLE)
    assert (done.placed, done.bad) == (5, 1)
    assert columns(growing) >= {"time", "when", "bot"}
    assert schemas(growing)[0] == "p/_schema/clicks/1_0001.json"


def test_a_replay_grows_the_schema_of_the_generation_that_its_results_are_of(
    growing: World,
) -> None:
    [found] = quarantined(growing.archive, "clicks")
    settings = config(WHOLE, "parquet")
    second = settings.output.model_copy(update={"generation": 2})
    settings = settings.model_copy(update={"output": second})
    assert settings.for_topic("clicks").output.generation == 2
    plans = replaying_plans(settings, "clicks", growing.store, growing.told, dry_run=False)
    doing = Replay(growing.archive, plans, growing.ledger, growing.workspace(), FakeClock())
    assert doing.replay(found).placed == 5
    assert schemas(growing) == ["p/_schema/clicks/1_0001.json"]


def test_a_dry_run_tells_of_growth_and_lets_nothing_grow(growing: World) -> None:
    before = dict(growing.store.objects)
    [told] = growing.replay(WHOLE, dry_run=True)
    assert growing.store.objects == before
    [done] = growing.replay(WHOLE)
    assert (told.placed, told.bad, told.reasons) == (done.placed, done.bad, done.reasons)


@pytest.mark.parametrize("number", range(5))
def test_a_schema_that_grew_meanwhile_is_no_other_configuration(
    growing: World, number: int
) -> None:
    crash_at(growing, number, before=False)
    with pytest.raises(Crash):
        growing.replay(WHOLE)
    growing.store.after = lambda _call, _key: None
    kept = KeptSchemas(growing.store, "p/clicks", 1)
    newest = kept.newest()
    late = pa.struct([*newest.fields, pa.field("late", pa.string())])
    kept.add(KeptSchema(newest.version + 1, late))
    growing.replay(WHOLE)
    placed = [key for key in growing.store.objects if parse_key("p/clicks", key)]
    assert len(placed) == 1
    [bad] = quarantined(growing.archive, "clicks")
    assert bad.name.output_partition == "replay=1"


class FullDisk:
    """A format whose files cannot be written."""

    extension = ".seq"
    identity = "full"

    def create(self, sink: Sink, seed: bytes) -> NoReturn:
        raise DiskFull("no room")

    def read(self, file: BinaryIO, name: str) -> NoReturn:
        raise AssertionError(name)


def test_line_20_a_write_error_is_never_taken_for_a_bad_message(tmp_path: Path) -> None:
    """Scenario 20: the messages stay where they are, and nothing says that they are bad."""
    world = World(tmp_path / "local")
    plan = replace(plan_for(config({"time_field": "time"}), "clicks"), log_format=FullDisk())
    with pytest.raises(DiskFull):
        world.consume(plan)
    assert world.store.objects == {}
    world.consume()
    before = dict(world.store.objects)
    [found] = quarantined(world.archive, "clicks")
    plan = replace(plan_for(config(WHEN), "clicks", limited=False), log_format=FullDisk())
    doing = Replay(world.archive, fixed_plan(plan), world.ledger, world.workspace(), FakeClock())
    with pytest.raises(DiskFull):
        doing.replay(found)
    assert world.store.objects == before


def test_a_message_that_no_file_could_hold_stays_until_the_program_can_write_it(
    world: World,
) -> None:
    plan = plan_for(config(WHEN), "clicks", limited=False)
    failing = replace(plan, log_format=FailingFormat(plan.log_format, refuse("close", 4)))

    def replay(plan: TopicPlan) -> ReplayResult:
        [found] = quarantined(world.archive, "clicks")
        ports = fixed_plan(plan), world.ledger, world.workspace(), FakeClock()
        doing = Replay(world.archive, *ports)
        return doing.replay(found)

    done = replay(failing)
    assert (done.placed, done.bad) == (2, 2)
    assert (
        "process: this message cannot be written: ArrowInvalid: value out of range" in done.reasons
    )
    done = replay(plan)
    assert (done.placed, done.bad) == (1, 1)
    world.once()
