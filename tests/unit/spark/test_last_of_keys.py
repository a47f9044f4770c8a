"""Which changes are the last of their keys, decided in the driver."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secor.core.errors import Unavailable
from secor.spark.last_of_keys import ChangeOrder
from secor.tables.rows.staged_rows import staged_schema

COLUMNS = pa.schema(
    [pa.field("id", pa.int64()), pa.field("text", pa.string()), pa.field("rank", pa.float64())]
)

Change = tuple[int, str, int, int, int | None, int, str | None]
"""Operation, topic, partition, offset, timestamp; the row's id and text."""


def batch(*rows: Change, ranks: list[float | None] | None = None) -> pa.RecordBatch:
    """Return staged changes; ``ranks`` are of their rows."""
    staged = [
        {
            "operation": operation,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": timestamp,
            "row": {"id": number, "text": text, "rank": ranks[at] if ranks else None},
        }
        for at, (operation, topic, partition, offset, timestamp, number, text) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(staged, schema=staged_schema(COLUMNS, keeping=True))


def keep_last(
    *batches: pa.RecordBatch, key: tuple[str, ...] = ("id",), order: str | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Return the changes that are kept, and how many keys have no order."""
    changes = ChangeOrder(key, order)
    for each in batches:
        changes.add(each)
    last = changes.last()
    return pa.Table.from_batches(batches).take(pa.array(last.rows)).to_pylist(), last.unordered


def texts(changes: list[dict[str, Any]]) -> dict[int, str | None]:
    rows = [change["row"] for change in changes]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["text"] for row in rows}


def test_the_greatest_offset_of_a_topic_partition_is_last_whatever_its_time_and_place() -> None:
    last, unordered = keep_last(
        batch(
            (0, "t", 0, 7, 1, 1, "last, with an old time"),
            (0, "t", 0, 5, 9, 1, "first"),
        ),
        batch((1, "t", 0, 6, 5, 2, None), (0, "t", 0, 8, None, 3, "without a time")),
    )
    assert texts(last) == {1: "last, with an old time", 2: None, 3: "without a time"}
    assert [change["operation"] for change in last] == [0, 1, 0]
    assert unordered == 0


def test_between_topic_partitions_time_decides_then_topic_partition_and_offset() -> None:
    last, unordered = keep_last(
        batch(
            (0, "t", 0, 1, 20, 1, "later"),
            (0, "t", 1, 9, 10, 1, "earlier"),
            (0, "t", 1, 8, 30, 1, "not the last of its partition"),
            (0, "b", 0, 1, 10, 2, "topic b"),
            (0, "a", 0, 5, 10, 2, "topic a"),
        ),
        batch(
            (0, "t", 2, 1, 10, 3, "partition 2"),
            (0, "t", 10, 0, 10, 3, "partition 10"),
            (0, "t", 0, 2, None, 4, "no time"),
            (0, "t", 1, 2, 0, 4, "some time"),
            (0, "t", 0, 3, 10, 5, "alone"),
        ),
    )
    assert texts(last) == {1: "later", 2: "topic b", 3: "partition 10", 4: "some time", 5: "alone"}
    assert unordered == 4


def test_a_key_may_have_several_columns_and_nulls() -> None:
    last, _ = keep_last(
        batch(
            (0, "t", 0, 1, 1, 1, "a"),
            (0, "t", 0, 2, 1, 1, "b"),
            (1, "t", 0, 3, 1, 1, "a"),
            (0, "t", 0, 4, 1, 1, None),
            (1, "t", 0, 5, 1, 1, None),
        ),
        key=("id", "text"),
    )
    operations = {change["row"]["text"]: change["operation"] for change in last}
    assert operations == {"a": 1, "b": 0, None: 1}


def test_a_column_that_orders_comes_before_offset_and_time() -> None:
    last, unordered = keep_last(
        batch(
            (0, "t", 0, 1, 1, 1, "greatest"),
            (0, "t", 0, 2, 2, 1, "smaller, and later"),
            (0, "t", 0, 3, 1, 2, "before a deletion"),
            (1, "t", 0, 4, 1, 2, None),
            (0, "t", 0, 5, 1, 3, "before it, and greater than what follows"),
            (1, "t", 0, 6, 1, 3, "deleted"),
            (0, "t", 0, 7, 1, 3, "smaller than what was deleted"),
            (0, "t", 0, 8, 1, 4, "of partition 0"),
            (0, "t", 1, 1, 9, 4, "of partition 1, with a smaller value and a later time"),
            ranks=[5, 4, 1, None, 7, None, 6, 2, 1],
        ),
        order="rank",
    )
    assert texts(last) == {1: "greatest", 2: None, 3: "deleted", 4: "of partition 0"}
    assert unordered == 1


def test_nothing_is_reduced_to_nothing() -> None:
    assert keep_last(batch()) == ([], 0)


@pytest.mark.parametrize("order", ["absent", "row"])
def test_a_column_that_cannot_order_is_an_error(order: str) -> None:
    with pytest.raises(Unavailable, match=f"no column {order} with values that can be compared"):
        keep_last(batch((0, "t", 0, 1, 1, 1, "a")), order=order)


RANKS = st.sampled_from([None, 0.5, 1.0, float("inf")])
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["a", None, "é"]),
        st.sampled_from([("t", 0), ("t", 3), ("u", 0)]),
        st.sampled_from([None, 0, 5]),
        RANKS,
    ),
    max_size=12,
)


@given(changes=CHANGES, pieces=st.integers(1, 4), by_rank=st.booleans(), seed=st.randoms())
def test_it_is_what_one_change_after_the_other_would_leave(
    changes: list[Any], pieces: int, by_rank: bool, seed: Any
) -> None:
    numbered = list(enumerate(changes))
    seed.shuffle(numbered)
    of_partitions: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for offset, (number, text, source, time, rank) in enumerate(changes):
        of_key = of_partitions[number, text]
        before = of_key.get(source)
        value = -1.0
        if by_rank:
            value = max(-1.0, before[2]) if rank is None and before else (rank or -1.0)
        if before is None or value >= before[0]:
            greatest = value if before is None else max(value, before[2])
            of_key[source] = (value, offset, greatest, -1 if time is None else time)
        else:
            of_key[source] = before
    expected = set()
    for of_key in of_partitions.values():
        best = max((it[0], it[3], source, it[1]) for source, it in of_key.items())
        expected.add(best[3])
    rows: list[Change] = [
        (0, *source, offset, time, number, text)
        for offset, (number, text, source, time, _) in numbered
    ]
    ranks = [change[4] for _, change in numbered]
    batches = [batch(*rows[at::pieces], ranks=ranks[at::pieces]) for at in range(pieces)]
    kept, unordered = keep_last(*batches, key=("id", "text"), order="rank" if by_rank else None)
    assert {change["offset"] for change in kept} == expected
    assert len(kept) == len(of_partitions)
    assert unordered == sum(len(of_key) > 1 for of_key in of_partitions.values())
