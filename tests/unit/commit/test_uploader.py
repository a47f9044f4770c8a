"""The ritual, step by step, over a ledger and a store in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.commit.uploader import ATTEMPTS, SETTLING, Committed, Dropped, Later, Outcome
from secor.core.errors import (
    AccessDenied,
    LeaseLost,
    LedgerEdited,
    LedgerLost,
    ObjectConflict,
    OutcomeUnknown,
    Refused,
    RestartPartition,
    Unavailable,
)
from secor.core.model import Entry, Superseded
from tests.fakes.ledger import Kind
from tests.unit.commit.commit_world import FIRST, KEY, LIFETIME, SECOND, Rituals

BOTH = pytest.mark.parametrize("kind", ["zookeeper", "kafka"])


@pytest.fixture
def rituals(tmp_path: Path) -> Rituals:
    return Rituals(tmp_path)


def dropped(outcome: Outcome) -> type[Exception]:
    assert isinstance(outcome, Dropped)
    return type(outcome.error)


@BOTH
def test_the_steps_come_in_their_order(tmp_path: Path, kind: Kind) -> None:
    rituals = Rituals(tmp_path, kind)
    assert rituals.upload(rituals.batch([0, 1, 9, 10, 11])) == Committed()
    order = ["lease", "lease.read", "record", "put", "put", "commit", "release"]
    assert rituals.calls == order
    assert rituals.keys == [FIRST, SECOND]
    assert rituals.entry == Entry(12, None, "id")


def test_a_batch_without_files_moves_the_offset(rituals: Rituals) -> None:
    assert rituals.upload(rituals.batch([], end=7)) == Committed()
    assert rituals.entry.committed == 7
    assert rituals.keys == []


def test_the_intent_stands_while_objects_are_put(rituals: Rituals) -> None:
    seen: list[Entry] = []
    batch = rituals.batch([0, 1])
    rituals.on("before", "put", lambda: seen.append(rituals.entry))
    rituals.upload(batch)
    (entry,) = seen
    assert entry.committed == 0
    assert entry.intent is not None
    assert (entry.intent.start, entry.intent.end) == (0, 2)
    assert entry.intent.fingerprint == batch.fingerprint


def test_local_files_stand_until_after_the_commit(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1, 10])
    stood: list[bool] = []
    rituals.on("after", "commit", lambda: stood.extend(f.local.path.exists() for f in batch.files))
    rituals.upload(batch)
    assert stood == [True, True]


# ------------------------------------------------------------- reconciling


def test_an_intent_of_our_own_is_taken_up_and_written_again(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch)
    assert rituals.upload(batch) == Committed()
    assert "record" in rituals.calls


def test_a_stranger_s_entry_restarts(rituals: Rituals) -> None:
    assert dropped(rituals.upload(rituals.batch([5], start=4))) is RestartPartition
    assert rituals.keys == []


@pytest.mark.parametrize("end", [1, 9])
def test_an_intent_that_ends_elsewhere_restarts(rituals: Rituals, end: int) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch, end=end)
    assert dropped(rituals.upload(batch)) is RestartPartition
    assert rituals.keys == []


def test_a_lost_ledger_stops(rituals: Rituals) -> None:
    rituals.server.drop(KEY)
    assert dropped(rituals.upload(rituals.batch([0]))) is LedgerLost


def test_an_edited_ledger_stops(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch)
    intent = rituals.entry.intent
    rituals.server.put(KEY, b"1", intent)
    assert dropped(rituals.upload(batch)) is LedgerEdited
    assert rituals.keys == []


def test_an_intent_of_another_configuration_is_superseded_and_remembered(
    rituals: Rituals,
) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch, Superseded("older", "elsewhere"), fingerprint="old")
    seen: list[Entry] = []
    rituals.on("after", "record", lambda: seen.append(rituals.entry))
    assert rituals.settle(batch) == Committed()
    (entry,) = seen
    assert entry.intent is not None
    assert entry.intent.supersedes == (
        Superseded("older", "elsewhere"),
        Superseded("old", "root/clicks"),
    )
    assert rituals.observer.told == ["superseded", f"waits {LIFETIME:g}"]


def test_a_configuration_that_comes_back_does_not_supersede_itself(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch, Superseded(batch.fingerprint, "root/clicks"), fingerprint="old")
    seen: list[Entry] = []
    rituals.on("after", "record", lambda: seen.append(rituals.entry))
    rituals.upload(batch)
    assert seen[0].intent is not None
    assert seen[0].intent.supersedes == (Superseded("old", "root/clicks"),)


# ------------------------------------------------------------ lost answers


@BOTH
@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("call", ["record", "put", "commit"])
def test_a_lost_answer_is_settled_by_looking(
    tmp_path: Path, kind: Kind, phase: str, call: str
) -> None:
    rituals = Rituals(tmp_path, kind)
    rituals.fail(phase, call, OutcomeUnknown("lost"))
    assert rituals.upload(rituals.batch([0, 1, 10])) == Committed()
    assert rituals.keys == [FIRST, SECOND]
    assert rituals.entry == Entry(11, None, "id")
    assert len(rituals.store.audit) == 2


@pytest.mark.parametrize(("phase", "puts"), [("before", SETTLING), ("after", 2)])
def test_a_put_is_settled_before_the_lease_is_given_back(
    rituals: Rituals, phase: str, puts: int
) -> None:
    """Else it could land beside what a successor puts of a log that was compacted."""
    rituals.fail(phase, "put", *[OutcomeUnknown("lost")] * (puts - 1))
    assert rituals.upload(rituals.batch([0]), lambda: False) == Committed()
    assert rituals.calls.count("lease") == 1
    assert rituals.calls.count("put") == puts
    assert rituals.observer.told == ["retried after OutcomeUnknown"] * (puts - 1)


def test_a_commit_that_took_effect_is_not_sent_again(rituals: Rituals) -> None:
    rituals.fail("after", "commit", OutcomeUnknown("lost"))
    rituals.upload(rituals.batch([0]))
    assert rituals.calls.count("commit") == 1
    assert rituals.calls.count("lease.read") == 2


def test_an_end_that_somebody_else_committed_is_not_ours_before_we_sent_it(
    rituals: Rituals,
) -> None:
    rituals.server.put(KEY, b"2", topic_id="id")
    assert dropped(rituals.upload(rituals.batch([0, 1]))) is RestartPartition


def test_an_open_intent_at_the_end_is_not_taken_for_our_commit(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.fail("after", "commit", OutcomeUnknown("lost"))
    following = rituals.batch([2, 3], start=2)
    rituals.on("before", "lease", lambda: None, lambda: rituals.intend(following))
    assert dropped(rituals.upload(batch)) is RestartPartition


@pytest.mark.parametrize("error", [Unavailable("gone"), AccessDenied("no")])
def test_after_some_attempts_the_thread_is_given_back(rituals: Rituals, error: Exception) -> None:
    rituals.fail("before", "put", *[error] * ATTEMPTS)
    batch = rituals.batch([0])
    assert rituals.upload(batch) == Later(error)  # type: ignore[arg-type]
    assert rituals.calls.count("put") == ATTEMPTS
    assert len(rituals.clock.slept) == ATTEMPTS - 1
    assert rituals.upload(batch) == Committed()


def test_a_partition_that_is_not_wanted_is_not_tried_again(rituals: Rituals) -> None:
    rituals.fail("before", "put", Unavailable("gone"))
    assert isinstance(rituals.upload(rituals.batch([0]), lambda: False), Later)
    assert rituals.calls.count("put") == 1


# ------------------------------------------------------------------- lease


@BOTH
def test_a_session_that_ends_before_the_intent_puts_nothing(tmp_path: Path, kind: Kind) -> None:
    rituals = Rituals(tmp_path, kind)
    rituals.on("before", "record", lambda: rituals.server.expire(rituals.ledger, told=False))
    assert dropped(rituals.upload(rituals.batch([0]))) is LeaseLost
    assert rituals.keys == []


@BOTH
def test_a_lease_that_is_known_to_be_lost_stops_the_next_put(tmp_path: Path, kind: Kind) -> None:
    rituals = Rituals(tmp_path, kind)
    rituals.on("after", "put", lambda: rituals.server.expire(rituals.ledger))
    assert dropped(rituals.upload(rituals.batch([0, 10]))) is LeaseLost
    assert rituals.keys == [FIRST]


@BOTH
def test_a_process_that_slept_learns_it_from_the_write_before_its_next_put(
    tmp_path: Path, kind: Kind
) -> None:
    rituals = Rituals(tmp_path, kind)

    def sleep() -> None:
        rituals.clock.advance(rituals.server.trust)
        rituals.server.expire(rituals.ledger, told=False)

    rituals.on("after", "put", sleep)
    assert dropped(rituals.upload(rituals.batch([0, 10]))) is LeaseLost
    assert rituals.keys == [FIRST]


def test_a_long_upload_proves_its_lease_again_and_again(rituals: Rituals) -> None:
    pause = rituals.server.trust * 0.6
    rituals.on("after", "put", *[lambda: rituals.clock.advance(pause)] * 4)
    rituals.upload(rituals.batch([0, 10, 20, 30]))
    assert [c for c in rituals.calls if c in ("put", "record")] == [
        *("record", "put", "put"),
        *("record", "put", "put"),
    ]


def test_a_proof_counts_from_before_its_write(rituals: Rituals) -> None:
    """The server may have heard of us at the beginning of a slow answer."""
    sleep = rituals.server.trust
    rituals.on("after", "record", *[lambda: rituals.clock.advance(sleep)] * 2)
    rituals.upload(rituals.batch([0, 10]))
    puts = [call for call in rituals.calls if call in ("record", "put")]
    assert puts == ["record", "record", "record", "put", "put"]


def test_a_process_that_slept_while_it_proved_its_lease_learns_it_too(rituals: Rituals) -> None:
    """The write was won; its answer is read after the session's end."""

    def sleep() -> None:
        rituals.clock.advance(2 * rituals.server.trust)
        rituals.server.expire(rituals.ledger, told=False)

    rituals.on("after", "record", lambda: rituals.clock.advance(rituals.server.trust), sleep)
    assert dropped(rituals.upload(rituals.batch([0]))) is LeaseLost
    assert rituals.keys == []


def test_a_ledger_too_slow_to_prove_anything_puts_nothing(rituals: Rituals) -> None:
    slow = [lambda: rituals.clock.advance(rituals.server.trust)] * 100
    rituals.on("after", "record", *slow)
    assert isinstance(rituals.upload(rituals.batch([0])), Later)
    assert rituals.keys == []


def test_a_lock_held_by_another_is_waited_for_elsewhere(rituals: Rituals) -> None:
    rituals.server.client("other").lease(KEY, 0.0)
    assert dropped(rituals.upload(rituals.batch([0]))) is LeaseLost


def test_an_entry_that_changed_after_it_was_read_refuses_the_write(rituals: Rituals) -> None:
    rituals.on("before", "record", lambda: rituals.server.put(KEY, b"0", topic_id="other"))
    assert dropped(rituals.upload(rituals.batch([0]))) is Refused
    assert rituals.keys == []


def test_the_lease_is_given_back_whatever_happens(rituals: Rituals) -> None:
    rituals.fail("before", "put", *[Unavailable("gone")] * ATTEMPTS)
    rituals.upload(rituals.batch([0]))
    assert rituals.server.rights == {}


# --------------------------------------------------------- already there


def test_our_own_object_is_no_conflict(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.on("before", "put", lambda: rituals.place(batch))
    assert rituals.upload(batch) == Committed()
    assert len(rituals.store.audit) == 1


def test_what_came_first_stays_whatever_compaction_left_us(rituals: Rituals) -> None:
    """The put of the range's first reader landed late, with a message that we did not find."""
    batch = rituals.batch([1], end=2)
    rituals.on("before", "put", lambda: rituals.place(rituals.batch([0, 1])))
    assert rituals.upload(batch) == Committed()
    assert rituals.keys == [FIRST]
    assert rituals.info(FIRST).records == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"fingerprint": "foreign"},
        {"batch-end": 3},
        {"topic-id": "another"},
        {"topic": "other"},
    ],
    ids=str,
)
def test_an_object_of_somebody_else_stops_and_stays(
    rituals: Rituals, changed: dict[str, object]
) -> None:
    batch = rituals.batch([0, 1])
    rituals.on("before", "put", lambda: rituals.place(batch, changed=changed))
    before = list(rituals.store.audit)
    assert dropped(rituals.upload(batch)) is ObjectConflict
    assert len(rituals.store.audit) == len(before) + 1
    assert rituals.entry.committed == 0


def test_an_object_without_our_metadata_stops_and_stays(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    (file,) = batch.files
    rituals.on(
        "before", "put", lambda: rituals.store.put(FIRST, file.local.path, file.local.crc32c, {})
    )
    assert dropped(rituals.upload(batch)) is ObjectConflict


def test_a_superseded_object_that_comes_late_is_removed(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch, fingerprint="old")
    rituals.on("before", "put", lambda: rituals.place(batch, changed={"fingerprint": "old"}))
    assert isinstance(rituals.settle(batch), Later)
    rituals.clock.advance(LIFETIME)
    assert rituals.upload(batch) == Committed()
    assert rituals.info(FIRST).fingerprint == batch.fingerprint
    assert "delete" in rituals.calls


def test_an_object_that_is_there_and_then_gone_is_looked_for_again(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.on("before", "put", lambda: rituals.place(batch))
    rituals.on("before", "head", rituals.store.objects.clear)
    assert rituals.upload(batch) == Committed()
    assert rituals.observer.told == ["retried after Unavailable"]
