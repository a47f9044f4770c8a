"""What is expected of offsets before a recovery, and what of groups is there after it."""

from __future__ import annotations

import pytest

from secor.core.model import OffsetRange, TopicPartition
from secor.restore.groups import GroupOffset
from secor.restore.recovery import (
    KindState,
    Place,
    compare_group,
    expected_place,
    state_of_groups,
)

ORDERS = TopicPartition("orders", 0)
EXTENTS = {ORDERS: OffsetRange(100, 200)}


@pytest.mark.parametrize(
    ("offset", "place", "mixed", "expected"),
    [
        (150, ORDERS, False, Place.EXACT),
        (200, ORDERS, False, Place.EXACT),
        (201, ORDERS, False, Place.BEHIND_THE_ARCHIVE),
        (99, ORDERS, False, Place.BEFORE_THE_ARCHIVE),
        (150, ORDERS, True, Place.SHARED),
        (7, TopicPartition("orders", 1), False, Place.EXACT),
        (7, TopicPartition("other", 0), False, Place.NOT_RESTORED),
    ],
)
def test_an_offset_is_judged_by_what_is_archived(
    offset: int, place: TopicPartition, *, mixed: bool, expected: Place
) -> None:
    it = GroupOffset("shop", place, offset)
    assert expected_place(it, EXTENTS, {"orders"}, is_mixed=mixed) is expected


def test_a_group_that_has_consumed_more_is_back_and_one_that_is_behind_is_not() -> None:
    wanted = {TopicPartition("orders", number): 10 for number in range(4)}
    present = {
        TopicPartition("orders", 0): 10,
        TopicPartition("orders", 1): 11,
        TopicPartition("orders", 2): 9,
    }
    state = compare_group("shop", wanted, present)
    assert (state.equal, state.moved_on, state.missing) == (1, 1, 1)
    assert state.behind == {TopicPartition("orders", 2): (9, 10)}
    kind = state_of_groups([state, compare_group("idle", {ORDERS: 3}, {ORDERS: 5})], [], [])
    assert (kind.total, kind.done) == (2, 1)
    assert "before the restored 10" in kind.obstacles[0]
    assert "--force" in kind.obstacles[0]
    assert kind.notes == ("2 groups have consumed more since",)


def test_a_running_group_is_an_obstacle_only_while_it_lacks_an_offset() -> None:
    lacking = compare_group("shop", {ORDERS: 3}, {}, "stable")
    assert "stop its members" in state_of_groups([lacking], [], []).obstacles[0]
    done = compare_group("shop", {ORDERS: 3}, {ORDERS: 4}, "stable")
    assert state_of_groups([done], [], []).is_complete


def test_what_was_not_kept_is_never_complete() -> None:
    assert KindState("acls", 0, 0).is_complete
    assert not KindState("acls", 0, 0, is_kept=False).is_complete
    assert not KindState("acls", 2, 2, ("one is refused",)).is_complete
