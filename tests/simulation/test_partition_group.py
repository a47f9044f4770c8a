"""The small world once more, with messages that are parsed.

They go under several output partitions, into quarantine, to another topic's directory, or
nowhere; each to exactly one of these, whatever crashes, also where the rules change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from secor.archive.kept_schemas import KeptSchema, KeptSchemas
from secor.batch.policy import Policy
from tests.simulation.chaos import Fault, Kind, failures
from tests.simulation.parsed import CYCLE, GROWING, PARSED, Rules
from tests.simulation.process import Setup
from tests.simulation.scripted import calls_of, calls_without_faults
from tests.simulation.world import Scene, World, new_world

SCENE = Scene(partitions=1, restart_after=15.0, parsed=True)
KAFKA = replace(SCENE, ledger="kafka")
WORLDS = [pytest.param(SCENE, id="zookeeper"), pytest.param(KAFKA, id="kafka")]
RESHAPING = [
    pytest.param(replace(SCENE, changing=True), id="zookeeper"),
    pytest.param(replace(KAFKA, changing=True), id="kafka"),
]
# In a Kafka ledger only waiting for releases keeps two configurations apart.
STALLING = [
    pytest.param(replace(SCENE, changing=True), id="zookeeper"),
    pytest.param(
        replace(
            KAFKA,
            changing=True,
        ),
        id="kafka",
    ),
]
# Each configuration once, the ledgers by turns: the protocol does not tell them apart.
CHANGES = [
    pytest.param(RESHAPING[number % 2].values[0], configuration, id=f"{number} {ledger}")
    for number, (configuration, ledger) in enumerate(
        zip(PARSED, ("zookeeper", "kafka") * len(PARSED), strict=False)
    )
]
SETUP = Setup(policy=Policy(max_messages=3, max_age=8.0), rules=Rules())
STALL = 30.0
GROWS = replace(SCENE, growing=True)
GROWING_WORLDS = [
    pytest.param(GROWS, id="zookeeper"),
    pytest.param(replace(GROWS, ledger="kafka"), id="kafka"),
]
GROWING_SETUP = replace(SETUP, rules=Rules(growing=True))


def one_process(world: World) -> None:
    world.log().append(len(CYCLE))
    world.start(SETUP)


def one_batch(world: World) -> None:
    """Its files in quarantine, and of one day, have a message that can do without the first."""
    world.log().append(len(CYCLE))
    world.start(replace(SETUP, policy=Policy(max_messages=len(CYCLE), max_age=8.0)))


def two_processes(world: World) -> None:
    one_process(world)
    world.start(SETUP)


@pytest.mark.parametrize("scene", WORLDS)
def test_each_message_goes_where_it_belongs_and_nowhere_else(scene: Scene) -> None:
    with new_world(scene) as world:
        one_process(world)
        world.settle()
        directories = {key.rpartition("/")[0] for key in world.watch.objects}
        assert directories == {
            "backup/clicks/dt=2026-11-20",
            "backup/clicks/dt=2026-11-21",
            "backup/_quarantine/clicks",
            "backup/views/from=clicks/dt=2026-11-20",
            "backup/views/from=clicks/dt=2026-11-22",
            "backup/alerts/from=clicks/dt=2026-11-21",
        }
        assert sorted(offset for _, offset in world.watch.holder) == [0, 1, 2, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("scene", WORLDS)
def test_batches_of_which_nothing_is_left_move_the_offset(scene: Scene) -> None:
    with new_world(scene) as world:
        world.log().message = lambda _, number: b'{"kind": "debug", "id": %d}' % number
        one_process(world)
        world.settle()
        assert not world.store.audit
        assert [call.name for call in world.calls if call.phase == "after"].count("commit") > 2


@pytest.mark.parametrize("scene", WORLDS)
@pytest.mark.parametrize("kind", [Kind.CRASH, Kind.STALL_PROCESS])
def test_one_fault_at_any_call_breaks_no_promise(scene: Scene, kind: Kind) -> None:
    fault = Fault(kind, 0.0 if kind is Kind.CRASH else STALL)
    for number in range(len(calls_without_faults(scene, two_processes))):
        calls_of(scene, {number: fault}, two_processes)


@pytest.mark.parametrize("scene", WORLDS)
@pytest.mark.slow
def test_any_error_of_any_call_breaks_no_promise(scene: Scene) -> None:
    for call in calls_without_faults(scene, one_process):
        for error in failures(call):
            calls_of(scene, {call.number: Fault(Kind.FAIL, error=error)}, one_process)


@pytest.mark.parametrize(("scene", "configuration"), CHANGES)
@pytest.mark.slow
def test_a_successor_with_other_rules_breaks_no_promise(
    scene: Scene, configuration: Callable[[], dict[str, object]]
) -> None:
    def prepare(world: World) -> None:
        world.successor = lambda setup: replace(
            setup,
            policy=Policy(max_messages=2, max_age=8.0),
            **configuration(),  # type: ignore[arg-type]
        )
        one_process(world)

    for number in range(len(calls_without_faults(scene, one_process))):
        calls_of(scene, {number: Fault(Kind.CRASH)}, prepare)


@pytest.mark.parametrize("configuration", [PARSED[2], PARSED[5]], ids=["filter", "routes"])
@pytest.mark.parametrize("scene", STALLING)
@pytest.mark.slow
def test_a_sleeper_beside_a_successor_with_other_rules_breaks_no_promise(
    scene: Scene, configuration: Callable[[], dict[str, object]]
) -> None:
    def prepare(world: World) -> None:
        world.log().append(4)
        world.start(SETUP)
        world.start(replace(SETUP, **configuration()))  # type: ignore[arg-type]

    for number in range(len(calls_without_faults(scene, prepare))):
        calls_of(scene, {number: Fault(Kind.STALL_PROCESS, STALL)}, prepare)


@pytest.mark.parametrize("gone", [{0}, {1}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("scene", RESHAPING[:1])
def test_compaction_between_crash_and_recovery_breaks_no_promise(
    scene: Scene, gone: set[int]
) -> None:
    def prepare(world: World) -> None:
        def compact() -> None:
            for offset in gone:
                world.log().drop(offset)

        world.between = compact
        one_batch(world)

    for number in range(len(calls_without_faults(scene, one_batch))):
        calls_of(scene, {number: Fault(Kind.CRASH)}, prepare)


def one_that_grows(world: World) -> None:
    world.log().append(len(GROWING))
    world.start(GROWING_SETUP)


def two_that_grow(world: World) -> None:
    """Each has a partition of its own, and the schema is of both."""
    for log in world.broker.logs.values():
        log.append(len(GROWING))
    world.start(GROWING_SETUP)
    world.start(GROWING_SETUP)


def newest_of(world: World) -> KeptSchema:
    return KeptSchemas(world.store, "backup/clicks", 1).newest()


@pytest.mark.parametrize("scene", GROWING_WORLDS)
def test_a_schema_grows_by_what_is_stored_and_by_nothing_else(scene: Scene) -> None:
    with new_world(scene) as world:
        one_that_grows(world)
        world.settle()
        newest = newest_of(world)
        assert {field.name: str(field.type) for field in newest.fields} == {
            "at": "int64",
            "id": "string",
            "kind": "string",
            "n": "double",
            "tags": "list<item: string>",
            "to": "string",
            "user": "string",
        }
        quarantined = {
            offset
            for (_, offset), key in world.watch.holder.items()
            if key.startswith("backup/_quarantine/")
        }
        assert quarantined == {4, 5, 6}
        # A batch ends before each message that needs more.
        batches = {seen.info.batch.start for seen in world.watch.objects.values()}
        assert {3, 8, 9} <= batches


# The protocol is that of the worlds above: here it is about the calls that tell of schemas, and
# about crashes that make one process read what the other has made of it.
@pytest.mark.slow
def test_a_crash_at_any_call_of_a_world_that_grows_breaks_no_promise() -> None:
    scene = replace(GROWS, partitions=2)
    for call in calls_without_faults(scene, two_that_grow):
        if call.phase == "after":
            calls_of(scene, {call.number: Fault(Kind.CRASH)}, two_that_grow)


@pytest.mark.slow
def test_no_fault_where_schemas_are_kept_breaks_a_promise() -> None:
    scene = replace(GROWS, partitions=2)
    about = [call for call in calls_without_faults(scene, two_that_grow) if "_schema" in call.what]
    assert {call.name for call in about} == {"list", "open", "put"}
    for call in about:
        faults = [Fault(Kind.STALL_PROCESS, STALL)]
        faults += [Fault(Kind.FAIL, error=error) for error in failures(call)]
        if (call.name, call.phase) == ("put", "before"):
            faults.append(Fault(Kind.LATE, STALL))
        for fault in faults:
            calls_of(scene, {call.number: fault}, two_that_grow)


@pytest.mark.parametrize("rules", [Rules(), Rules(day="month=%Y-%m", growing=True)], ids=str)
@pytest.mark.slow
def test_a_successor_that_reads_what_grew_otherwise_breaks_no_promise(rules: Rules) -> None:
    scene = replace(GROWS, changing=True)

    def prepare(world: World) -> None:
        world.successor = lambda setup: replace(setup, rules=rules)
        one_that_grows(world)

    for call in calls_without_faults(scene, one_that_grows):
        if call.phase == "after":
            calls_of(scene, {call.number: Fault(Kind.CRASH)}, prepare)
