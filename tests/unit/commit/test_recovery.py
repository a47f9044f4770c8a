"""Recovery looks before it puts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.plan import OutputStream, TopicPlan
from secor.batch.policy import Policy
from secor.batch.sealed import SealedBatch
from secor.commit.recovery import recover
from secor.commit.uploader import ATTEMPTS, AbandonedBatch, CommittedBatch, Retryable
from secor.core.errors import LeaseLost, ObjectConflict, Unavailable
from secor.core.model import DATA, QUARANTINE, Chunk, Intent, Part, Superseded
from secor.core.naming import ObjectName
from tests.fakes.format import PlainFormat
from tests.unit.commit.commit_world import FIRST, SECOND, CommitWorld

ROUTED = "topic=views"


class ByTurns:
    """One message into each of the streams."""

    def __init__(self, *streams: str) -> None:
        self.identity = "by turns " + " ".join(streams)
        self._streams = streams

    def split(self, chunk: Chunk) -> list[Part]:
        rows = range(chunk.records.num_rows)
        streams = [self._streams[row % len(self._streams)] for row in rows]
        return [Part("", chunk.records.slice(row, 1), streams[row]) for row in rows]


def plan_with_streams(prefix: str, *streams: str) -> TopicPlan:
    """Return the plan of a partition group whose parser uses these streams."""
    roots = {QUARANTINE: f"{prefix}/_quarantine/clicks", ROUTED: f"{prefix}/views/from=clicks"}
    places = {
        name: OutputStream(root, PlainFormat()) for name, root in roots.items() if name in streams
    }
    plan = TopicPlan("g", f"{prefix}/clicks", 1, ByTurns(*streams), PlainFormat(), Policy())
    return replace(plan, streams=places)


@pytest.fixture
def commits(tmp_path: Path) -> CommitWorld:
    return CommitWorld(tmp_path)


def test_what_is_there_is_adopted_and_the_rest_put(commits: CommitWorld) -> None:
    batch = commits.batch([0, 1, 10])
    commits.intend(batch)
    commits.place(batch, [FIRST])
    assert commits.upload(batch) == CommittedBatch()
    assert commits.observer.told == ["adopted 1"]
    assert commits.calls.count("put") == 1
    assert commits.keys == [FIRST, SECOND]


def test_an_object_with_messages_that_the_log_has_lost_is_adopted(commits: CommitWorld) -> None:
    """Compaction removed offset 0 after its object was put."""
    commits.place(commits.batch([0, 1, 2]))
    batch = commits.batch([1, 2], end=3)
    commits.intend(batch)
    assert commits.upload(batch) == CommittedBatch()
    assert commits.keys == [FIRST]
    assert commits.info(FIRST).records == 3
    assert commits.calls.count("put") == 0


def test_a_superseded_leftover_is_deleted_before_ours_is_put(commits: CommitWorld) -> None:
    old = commits.plan("old", root="elsewhere/clicks")
    commits.place(commits.batch([0, 1], plan=old))
    batch = commits.batch([0, 1])
    commits.intend(batch, Superseded(old.fingerprint, old.root), fingerprint="middle")
    assert commits.settle(batch) == CommittedBatch()
    assert commits.calls.index("delete") < commits.calls.index("put")
    assert commits.keys == [FIRST]


def test_leftovers_of_a_superseded_configuration_are_found_in_all_its_output_streams(
    commits: CommitWorld,
) -> None:
    """Only the old configuration had the quarantine's prefix and the route."""
    old, name = plan_with_streams("old", DATA, QUARANTINE, ROUTED), "1_0_00000000000000000000.plain"
    commits.fail("before", "commit", *[Unavailable("gone")] * ATTEMPTS)
    assert isinstance(commits.upload(commits.batch([0, 1, 2], plan=old)), Retryable)
    assert [key.rpartition("/")[0] for key in commits.keys] == [
        "old/_quarantine/clicks",
        "old/clicks",
        "old/views/from=clicks",
    ]
    # One more comes between, and puts nothing: what is superseded is handed on.
    middle = plan_with_streams("middle", DATA)
    assert isinstance(commits.upload(commits.batch([0, 1, 2], plan=middle)), Retryable)
    assert (
        commits.settle(commits.batch([0, 1, 2], plan=plan_with_streams("new", DATA)))
        == CommittedBatch()
    )
    assert commits.keys == [f"new/clicks/{name}"]


@pytest.mark.parametrize("stream", [QUARANTINE, ROUTED])
def test_what_is_in_an_output_stream_is_adopted(commits: CommitWorld, stream: str) -> None:
    plan = plan_with_streams("root", DATA, stream)
    batch = commits.batch([0, 1], plan=plan)
    commits.intend(batch)
    commits.place(batch, [file.key for file in batch.files if file.place.root != plan.root])
    assert commits.upload(batch) == CommittedBatch()
    assert commits.observer.told == ["adopted 1"]
    assert commits.calls.count("put") == 1
    assert len(commits.keys) == 2


def test_nothing_is_deleted_once_the_lease_may_be_lost(commits: CommitWorld) -> None:
    """A successor of the old configuration may have adopted and committed it meanwhile."""
    old = commits.plan("old")
    commits.place(commits.batch([0, 1], plan=old))
    batch = commits.batch([0, 1])
    commits.intend(batch, fingerprint=old.fingerprint)

    def sleep() -> None:
        commits.clock.advance(commits.server.trust)
        commits.server.expire(commits.ledger, told=False)

    commits.on("after", "head", sleep)
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert isinstance(outcome.error, LeaseLost)
    assert commits.keys == [FIRST]


def named_by_first_message(commits: CommitWorld, offsets: list[int], end: int) -> SealedBatch:
    """Return the batch as the version before this one made it: names, and fingerprint."""
    batch = commits.batch(offsets, end=end)
    fingerprint = batch.plan.earlier_fingerprint
    assert fingerprint != batch.fingerprint
    (file,) = batch.files
    assert isinstance(file.name, ObjectName)
    name = replace(file.name, start_offset=file.info.first_offset)
    named = replace(file, name=name, info=replace(file.info, fingerprint=fingerprint))
    return replace(batch, fingerprint=fingerprint, files=(named,))


def test_what_the_version_before_put_under_another_name_is_replaced(commits: CommitWorld) -> None:
    commits.place(named_by_first_message(commits, [2, 3], end=4))
    assert commits.keys == [FIRST.replace("0.plain", "2.plain")]
    batch = commits.batch([2, 3], end=4)
    commits.intend(batch, fingerprint=batch.plan.earlier_fingerprint)
    assert commits.settle(batch) == CommittedBatch()
    assert commits.keys == [FIRST]


def test_a_leftover_of_another_range_is_not_touched(commits: CommitWorld) -> None:
    """It was committed under the old configuration, whose ranges were others."""
    old = commits.plan("old", root="elsewhere/clicks")
    committed = commits.batch([1], start=1, plan=old)
    commits.place(committed)
    batch = commits.batch([0, 1])
    commits.intend(batch, Superseded(old.fingerprint, old.root))
    recover(commits.store, batch, intent_of(commits), lambda: None, lambda: None)
    assert commits.keys == [committed.files[0].key]


@pytest.mark.parametrize(
    "changed", [{"fingerprint": "foreign"}, {"batch-end": 9}, {"topic-id": "another"}], ids=str
)
def test_a_stranger_in_our_place_stops_and_stays(
    commits: CommitWorld, changed: dict[str, object]
) -> None:
    """Even with another first offset."""
    commits.place(commits.batch([0, 1, 2]), changed=changed)
    batch = commits.batch([1, 2], end=3)
    commits.intend(batch)
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert isinstance(outcome.error, ObjectConflict)
    assert commits.keys == [FIRST]


def test_a_stranger_under_another_name_stops_and_stays(commits: CommitWorld) -> None:
    """Our put would not meet it: the version before named objects by their first message."""
    commits.place(named_by_first_message(commits, [1, 2], end=3), changed={"fingerprint": "alien"})
    there = commits.keys
    assert there == [FIRST.replace("0.plain", "1.plain")]
    batch = commits.batch([1, 2], end=3)
    commits.intend(batch)
    outcome = commits.upload(batch)
    assert isinstance(outcome, AbandonedBatch)
    assert isinstance(outcome.error, ObjectConflict)
    assert commits.keys == there


def test_an_unknown_topic_id_does_not_stand_in_the_way(commits: CommitWorld) -> None:
    commits.place(commits.batch([0, 1], topic_id=None))
    batch = commits.batch([0, 1])
    commits.intend(batch)
    assert commits.upload(batch) == CommittedBatch()
    assert commits.observer.told == ["adopted 1"]


def test_other_partitions_ranges_and_files_are_passed_over(commits: CommitWorld) -> None:
    batch = commits.batch([5, 6], start=5)
    commits.intend(batch)
    commits.place(commits.batch([0, 1, 2, 3, 4]))
    file = batch.files[0]
    for name in ("1_1_00000000000000000005.plain", "2_0_00000000000000000005.plain", "notes.txt"):
        key = f"root/clicks/offset=0/{name}"
        told = replace(file.info, generation=2).metadata()
        commits.store.put(key, file.local.path, file.local.crc32c, told)
    found = recover(commits.store, batch, intent_of(commits), lambda: None, lambda: None)
    assert found == frozenset()
    assert len(commits.keys) == 4


def intent_of(commits: CommitWorld) -> Intent:
    intent = commits.entry.intent
    assert intent is not None
    return intent
