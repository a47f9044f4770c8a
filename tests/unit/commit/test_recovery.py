"""Recovery looks before it puts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from secor.batch.batch import SealedBatch
from secor.batch.plan import Lane, TopicPlan
from secor.batch.policy import Policy
from secor.commit.recovery import recover
from secor.commit.uploader import ATTEMPTS, Committed, Dropped, Later
from secor.core.errors import LeaseLost, ObjectConflict, Unavailable
from secor.core.model import DATA, QUARANTINE, Chunk, Intent, Part, Superseded
from secor.core.naming import ObjectName
from tests.fakes.format import PlainFormat
from tests.unit.commit.commit_world import FIRST, SECOND, Rituals

ROUTED = "topic=views"


class ByTurns:
    """One message into each of the lanes."""

    def __init__(self, *lanes: str) -> None:
        self.identity = "by turns " + " ".join(lanes)
        self._lanes = lanes

    def split(self, chunk: Chunk) -> list[Part]:
        rows = range(chunk.records.num_rows)
        lanes = [self._lanes[row % len(self._lanes)] for row in rows]
        return [Part("", chunk.records.slice(row, 1), lanes[row]) for row in rows]


def laned(prefix: str, *lanes: str) -> TopicPlan:
    """Return the plan of a partition group whose parser uses these lanes."""
    roots = {QUARANTINE: f"{prefix}/_quarantine/clicks", ROUTED: f"{prefix}/views/from=clicks"}
    places = {name: Lane(root, PlainFormat()) for name, root in roots.items() if name in lanes}
    plan = TopicPlan("g", f"{prefix}/clicks", 1, ByTurns(*lanes), PlainFormat(), Policy())
    return replace(plan, lanes=places)


@pytest.fixture
def rituals(tmp_path: Path) -> Rituals:
    return Rituals(tmp_path)


def test_what_is_there_is_adopted_and_the_rest_put(rituals: Rituals) -> None:
    batch = rituals.batch([0, 1, 10])
    rituals.intend(batch)
    rituals.place(batch, [FIRST])
    assert rituals.upload(batch) == Committed()
    assert rituals.observer.told == ["adopted 1"]
    assert rituals.calls.count("put") == 1
    assert rituals.keys == [FIRST, SECOND]


def test_an_object_with_messages_that_the_log_has_lost_is_adopted(rituals: Rituals) -> None:
    """Compaction removed offset 0 after its object was put."""
    rituals.place(rituals.batch([0, 1, 2]))
    batch = rituals.batch([1, 2], end=3)
    rituals.intend(batch)
    assert rituals.upload(batch) == Committed()
    assert rituals.keys == [FIRST]
    assert rituals.info(FIRST).records == 3
    assert rituals.calls.count("put") == 0


def test_a_superseded_leftover_is_deleted_before_ours_is_put(rituals: Rituals) -> None:
    old = rituals.plan("old", root="elsewhere/clicks")
    rituals.place(rituals.batch([0, 1], plan=old))
    batch = rituals.batch([0, 1])
    rituals.intend(batch, Superseded(old.fingerprint, old.root), fingerprint="middle")
    assert rituals.settle(batch) == Committed()
    assert rituals.calls.index("delete") < rituals.calls.index("put")
    assert rituals.keys == [FIRST]


def test_leftovers_of_a_superseded_configuration_are_found_in_all_its_lanes(
    rituals: Rituals,
) -> None:
    """Only the old configuration had the quarantine's prefix and the route."""
    old, name = laned("old", DATA, QUARANTINE, ROUTED), "1_0_00000000000000000000.plain"
    rituals.fail("before", "commit", *[Unavailable("gone")] * ATTEMPTS)
    assert isinstance(rituals.upload(rituals.batch([0, 1, 2], plan=old)), Later)
    assert [key.rpartition("/")[0] for key in rituals.keys] == [
        "old/_quarantine/clicks",
        "old/clicks",
        "old/views/from=clicks",
    ]
    # One more comes between, and puts nothing: what is superseded is handed on.
    middle = laned("middle", DATA)
    assert isinstance(rituals.upload(rituals.batch([0, 1, 2], plan=middle)), Later)
    assert rituals.settle(rituals.batch([0, 1, 2], plan=laned("new", DATA))) == Committed()
    assert rituals.keys == [f"new/clicks/{name}"]


@pytest.mark.parametrize("lane", [QUARANTINE, ROUTED])
def test_what_is_in_a_lane_is_adopted(rituals: Rituals, lane: str) -> None:
    plan = laned("root", DATA, lane)
    batch = rituals.batch([0, 1], plan=plan)
    rituals.intend(batch)
    rituals.place(batch, [file.key for file in batch.files if file.place.root != plan.root])
    assert rituals.upload(batch) == Committed()
    assert rituals.observer.told == ["adopted 1"]
    assert rituals.calls.count("put") == 1
    assert len(rituals.keys) == 2


def test_nothing_is_deleted_once_the_lease_may_be_lost(rituals: Rituals) -> None:
    """A successor of the old configuration may have adopted and committed it meanwhile."""
    old = rituals.plan("old")
    rituals.place(rituals.batch([0, 1], plan=old))
    batch = rituals.batch([0, 1])
    rituals.intend(batch, fingerprint=old.fingerprint)

    def sleep() -> None:
        rituals.clock.advance(rituals.server.trust)
        rituals.server.expire(rituals.ledger, told=False)

    rituals.on("after", "head", sleep)
    outcome = rituals.upload(batch)
    assert isinstance(outcome, Dropped)
    assert isinstance(outcome.error, LeaseLost)
    assert rituals.keys == [FIRST]


def named_by_first_message(rituals: Rituals, offsets: list[int], end: int) -> SealedBatch:
    """Return the batch as the version before this one made it: names, and fingerprint."""
    batch = rituals.batch(offsets, end=end)
    fingerprint = batch.plan.earlier_fingerprint
    assert fingerprint != batch.fingerprint
    (file,) = batch.files
    assert isinstance(file.name, ObjectName)
    name = replace(file.name, start_offset=file.info.first_offset)
    named = replace(file, name=name, info=replace(file.info, fingerprint=fingerprint))
    return replace(batch, fingerprint=fingerprint, files=(named,))


def test_what_the_version_before_put_under_another_name_is_replaced(rituals: Rituals) -> None:
    rituals.place(named_by_first_message(rituals, [2, 3], end=4))
    assert rituals.keys == [FIRST.replace("0.plain", "2.plain")]
    batch = rituals.batch([2, 3], end=4)
    rituals.intend(batch, fingerprint=batch.plan.earlier_fingerprint)
    assert rituals.settle(batch) == Committed()
    assert rituals.keys == [FIRST]


def test_a_leftover_of_another_range_is_not_touched(rituals: Rituals) -> None:
    """It was committed under the old configuration, whose ranges were others."""
    old = rituals.plan("old", root="elsewhere/clicks")
    committed = rituals.batch([1], start=1, plan=old)
    rituals.place(committed)
    batch = rituals.batch([0, 1])
    rituals.intend(batch, Superseded(old.fingerprint, old.root))
    recover(rituals.store, batch, intent_of(rituals), lambda: None, lambda: None)
    assert rituals.keys == [committed.files[0].key]


@pytest.mark.parametrize(
    "changed", [{"fingerprint": "foreign"}, {"batch-end": 9}, {"topic-id": "another"}], ids=str
)
def test_a_stranger_in_our_place_stops_and_stays(
    rituals: Rituals, changed: dict[str, object]
) -> None:
    """Even under another first offset, where our put would not meet it."""
    rituals.place(rituals.batch([0, 1, 2]), changed=changed)
    batch = rituals.batch([1, 2], end=3)
    rituals.intend(batch)
    outcome = rituals.upload(batch)
    assert isinstance(outcome, Dropped)
    assert isinstance(outcome.error, ObjectConflict)
    assert rituals.keys == [FIRST]


def test_an_unknown_topic_id_does_not_stand_in_the_way(rituals: Rituals) -> None:
    rituals.place(rituals.batch([0, 1], topic_id=None))
    batch = rituals.batch([0, 1])
    rituals.intend(batch)
    assert rituals.upload(batch) == Committed()
    assert rituals.observer.told == ["adopted 1"]


def test_other_partitions_ranges_and_files_are_passed_over(rituals: Rituals) -> None:
    batch = rituals.batch([5, 6], start=5)
    rituals.intend(batch)
    rituals.place(rituals.batch([0, 1, 2, 3, 4]))
    file = batch.files[0]
    for name in ("1_1_00000000000000000005.plain", "2_0_00000000000000000005.plain", "notes.txt"):
        key = f"root/clicks/offset=0/{name}"
        told = replace(file.info, generation=2).metadata()
        rituals.store.put(key, file.local.path, file.local.crc32c, told)
    found = recover(rituals.store, batch, intent_of(rituals), lambda: None, lambda: None)
    assert found == frozenset()
    assert len(rituals.keys) == 4


def intent_of(rituals: Rituals) -> Intent:
    intent = rituals.entry.intent
    assert intent is not None
    return intent
