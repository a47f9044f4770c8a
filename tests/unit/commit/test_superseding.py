"""Whoever supersedes an intent waits for the requests that may be under way, and looks again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.plan import WrittenBatch
from secor.batch.sealed import SealedBatch
from secor.commit.uploader import AbandonedBatch, CommittedBatch, Retryable
from secor.core.errors import ObjectConflict, RestartPartition, Unavailable
from secor.core.model import OffsetRange, Superseded, TopicPartition
from tests.unit.commit.commit_world import KEY, LIFETIME, CommitWorld


@pytest.fixture
def commits(tmp_path: Path) -> CommitWorld:
    return CommitWorld(tmp_path)


@pytest.fixture
def old(commits: CommitWorld) -> SealedBatch:
    """The range under the superseded configuration, which has other names."""
    return commits.batch([0, 1], plan=commits.plan("old", root="elsewhere/clicks"))


@pytest.fixture
def batch(commits: CommitWorld, old: SealedBatch) -> SealedBatch:
    """The range under ours, while the intent of the other one is open."""
    commits.intend(old)
    return commits.batch([0, 1])


def test_nothing_is_put_before_the_end_of_the_wait(
    commits: CommitWorld, batch: SealedBatch
) -> None:
    outcome = commits.upload(batch)
    assert isinstance(outcome, Retryable)
    assert "superseded" in str(outcome.error)
    assert commits.keys == []
    assert commits.entry.committed == 0
    assert commits.server.rights == {}


def test_nobody_is_asked_while_it_waits(commits: CommitWorld, batch: SealedBatch) -> None:
    commits.upload(batch)
    calls = list(commits.calls)
    commits.clock.advance(LIFETIME - 1)
    assert isinstance(commits.upload(batch), Retryable)
    assert commits.calls == calls
    assert commits.observer.told == ["superseded", f"waits {LIFETIME:g}"]


def test_a_put_that_lands_while_it_waits_is_found_and_deleted(
    commits: CommitWorld, old: SealedBatch, batch: SealedBatch
) -> None:
    commits.upload(batch)
    commits.place(old)
    commits.clock.advance(LIFETIME)
    assert isinstance(commits.upload(batch), Retryable)  # its deletion may land later, too
    assert commits.keys == []
    commits.clock.advance(LIFETIME)
    assert commits.upload(batch) == CommittedBatch()
    assert commits.entry.committed == 2


def test_a_look_that_began_before_the_end_of_the_wait_does_not_count(
    commits: CommitWorld, old: SealedBatch, batch: SealedBatch
) -> None:
    def slow_listing() -> None:
        commits.place(old)
        commits.clock.advance(LIFETIME)

    commits.on("after", "list", *[lambda: None] * 3, slow_listing)
    assert isinstance(commits.upload(batch), Retryable)
    assert commits.calls.count("list") == 4
    assert isinstance(commits.upload(batch), Retryable)
    assert commits.keys == []


def test_the_wait_counts_from_the_last_deletion(commits: CommitWorld, old: SealedBatch) -> None:
    commits.place(old)
    batch = commits.batch([0, 1])
    commits.intend(old)
    commits.on("before", "delete", lambda: commits.clock.advance(30))
    commits.upload(batch)
    commits.clock.advance(LIFETIME - 1)
    assert isinstance(commits.upload(batch), Retryable)
    assert "put" not in commits.calls
    commits.clock.advance(1)
    assert commits.upload(batch) == CommittedBatch()


def test_a_deletion_without_an_answer_counts_too(commits: CommitWorld, old: SealedBatch) -> None:
    commits.place(old)
    batch = commits.batch([0, 1])
    commits.intend(old)
    commits.upload(batch)
    commits.place(old)
    commits.clock.advance(LIFETIME)
    commits.fail("after", "delete", Unavailable("no answer"))
    assert isinstance(commits.upload(batch), Retryable)
    assert commits.keys == []
    assert "put" not in commits.calls


def test_a_process_that_takes_over_waits_anew(commits: CommitWorld, batch: SealedBatch) -> None:
    commits.upload(batch)
    commits.clock.advance(LIFETIME)
    commits.uploader = commits.restarted()
    assert commits.settle(batch) == CommittedBatch()


def test_who_is_taken_over_while_it_waits_begins_again(
    commits: CommitWorld, old: SealedBatch, batch: SealedBatch
) -> None:
    """Else two processes, one of which has lost its partition, would supersede each other."""
    commits.upload(batch)
    commits.intend(old, Superseded(batch.fingerprint, batch.plan.root))
    commits.clock.advance(LIFETIME)
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert type(outcome.error) is RestartPartition
    assert commits.settle(batch) == CommittedBatch()


def test_it_is_the_same_when_the_other_process_has_our_configuration(
    commits: CommitWorld, batch: SealedBatch
) -> None:
    commits.upload(batch)
    commits.intend(batch)
    commits.clock.advance(LIFETIME)
    assert isinstance(commits.upload(batch), AbandonedBatch)


def test_an_intent_that_a_person_has_dropped_is_not_waited_for(
    commits: CommitWorld, batch: SealedBatch
) -> None:
    commits.upload(batch)
    commits.server.put(KEY, b"0", topic_id="id")
    commits.clock.advance(LIFETIME)
    assert commits.upload(batch) == CommittedBatch()


def test_nothing_waits_where_nothing_was_superseded(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1])
    commits.intend(batch)
    assert commits.upload(batch) == CommittedBatch()


def test_a_range_that_is_no_longer_ours_is_forgotten(
    commits: CommitWorld, old: SealedBatch, batch: SealedBatch
) -> None:
    commits.upload(batch)
    commits.place(old, changed={"fingerprint": "a stranger"})
    commits.clock.advance(LIFETIME)
    commits.server.put(KEY, b"2", topic_id="id")
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert not isinstance(outcome.error, ObjectConflict)
    commits.intend(old)
    assert isinstance(commits.upload(batch), Retryable)
    assert commits.observer.told.count(f"waits {LIFETIME:g}") == 2


class OneFile:
    """What a batch's last file is, named by the range."""

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        return f"staged/{topic_partition}/{offsets.start}-{offsets.end}.json"

    def body(self, batch: WrittenBatch) -> bytes:
        return batch.fingerprint.encode()


def test_where_a_last_file_decides_nothing_is_put_or_deleted_before_the_end_of_the_wait(
    commits: CommitWorld, old: SealedBatch
) -> None:
    """The last file of the other configuration lands while we wait: its objects are right."""
    first, second = (
        commits.batch([0, 1], plan=replace(plan, last_file=OneFile()))
        for plan in (old.plan, commits.plan())
    )
    commits.place(first)
    commits.intend(first)
    assert isinstance(commits.upload(second), Retryable)
    assert not {"put", "delete", "list"} & set(commits.calls)
    assert first.last is not None
    commits.place(replace(first, files=(first.last,)))
    commits.clock.advance(LIFETIME)
    assert commits.upload(second) == CommittedBatch()
    assert commits.keys == sorted([first.files[0].key, first.last.key])
