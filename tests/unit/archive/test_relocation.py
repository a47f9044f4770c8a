"""Moving a ledger: whatever interrupts it, the two ledgers are never open with other offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from secor.archive.repair.relocation import RelocationPlan, plan_relocation, relocate
from secor.core.errors import ConfigurationError, Refused, StopPartition
from secor.core.model import Entry, Intent, TopicPartition
from secor.core.relocation import Direction, Relocation
from tests.fakes.movable_ledger import Crash, FakeMovableLedger

INTENT = Intent(7, 20, "f" * 32, "process 1", 1790000000.5, "backup/clicks")
FIRST, SECOND, THIRD = (TopicPartition("clicks", number) for number in range(3))
GONE = TopicPartition("gone", 0)
ENTRIES = {
    FIRST: Entry(5, None, "id-1", leader_epoch=3),
    SECOND: Entry(7, INTENT, "id-1", leader_epoch=4),
    THIRD: Entry(0),
}
Kind = Literal["zookeeper", "kafka"]
PAIRS: list[tuple[Kind, Kind]] = [
    ("zookeeper", "kafka"),
    ("kafka", "zookeeper"),
    ("zookeeper", "zookeeper"),
]


def ledgers(kinds: tuple[Kind, Kind]) -> tuple[FakeMovableLedger, FakeMovableLedger]:
    source, target = FakeMovableLedger(kinds[0], "old"), FakeMovableLedger(kinds[1], "new")
    for topic_partition, entry in ENTRIES.items():
        source.put(topic_partition, entry)
    return source, target


def exists(topic_partition: TopicPartition) -> bool:
    return topic_partition.topic == "clicks"


def planned(
    source: FakeMovableLedger, target: FakeMovableLedger, *, replacing: bool = False
) -> RelocationPlan:
    places = source.identify(), target.identify()
    return plan_relocation(source, target, places, exists, replace=replacing)


def stopped() -> None:
    """Nobody runs."""


def move(source: FakeMovableLedger, target: FakeMovableLedger) -> None:
    plan = planned(source, target)
    if not plan.done:
        relocate(source, target, plan, stopped, time="2026-11-27T08:00:00Z", by="me@host")


def check_never_both(source: FakeMovableLedger, target: FakeMovableLedger) -> None:
    """At every moment: one is open at most, and it has what was stored."""
    for topic_partition, entry in ENTRIES.items():
        open_ones = [it for it in (source, target) if it.is_open(topic_partition)]
        if target in open_ones and not target.entries:
            open_ones.remove(target)  # it was never used
        assert len(open_ones) <= 1, topic_partition
        for ledger in open_ones:
            read = ledger.daemon_reads(topic_partition)
            assert (read, read.leader_epoch) == (entry, entry.leader_epoch)
        # Those that do not know the record see the entries alone.
        earlier = [it.earlier_version_reads(topic_partition) for it in (source, target)]
        assert None in earlier, topic_partition


@pytest.mark.parametrize("kinds", PAIRS)
def test_all_of_the_entries_are_moved_and_the_old_ledger_says_where(
    kinds: tuple[Kind, Kind],
) -> None:
    source, target = ledgers(kinds)
    move(source, target)
    for topic_partition, entry in ENTRIES.items():
        read = target.daemon_reads(topic_partition)
        assert (read, read.leader_epoch) == (entry, entry.leader_epoch)
        assert not source.is_open(topic_partition)
        assert source.earlier_version_reads(topic_partition) is None
    record = source.record()
    assert record == Relocation(
        Direction.MOVED_TO, f"{kinds[1]} new", "new", "2026-11-27T08:00:00Z", "me@host"
    )
    assert not source.is_open(TopicPartition("a topic of later", 0))
    assert planned(source, target).done


def crashing_move(kinds: tuple[Kind, Kind], writes: int, *, answered: bool, back: bool) -> bool:
    """Move, crash at the write behind so many, move again; tell whether there was such a write."""
    source, target = ledgers(kinds)
    if back:
        move(source, target)
        source, target = target, source
    left = writes

    def step(_: str) -> None:
        nonlocal left
        check_never_both(source, target)
        left -= 1
        if left == -1:
            raise Crash

    for ledger in (source, target):
        setattr(ledger, "after" if answered else "before", step)
    try:
        move(source, target)
        crashed = False
    except Crash:
        crashed = True
    check_never_both(source, target)
    move(source, target)
    for topic_partition, entry in ENTRIES.items():
        assert target.daemon_reads(topic_partition) == entry
        assert not source.is_open(topic_partition)
    return crashed


@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("back", [False, True])
def test_a_crash_at_any_step_leaves_one_ledger_open_at_most_and_the_same_command_finishes(
    kinds: tuple[Kind, Kind], answered: bool, back: bool
) -> None:
    """Also one that moves back, over the records of the first move."""
    crashes = 0
    while crashing_move(kinds, crashes, answered=answered, back=back):
        crashes += 1
    assert crashes >= 3 * len(ENTRIES)


@pytest.mark.parametrize("kinds", PAIRS)
def test_a_process_that_commits_while_the_ledger_is_moved_is_seen(
    kinds: tuple[Kind, Kind],
) -> None:
    """Whoever is late at the check of the members: the copy is not taken for the truth."""
    source, target = ledgers(kinds)
    plan = planned(source, target)
    committed = replace(ENTRIES[FIRST], committed=6)
    target.after = lambda _: source.put(FIRST, committed) if FIRST in target.entries else None
    with pytest.raises(Refused, match=r"clicks/0: its entry in .* has changed"):
        relocate(source, target, plan, stopped, time="t", by="me")
    assert not target.is_open(FIRST)
    target.after = lambda _: None
    move(source, target)
    assert target.daemon_reads(FIRST) == committed


def test_a_process_that_runs_before_the_old_ledger_is_closed_ends_the_move() -> None:
    source, target = ledgers(("zookeeper", "zookeeper"))

    def running() -> None:
        raise Refused("host-1 runs")

    with pytest.raises(Refused, match="host-1 runs"):
        relocate(source, target, planned(source, target), running, time="t", by="me")
    assert source.is_open(FIRST)
    assert not target.is_open(FIRST)


def test_a_write_to_the_new_ledger_that_is_not_there_when_it_is_read_back_ends_the_move() -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    target.after = lambda _: target.put(FIRST, Entry(4), target.record())
    with pytest.raises(Refused, match=r"clicks/0: .*committed=4.* was read back"):
        relocate(source, target, planned(source, target), stopped, time="t", by="me")
    assert source.is_open(FIRST)


def test_the_new_ledgers_own_offsets_are_replaced_only_if_asked() -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    target.put(FIRST, Entry(4))
    with pytest.raises(ConfigurationError, match=r"other offsets of clicks/0: .*--replace"):
        planned(source, target)
    plan = planned(source, target, replacing=True)
    assert plan.replaced == (FIRST,)
    target.put(FIRST, ENTRIES[FIRST])
    assert planned(source, target).replaced == ()


def test_an_entry_that_only_the_new_ledger_has_is_for_a_person() -> None:
    source, target = ledgers(("kafka", "zookeeper"))
    target.put(TopicPartition("clicks", 9), Entry(4))
    with pytest.raises(ConfigurationError, match=r"entries of clicks/9, .* offsets recover"):
        planned(source, target)


def test_entries_of_deleted_topics_stay_behind_and_are_open_again_after_the_way_back() -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    source.put(GONE, Entry(9, None, "id-0"))
    assert planned(source, target).unknown == (GONE,)
    move(source, target)
    assert GONE not in target.entries
    assert not source.is_open(GONE)
    move(target, source)
    assert source.daemon_reads(GONE) == Entry(9, None, "id-0")
    assert source.is_open(FIRST)


@pytest.mark.parametrize("replacing", [False, True])
def test_what_was_moved_to_a_third_ledger_is_not_moved_from_here(replacing: bool) -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    move(source, target)
    third = FakeMovableLedger("zookeeper", "third")
    with pytest.raises(ConfigurationError, match=r"moved to kafka new on .* ledger as OLD"):
        planned(source, third, replacing=replacing)


def test_an_unfinished_move_is_finished_before_another_one() -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    target.after = lambda _: (_ for _ in ()).throw(Crash)
    with pytest.raises(Crash):
        move(source, target)
    target.after = lambda _: None
    with pytest.raises(ConfigurationError, match="being moved from zookeeper old"):
        planned(target, FakeMovableLedger("zookeeper", "third"))
    with pytest.raises(ConfigurationError, match="being moved there from zookeeper old"):
        planned(
            ledgers(("zookeeper", "kafka"))[0].__class__("zookeeper", "else", source.entries),
            target,
        )
    assert planned(source, target).resumed
    move(source, target)


def test_a_moved_ledger_without_its_copies_is_copied_again() -> None:
    """Kafka forgets offsets of a group that nobody joins for a week."""
    source, target = ledgers(("zookeeper", "kafka"))
    source.after = lambda _: (_ for _ in ()).throw(Crash)
    with pytest.raises(Crash):
        move(source, target)
    source.after = lambda _: None
    target.entries.clear()
    assert not planned(source, target).done
    move(source, target)
    assert target.daemon_reads(SECOND) == ENTRIES[SECOND]
    del target.entries[SECOND]
    with pytest.raises(ConfigurationError, match=r"no entry of clicks/1: .* offsets recover"):
        planned(source, target)


def test_the_same_ledger_and_an_empty_one_are_refused() -> None:
    source, target = ledgers(("zookeeper", "kafka"))
    with pytest.raises(ConfigurationError, match="same ledger"):
        planned(source, source)
    with pytest.raises(ConfigurationError, match="no entry of this group"):
        planned(target, source)


def test_what_cannot_be_kept_is_refused_before_anything_is_written() -> None:
    class Small(FakeMovableLedger):
        def check(self, topic_partition: TopicPartition, entry: Entry, *_: object) -> None:
            if entry.intent is not None:
                raise StopPartition("takes 5000 characters")

    source, _ = ledgers(("zookeeper", "kafka"))
    small = Small("kafka", "new")
    with pytest.raises(ConfigurationError, match=r"clicks/1: its open intent is too long .*5000"):
        planned(source, small)
    # The record has to fit beside the intent in the old ledger, too.
    small.put(SECOND, ENTRIES[SECOND])
    with pytest.raises(ConfigurationError, match=r"clicks/1: its open intent is too long .*5000"):
        planned(small, FakeMovableLedger("zookeeper", "other"))
    source.put(FIRST, Entry(None, INTENT))
    with pytest.raises(ConfigurationError, match=r"clicks/0: an intent is open without"):
        planned(source, FakeMovableLedger("kafka", "new"))
