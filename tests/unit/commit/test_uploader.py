"""The commit protocol, step by step, over a ledger and a store in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.commit.uploader import (
    ATTEMPTS,
    SETTLING,
    AbandonedBatch,
    CommittedBatch,
    Outcome,
    Retryable,
)
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
from secor.core.model import Entry, StoredObject, Superseded
from tests.fakes.ledger import Kind
from tests.unit.commit.commit_world import FIRST, KEY, LIFETIME, SECOND, CommitWorld

BOTH = pytest.mark.parametrize("kind", ["zookeeper", "kafka"])


@pytest.fixture
def commits(tmp_path: Path) -> CommitWorld:
    return CommitWorld(tmp_path)


def dropped(outcome: Outcome) -> type[Exception]:
    assert isinstance(outcome, AbandonedBatch)
    return type(outcome.error)


@BOTH
def test_the_steps_come_in_their_order(tmp_path: Path, kind: Kind) -> None:
    commits = CommitWorld(tmp_path, kind)
    assert commits.upload(commits.batch([0, 1, 9, 10, 11])) == CommittedBatch()
    order = ["lease", "lease.read", "record", "put", "put", "commit", "release"]
    assert commits.calls == order
    assert commits.keys == [FIRST, SECOND]
    assert commits.entry == Entry(12, None, "id")


def test_a_batch_without_files_moves_the_offset(commits: CommitWorld) -> None:
    assert commits.upload(commits.batch([], end=7)) == CommittedBatch()
    assert commits.entry.committed == 7
    assert commits.keys == []


def test_the_intent_stands_while_objects_are_put(commits: CommitWorld) -> None:
    seen: list[Entry] = []
    batch = commits.batch([0, 1])
    commits.on("before", "put", lambda: seen.append(commits.entry))
    commits.upload(batch)
    (entry,) = seen
    assert entry.committed == 0
    assert entry.intent is not None
    assert (entry.intent.start, entry.intent.end) == (0, 2)
    assert entry.intent.fingerprint == batch.fingerprint


def test_local_files_stand_until_after_the_commit(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1, 10])
    stood: list[bool] = []
    commits.on("after", "commit", lambda: stood.extend(f.local.path.exists() for f in batch.files))
    commits.upload(batch)
    assert stood == [True, True]


# ------------------------------------------------------------- reconciling


def test_an_intent_of_our_own_is_taken_up_and_written_again(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch)
    assert commits.upload(batch) == CommittedBatch()
    assert "record" in commits.calls


def test_a_stranger_s_entry_restarts(commits: CommitWorld) -> None:
    assert dropped(commits.upload(commits.batch([5], start=4))) is RestartPartition
    assert commits.keys == []


@pytest.mark.parametrize("end", [1, 9])
def test_an_intent_that_ends_elsewhere_restarts(commits: CommitWorld, end: int) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch, end=end)
    assert dropped(commits.upload(batch)) is RestartPartition
    assert commits.keys == []


def test_a_lost_ledger_stops(commits: CommitWorld) -> None:
    commits.server.drop(KEY)
    assert dropped(commits.upload(commits.batch([0]))) is LedgerLost


def test_an_edited_ledger_stops(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch)
    intent = commits.entry.intent
    commits.server.put(KEY, b"1", intent)
    assert dropped(commits.upload(batch)) is LedgerEdited
    assert commits.keys == []


def test_an_intent_of_another_configuration_is_superseded_and_remembered(
    commits: CommitWorld,
) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch, Superseded("older", "elsewhere"), fingerprint="old")
    seen: list[Entry] = []
    commits.on("after", "record", lambda: seen.append(commits.entry))
    assert commits.settle(batch) == CommittedBatch()
    (entry,) = seen
    assert entry.intent is not None
    assert entry.intent.supersedes == (
        Superseded("older", "elsewhere"),
        Superseded("old", "root/clicks"),
    )
    assert commits.observer.told == ["superseded", f"waits {LIFETIME:g}"]


def test_a_configuration_that_comes_back_does_not_supersede_itself(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch, Superseded(batch.fingerprint, "root/clicks"), fingerprint="old")
    seen: list[Entry] = []
    commits.on("after", "record", lambda: seen.append(commits.entry))
    commits.upload(batch)
    assert seen[0].intent is not None
    assert seen[0].intent.supersedes == (Superseded("old", "root/clicks"),)


# ------------------------------------------------------------ lost answers


@BOTH
@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("call", ["record", "put", "commit"])
def test_a_lost_answer_is_settled_by_looking(
    tmp_path: Path, kind: Kind, phase: str, call: str
) -> None:
    commits = CommitWorld(tmp_path, kind)
    commits.fail(phase, call, OutcomeUnknown("lost"))
    assert commits.upload(commits.batch([0, 1, 10])) == CommittedBatch()
    assert commits.keys == [FIRST, SECOND]
    assert commits.entry == Entry(11, None, "id")
    assert len(commits.store.audit) == 2


@pytest.mark.parametrize(("phase", "puts"), [("before", SETTLING), ("after", 2)])
def test_a_put_is_settled_before_the_lease_is_given_back(
    commits: CommitWorld, phase: str, puts: int
) -> None:
    """Else it could land beside what a successor puts of a log that was compacted."""
    commits.fail(phase, "put", *[OutcomeUnknown("lost")] * (puts - 1))
    assert commits.upload(commits.batch([0]), lambda: False) == CommittedBatch()
    assert commits.calls.count("lease") == 1
    assert commits.calls.count("put") == puts
    assert commits.observer.told == ["retried after OutcomeUnknown"] * (puts - 1)


def test_a_commit_that_took_effect_is_not_sent_again(commits: CommitWorld) -> None:
    commits.fail("after", "commit", OutcomeUnknown("lost"))
    commits.upload(commits.batch([0]))
    assert commits.calls.count("commit") == 1
    assert commits.calls.count("lease.read") == 2


def test_an_end_that_somebody_else_committed_is_not_ours_before_we_sent_it(
    commits: CommitWorld,
) -> None:
    commits.server.put(KEY, b"2", topic_id="id")
    assert dropped(commits.upload(commits.batch([0, 1]))) is RestartPartition


def test_an_open_intent_at_the_end_is_not_taken_for_our_commit(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.fail("after", "commit", OutcomeUnknown("lost"))
    following = commits.batch([2, 3], start=2)
    commits.on("before", "lease", lambda: None, lambda: commits.intend(following))
    assert dropped(commits.upload(batch)) is RestartPartition


@pytest.mark.parametrize("error", [Unavailable("gone"), AccessDenied("no")])
def test_after_some_attempts_the_thread_is_given_back(
    commits: CommitWorld, error: Exception
) -> None:
    commits.fail("before", "put", *[error] * ATTEMPTS)
    batch = commits.batch([0])
    assert commits.upload(batch) == Retryable(error)  # type: ignore[arg-type]
    assert commits.calls.count("put") == ATTEMPTS
    assert len(commits.clock.slept) == ATTEMPTS - 1
    assert commits.upload(batch) == CommittedBatch()


def test_a_partition_that_is_not_wanted_is_not_tried_again(commits: CommitWorld) -> None:
    commits.fail("before", "put", Unavailable("gone"))
    assert isinstance(commits.upload(commits.batch([0]), lambda: False), Retryable)
    assert commits.calls.count("put") == 1


# ------------------------------------------------------------------- lease


@BOTH
def test_a_session_that_ends_before_the_intent_puts_nothing(tmp_path: Path, kind: Kind) -> None:
    commits = CommitWorld(tmp_path, kind)
    commits.on("before", "record", lambda: commits.server.expire(commits.ledger, told=False))
    assert dropped(commits.upload(commits.batch([0]))) is LeaseLost
    assert commits.keys == []


@BOTH
def test_a_lease_that_is_known_to_be_lost_stops_the_next_put(tmp_path: Path, kind: Kind) -> None:
    commits = CommitWorld(tmp_path, kind)
    commits.on("after", "put", lambda: commits.server.expire(commits.ledger))
    assert dropped(commits.upload(commits.batch([0, 10]))) is LeaseLost
    assert commits.keys == [FIRST]


@BOTH
def test_a_process_that_slept_learns_it_from_the_write_before_its_next_put(
    tmp_path: Path, kind: Kind
) -> None:
    commits = CommitWorld(tmp_path, kind)

    def sleep() -> None:
        commits.clock.advance(commits.server.trust)
        commits.server.expire(commits.ledger, told=False)

    commits.on("after", "put", sleep)
    assert dropped(commits.upload(commits.batch([0, 10]))) is LeaseLost
    assert commits.keys == [FIRST]


def test_a_long_upload_proves_its_lease_again_and_again(commits: CommitWorld) -> None:
    pause = commits.server.trust * 0.6
    commits.on("after", "put", *[lambda: commits.clock.advance(pause)] * 4)
    commits.upload(commits.batch([0, 10, 20, 30]))
    assert [c for c in commits.calls if c in ("put", "record")] == [
        *("record", "put", "put"),
        *("record", "put", "put"),
    ]


def test_a_proof_counts_from_before_its_write(commits: CommitWorld) -> None:
    """The server may have heard of us at the beginning of a slow answer."""
    sleep = commits.server.trust
    commits.on("after", "record", *[lambda: commits.clock.advance(sleep)] * 2)
    commits.upload(commits.batch([0, 10]))
    puts = [call for call in commits.calls if call in ("record", "put")]
    assert puts == ["record", "record", "record", "put", "put"]


def test_a_process_that_slept_while_it_proved_its_lease_learns_it_too(commits: CommitWorld) -> None:
    """The write was won; its answer is read after the session's end."""

    def sleep() -> None:
        commits.clock.advance(2 * commits.server.trust)
        commits.server.expire(commits.ledger, told=False)

    commits.on("after", "record", lambda: commits.clock.advance(commits.server.trust), sleep)
    assert dropped(commits.upload(commits.batch([0]))) is LeaseLost
    assert commits.keys == []


def test_a_ledger_too_slow_to_prove_anything_puts_nothing(commits: CommitWorld) -> None:
    slow = [lambda: commits.clock.advance(commits.server.trust)] * 100
    commits.on("after", "record", *slow)
    assert isinstance(commits.upload(commits.batch([0])), Retryable)
    assert commits.keys == []


def test_a_lock_held_by_another_is_waited_for_elsewhere(commits: CommitWorld) -> None:
    commits.server.client("other").lease(KEY, 0.0)
    assert dropped(commits.upload(commits.batch([0]))) is LeaseLost


def test_an_entry_that_changed_after_it_was_read_refuses_the_write(commits: CommitWorld) -> None:
    commits.on("before", "record", lambda: commits.server.put(KEY, b"0", topic_id="other"))
    assert dropped(commits.upload(commits.batch([0]))) is Refused
    assert commits.keys == []


def test_the_lease_is_given_back_whatever_happens(commits: CommitWorld) -> None:
    commits.fail("before", "put", *[Unavailable("gone")] * ATTEMPTS)
    commits.upload(commits.batch([0]))
    assert commits.server.rights == {}


# --------------------------------------------------------- already there


def test_our_own_object_is_no_conflict(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.on("before", "put", lambda: commits.place(batch))
    assert commits.upload(batch) == CommittedBatch()
    assert len(commits.store.audit) == 1


def test_what_came_first_stays_whatever_compaction_left_us(commits: CommitWorld) -> None:
    """The put of the range's first reader landed late, with a message that we did not find."""
    batch = commits.batch([1], end=2)
    commits.on("before", "put", lambda: commits.place(commits.batch([0, 1])))
    assert commits.upload(batch) == CommittedBatch()
    assert commits.keys == [FIRST]
    assert commits.info(FIRST).records == 2


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
    commits: CommitWorld, changed: dict[str, object]
) -> None:
    batch = commits.batch([0, 1])
    commits.on("before", "put", lambda: commits.place(batch, changed=changed))
    before = list(commits.store.audit)
    assert dropped(commits.upload(batch)) is ObjectConflict
    assert len(commits.store.audit) == len(before) + 1
    assert commits.entry.committed == 0


def test_an_object_without_our_metadata_stops_and_stays(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    (file,) = batch.files
    commits.on(
        "before", "put", lambda: commits.store.put(FIRST, file.local.path, file.local.crc32c, {})
    )
    assert dropped(commits.upload(batch)) is ObjectConflict


def test_an_answer_that_was_cut_within_our_metadata_is_no_object_of_somebody_else(
    commits: CommitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = commits.batch([0, 1])
    commits.on("before", "put", lambda: commits.place(batch))
    whole, looks = commits.store.head, []

    def cut_once(key: str) -> StoredObject:
        looks.append(key)
        answer = whole(key)
        return answer if len(looks) > 1 else replace(answer, metadata={})

    monkeypatch.setattr(commits.store, "head", cut_once)
    assert commits.upload(batch) == CommittedBatch()
    assert looks == [FIRST, FIRST]


def test_a_superseded_object_that_comes_late_is_removed(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch, fingerprint="old")
    commits.on("before", "put", lambda: commits.place(batch, changed={"fingerprint": "old"}))
    assert isinstance(commits.settle(batch), Retryable)
    commits.clock.advance(LIFETIME)
    assert commits.upload(batch) == CommittedBatch()
    assert commits.info(FIRST).fingerprint == batch.fingerprint
    assert "delete" in commits.calls


def test_an_object_that_is_there_and_then_gone_is_looked_for_again(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.on("before", "put", lambda: commits.place(batch))
    commits.on("before", "head", commits.store.objects.clear)
    assert commits.upload(batch) == CommittedBatch()
    assert commits.observer.told == ["retried after Unavailable"]
