"""Whoever supersedes an intent waits for the requests that may be under way, and looks again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.batch import SealedBatch
from secor.batch.last_file import WrittenBatch
from secor.commit.uploader import Committed, Dropped, Later
from secor.core.errors import ObjectConflict, RestartPartition, Unavailable
from secor.core.model import OffsetRange, Superseded, TopicPartition
from tests.unit.commit.commit_world import KEY, LIFETIME, Rituals


@pytest.fixture
def rituals(tmp_path: Path) -> Rituals:
    return Rituals(tmp_path)


@pytest.fixture
def old(rituals: Rituals) -> SealedBatch:
    """The range under the superseded configuration, which has other names."""
    return rituals.batch([0, 1], plan=rituals.plan("old", root="elsewhere/clicks"))


@pytest.fixture
def batch(rituals: Rituals, old: SealedBatch) -> SealedBatch:
    """The range under ours, while the intent of the other one is open."""
    rituals.intend(old)
    return rituals.batch([0, 1])


def test_nothing_is_put_before_the_end_of_the_wait(rituals: Rituals, batch: SealedBatch) -> None:
    outcome = rituals.upload(batch)
    assert isinstance(outcome, Later)
    assert "superseded" in str(outcome.error)
    assert rituals.keys == []
    assert rituals.entry.committed == 0
    assert rituals.server.rights == {}


def test_nobody_is_asked_while_it_waits(rituals: Rituals, batch: SealedBatch) -> None:
    rituals.upload(batch)
    calls = list(rituals.calls)
    rituals.clock.advance(LIFETIME - 1)
    assert isinstance(rituals.upload(batch), Later)
    assert rituals.calls == calls
    assert rituals.observer.told == ["superseded", f"waits {LIFETIME:g}"]


def test_a_put_that_lands_while_it_waits_is_found_and_deleted(
    rituals: Rituals, old: SealedBatch, batch: SealedBatch
) -> None:
    rituals.upload(batch)
    rituals.place(old)
    rituals.clock.advance(LIFETIME)
    assert isinstance(rituals.upload(batch), Later)  # its deletion may land later, too
    assert rituals.keys == []
    rituals.clock.advance(LIFETIME)
    assert rituals.upload(batch) == Committed()
    assert rituals.entry.committed == 2


def test_a_look_that_began_before_the_end_of_the_wait_does_not_count(
    rituals: Rituals, old: SealedBatch, batch: SealedBatch
) -> None:
    def slow_listing() -> None:
        rituals.place(old)
        rituals.clock.advance(LIFETIME)

    rituals.on("after", "list", *[lambda: None] * 3, slow_listing)
    assert isinstance(rituals.upload(batch), Later)
    assert rituals.calls.count("list") == 4
    assert isinstance(rituals.upload(batch), Later)
    assert rituals.keys == []


def test_the_wait_counts_from_the_last_deletion(rituals: Rituals, old: SealedBatch) -> None:
    rituals.place(old)
    batch = rituals.batch([0, 1])
    rituals.intend(old)
    rituals.on("before", "delete", lambda: rituals.clock.advance(30))
    rituals.upload(batch)
    rituals.clock.advance(LIFETIME - 1)
    assert isinstance(rituals.upload(batch), Later)
    assert "put" not in rituals.calls
    rituals.clock.advance(1)
    assert rituals.upload(batch) == Committed()


def test_a_deletion_without_an_answer_counts_too(rituals: Rituals, old: SealedBatch) -> None:
    rituals.place(old)
    batch = rituals.batch([0, 1])
    rituals.intend(old)
    rituals.upload(batch)
    rituals.place(old)
    rituals.clock.advance(LIFETIME)
    rituals.fail("after", "delete", Unavailable("no answer"))
    assert isinstance(rituals.upload(batch), Later)
    assert rituals.keys == []
    assert "put" not in rituals.calls


def test_a_process_that_takes_over_waits_anew(rituals: Rituals, batch: SealedBatch) -> None:
    rituals.upload(batch)
    rituals.clock.advance(LIFETIME)
    rituals.uploader = rituals.restarted()
    assert rituals.settle(batch) == Committed()


def test_who_is_taken_over_while_it_waits_begins_again(
    rituals: Rituals, old: SealedBatch, batch: SealedBatch
) -> None:
    """Else two processes, one of which has lost its partition, would supersede each other."""
    rituals.upload(batch)
    rituals.intend(old, Superseded(batch.fingerprint, batch.plan.root))
    rituals.clock.advance(LIFETIME)
    outcome = rituals.upload(batch)
    assert isinstance(outcome, Dropped)
    assert type(outcome.error) is RestartPartition
    assert rituals.settle(batch) == Committed()


def test_it_is_the_same_when_the_other_process_has_our_configuration(
    rituals: Rituals, batch: SealedBatch
) -> None:
    rituals.upload(batch)
    rituals.intend(batch)
    rituals.clock.advance(LIFETIME)
    assert isinstance(rituals.upload(batch), Dropped)


def test_an_intent_that_a_person_has_dropped_is_not_waited_for(
    rituals: Rituals, batch: SealedBatch
) -> None:
    rituals.upload(batch)
    rituals.server.put(KEY, b"0", topic_id="id")
    rituals.clock.advance(LIFETIME)
    assert rituals.upload(batch) == Committed()


def test_nothing_waits_where_nothing_was_superseded(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1])
    rituals.intend(batch)
    assert rituals.upload(batch) == Committed()


def test_a_range_that_is_no_longer_ours_is_forgotten(
    rituals: Rituals, old: SealedBatch, batch: SealedBatch
) -> None:
    rituals.upload(batch)
    rituals.place(old, changed={"fingerprint": "a stranger"})
    rituals.clock.advance(LIFETIME)
    rituals.server.put(KEY, b"2", topic_id="id")
    outcome = rituals.upload(batch)
    assert isinstance(outcome, Dropped)
    assert not isinstance(outcome.error, ObjectConflict)
    rituals.intend(old)
    assert isinstance(rituals.upload(batch), Later)
    assert rituals.observer.told.count(f"waits {LIFETIME:g}") == 2


class OneFile:
    """What a batch's last file is, named by the range."""

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        return f"staged/{topic_partition}/{offsets.start}-{offsets.end}.json"

    def body(self, batch: WrittenBatch) -> bytes:
        return batch.fingerprint.encode()


def test_where_a_last_file_decides_nothing_is_put_or_deleted_before_the_end_of_the_wait(
    rituals: Rituals, old: SealedBatch
) -> None:
    """The last file of the other configuration lands while we wait: its objects are right."""
    first, second = (
        rituals.batch([0, 1], plan=replace(plan, last_file=OneFile()))
        for plan in (old.plan, rituals.plan())
    )
    rituals.place(first)
    rituals.intend(first)
    assert isinstance(rituals.upload(second), Later)
    assert not {"put", "delete", "list"} & set(rituals.calls)
    assert first.last is not None
    rituals.place(replace(first, files=(first.last,)))
    rituals.clock.advance(LIFETIME)
    assert rituals.upload(second) == Committed()
    assert rituals.keys == sorted([first.files[0].key, first.last.key])
