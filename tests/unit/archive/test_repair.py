from __future__ import annotations

from pathlib import Path

import pytest

from secor.archive.objects import Archive
from secor.archive.repair.accept_topic import plan_acceptance
from secor.archive.repair.move_offset import move, plan_move
from secor.archive.repair.recover_ledger import RecoveredEntry, plan_recovery, recover
from secor.archive.repair.stored_ranges import extents_of
from secor.core.errors import ConfigurationError, LeaseLost, Refused
from secor.core.model import Entry, Intent, OffsetRange, TopicPartition
from secor.core.object_info import ObjectInfo
from secor.formats import make_format
from tests.fakes.archive import CLICKS, MemoryLog, OperatorLedger, Shelf, messages

INTENT = Intent(40, 60, "f", "host-1", 0.0, "backup/clicks")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "bucket", make_format("text"))
    for start, end in [(0, 10), (10, 25), (25, 40)]:
        shelf.put(messages(range(start, end)), OffsetRange(start, end), topic_id="id-1")
    return shelf


@pytest.fixture
def archive(shelf: Shelf) -> Archive:
    return Archive(shelf.store, "backup")


def keys(archive: Archive) -> list[int]:
    return [one.name.start_offset for one in archive.objects("clicks")]


def test_moving_back_over_objects_is_refused_with_the_two_ways_out(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)})
    with pytest.raises(ConfigurationError, match=r"--delete-objects.*--new-generation"):
        plan_move(ledger, archive, CLICKS, 10, generation=1)


def test_moving_back_deletes_the_objects_when_told(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40, topic_id="id-1")})
    planned = plan_move(ledger, archive, CLICKS, 10, generation=1, delete_objects=True)
    assert keys(archive) == [0, 10, 25]
    assert [key[-6:-4] for key in planned.delete] == ["25", "10"]
    assert move(ledger, archive, planned) == Entry(10, topic_id="id-1")
    assert keys(archive) == [0]
    assert ledger.leased == []


def test_an_object_on_both_sides_of_the_offset_is_never_deleted(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)})
    with pytest.raises(ConfigurationError, match=r"move to 10, .* or to 25"):
        plan_move(ledger, archive, CLICKS, 15, generation=1, delete_objects=True)


def test_a_new_generation_must_be_greater_than_that_of_the_objects(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)})
    with pytest.raises(ConfigurationError, match=r"output.generation = 2 or more"):
        plan_move(ledger, archive, CLICKS, 15, generation=1, new_generation=True)
    planned = plan_move(ledger, archive, CLICKS, 15, generation=2, new_generation=True)
    move(ledger, archive, planned)
    assert ledger.entries[CLICKS].committed == 15
    assert keys(archive) == [0, 10, 25]


def test_moving_forward_says_what_is_skipped(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)})
    planned = plan_move(ledger, archive, CLICKS, 55, generation=1)
    assert any("[40, 55)" in remark for remark in planned.remarks)
    assert move(ledger, archive, planned).committed == 55


def test_an_open_intent_is_dropped_only_when_asked(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40, INTENT)})
    with pytest.raises(ConfigurationError, match="--drop-intent"):
        plan_move(ledger, archive, CLICKS, 40, generation=1)
    planned = plan_move(ledger, archive, CLICKS, 40, generation=1, drop_intent=True)
    assert move(ledger, archive, planned) == Entry(40)


def test_an_entry_that_changed_since_is_left_alone(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)})
    planned = plan_move(ledger, archive, CLICKS, 10, generation=1, delete_objects=True)
    ledger.entries[CLICKS] = Entry(60)
    with pytest.raises(Refused):
        move(ledger, archive, planned)
    assert ledger.entries[CLICKS] == Entry(60)
    assert keys(archive) == [0, 10, 25]
    assert ledger.leased == []


def test_what_cannot_be_read_is_overwritten_by_the_offset(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)}, corrupt={CLICKS})
    planned = plan_move(ledger, archive, CLICKS, 40, generation=1)
    assert planned.before is None
    assert planned.remarks == ("the present entry cannot be read, and is overwritten",)
    assert move(ledger, archive, planned) == Entry(40)
    ledger.corrupt.add(CLICKS)
    with pytest.raises(ConfigurationError, match="--delete-objects"):
        plan_move(ledger, archive, CLICKS, 10, generation=1)
    ledger.corrupt.clear()
    with pytest.raises(Refused, match="changed meanwhile"):
        move(ledger, archive, planned)


JAVA = Path(__file__).parents[2] / "vectors/java-secor/s3/seq_default"


def test_java_secors_last_objects_end_where_their_last_message_does(
    shelf: Shelf, archive: Archive
) -> None:
    for path in JAVA.rglob("1_*"):
        shelf.put_bytes(f"backup/{path.relative_to(JAVA)}", path.read_bytes(), {})
    key = TopicPartition("c_raw", 0)
    ends = [(one.start, one.end) for one in extents_of(archive, key)]
    assert sorted(set(ends)) == [(0, 20), (20, 25), (20, 40)]
    planned = plan_move(OperatorLedger({}), archive, key, 40, generation=1)
    assert planned.delete == ()
    with pytest.raises(ConfigurationError, match="hold offsets at or above 39"):
        plan_move(OperatorLedger({}), archive, key, 39, generation=1)


def test_while_the_service_holds_the_lease_nothing_is_deleted(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40)}, busy={CLICKS})
    planned = plan_move(ledger, archive, CLICKS, 10, generation=1, delete_objects=True)
    with pytest.raises(LeaseLost):
        move(ledger, archive, planned)
    assert keys(archive) == [0, 10, 25]


def test_objects_without_metadata_reach_to_the_next(shelf: Shelf, archive: Archive) -> None:
    for first in (0, 20):
        shelf.put_bytes(f"backup/old/offset=0/1_0_{first:020d}", b"x\n", {})
    old = type(CLICKS)("old", 0)
    ledger = OperatorLedger({old: Entry(40)})
    planned = plan_move(ledger, archive, old, 20, generation=1, delete_objects=True)
    assert planned.delete == ("backup/old/offset=0/1_0_00000000000000000020",)
    with pytest.raises(ConfigurationError, match="move to 20"):
        plan_move(ledger, archive, old, 30, generation=1, delete_objects=True)


def recovery(ledger: OperatorLedger, archive: Archive, log: MemoryLog) -> RecoveredEntry | None:
    return plan_recovery(ledger, archive, CLICKS, generation=1, log=log, owner="op", now=1.0)


def log_of(end: int) -> MemoryLog:
    log = MemoryLog()
    log.put(CLICKS, messages(range(end)), end)
    return log


def test_a_lost_entry_is_rebuilt_at_the_end_of_the_last_batch(archive: Archive) -> None:
    ledger = OperatorLedger()
    planned = recovery(ledger, archive, log_of(50))
    assert planned == RecoveredEntry(CLICKS, 40, "id-1")
    assert recover(ledger, planned) == Entry(40, topic_id="id-1")
    assert recovery(ledger, archive, log_of(50)) is None
    with pytest.raises(Refused):
        recover(ledger, planned)


def test_a_last_batch_that_lacks_objects_is_left_to_the_service(
    shelf: Shelf, archive: Archive
) -> None:
    shelf.put(messages(range(40, 45)), OffsetRange(40, 50))
    ledger = OperatorLedger()
    planned = recovery(ledger, archive, log_of(60))
    assert planned
    recover(ledger, planned)
    entry = ledger.entries[CLICKS]
    assert entry.committed == 40
    assert entry.intent == Intent(40, 50, "f" * 16, "op", 1.0, "backup/clicks")


def test_a_batch_left_to_the_service_tells_where_a_route_led(shelf: Shelf) -> None:
    info = ObjectInfo(CLICKS, OffsetRange(40, 50), 41, 1, 1, "f" * 16, "id-1")
    key = "backup/views/from=clicks/dt=2026-11-21/1_0_00000000000000000041.txt"
    shelf.put_bytes(key, b"payload 41\n", info.metadata())
    archive = Archive(shelf.store, "backup", targets=("views",))
    planned = recovery(OperatorLedger(), archive, log_of(60))
    assert planned is not None
    assert planned.intent is not None
    assert planned.intent.also == ("backup/views",)


def test_recovery_leaves_a_hole_with_messages_to_a_person(shelf: Shelf, archive: Archive) -> None:
    shelf.store.delete("backup/clicks/offset=0/1_0_00000000000000000010.txt")
    with pytest.raises(ConfigurationError, match=r"\[10, 25\).*15 messages.*--delete-objects"):
        recovery(OperatorLedger(), archive, log_of(50))


def test_recovery_passes_a_hole_in_which_the_log_has_nothing(
    shelf: Shelf, archive: Archive
) -> None:
    shelf.store.delete("backup/clicks/offset=0/1_0_00000000000000000010.txt")
    log = MemoryLog()
    log.put(CLICKS, messages([*range(10), *range(25, 50)]), 50)
    planned = recovery(OperatorLedger(), archive, log)
    assert planned
    assert planned.committed == 40
    assert "[10, 25)" in planned.remarks[0]


def test_recovery_says_when_the_log_cannot_prove_it(archive: Archive) -> None:
    log = MemoryLog()
    log.put(CLICKS, messages(range(45, 50)), 50)
    planned = recovery(OperatorLedger(), archive, log)
    assert planned
    assert planned.committed == 40
    assert "cannot be proved" in planned.remarks[0]


def test_objects_that_tell_nothing_cannot_be_recovered_from(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "java", make_format("text"))
    shelf.put_bytes("backup/clicks/offset=0/1_0_00000000000000000000", b"x\n", {})
    with pytest.raises(ConfigurationError, match="secor offsets set"):
        recovery(OperatorLedger(), Archive(shelf.store, "backup"), log_of(1))


def test_a_topic_made_again_needs_a_new_generation(archive: Archive) -> None:
    ledger = OperatorLedger({CLICKS: Entry(40, INTENT, "id-1")})
    log = MemoryLog()
    log.put(CLICKS, messages(range(3, 9)), 9)
    with pytest.raises(ConfigurationError, match=r"output\.generation = 2"):
        plan_acceptance(ledger, archive, log, [CLICKS], generation=1)
    with pytest.raises(ConfigurationError, match="--drop-intent"):
        plan_acceptance(ledger, archive, log, [CLICKS], generation=2)
    (planned,) = plan_acceptance(ledger, archive, log, [CLICKS], generation=2, drop_intent=True)
    assert move(ledger, archive, planned) == Entry(3, None, None)


def test_a_topic_that_was_not_made_again_goes_on_but_where_its_log_lost_its_end(
    archive: Archive,
) -> None:
    cut = TopicPartition("clicks", 1)
    ledger = OperatorLedger({CLICKS: Entry(40, INTENT, "id-1"), cut: Entry(40, None, "id-1")})
    log = MemoryLog()
    log.put(CLICKS, messages(range(3, 50)), 50)
    log.put(cut, messages(range(3, 9)), 9)

    def planned(topic_id: str | None) -> list[TopicPartition]:
        moves = plan_acceptance(
            *(ledger, archive, log, [CLICKS, cut]),
            generation=2,
            topic_id=topic_id,
            drop_intent=True,
        )
        return [one.topic_partition for one in moves]

    assert planned("id-1") == [cut]
    assert planned("id-2") == planned(None) == [CLICKS, cut]


UNSEEN = f"backup/clicks/offset=0/1_0_{40:020d}.txt"


def plan(archive: Archive) -> RecoveredEntry | None:
    log = MemoryLog()
    log.put(CLICKS, messages(range(60)), 60)
    ledger = OperatorLedger({})
    return plan_recovery(ledger, archive, CLICKS, generation=1, log=log, owner="o", now=0.0)


def described(**changes: str) -> dict[str, str]:
    info = ObjectInfo(CLICKS, OffsetRange(40, 50), 40, 10, 1, "f" * 16)
    return info.metadata() | changes


def test_recovery_takes_what_sound_objects_tell(shelf: Shelf, archive: Archive) -> None:
    shelf.put_bytes(UNSEEN, b"x\n", described())
    assert plan(archive) == RecoveredEntry(CLICKS, 50, None)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (described(partition="7"), r"of clicks/7, generation 1, \[40, 50\)"),
        (described(generation="9"), "generation 9"),
        (described(**{"batch-start": "60", "batch-end": "70"}), r"\[60, 70\)"),
        (described(**{"batch-end": "9" * 30}), "batch-end is '999"),
        (described(records="ten"), "records is 'ten'"),
        (described(**{"batch-start": "1_0"}), "batch-start is '1_0'"),
        ({}, "1_0_00000000000000000040"),
        (described(**{"batch-end": str(2**63 - 1)}), "the log ends at 60"),
    ],
)
def test_recovery_never_guesses_what_a_foreign_or_damaged_object_holds(
    shelf: Shelf, archive: Archive, metadata: dict[str, str], why: str
) -> None:
    """The entry was set behind messages that were never stored, or before some that were."""
    shelf.put_bytes(UNSEEN, b"x\n", metadata)
    with pytest.raises(ConfigurationError, match=f"{why}.*secor offsets set"):
        plan(archive)


@pytest.mark.parametrize(("start", "end"), [(5, 55), (30, 45), (25, 39)])
def test_recovery_refuses_batches_that_overlap(
    shelf: Shelf, archive: Archive, start: int, end: int
) -> None:
    shelf.put(messages(range(start, end)), OffsetRange(start, end), output_partition="offset=1")
    with pytest.raises(ConfigurationError, match="which overlap"):
        plan(archive)
