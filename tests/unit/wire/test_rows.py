from __future__ import annotations

import pytest

from secor.core.model import SCHEMA
from secor.wire import records_to_chunk
from secor.wire.chunks import Row
from tests.unit.wire.wire_batches import CLICKS, rows_of


def test_rows_become_columns() -> None:
    records: list[Row] = [
        (4, 1000, 0, b"k", b"v", [("a", b"1"), ("a", None)]),
        (9, 2000, 1, None, b"", []),
        (10, 3000, 0, b"", None, []),
    ]
    chunk = records_to_chunk(CLICKS, iter(records), 12)
    assert chunk.records.schema == SCHEMA
    assert rows_of([chunk]) == records
    assert (chunk.topic_partition, chunk.next_offset) == (CLICKS, 12)


def test_what_the_oldest_format_does_not_know_is_null() -> None:
    chunk = records_to_chunk(
        CLICKS, [(0, -1, -1, None, b"v", []), (1, None, None, None, b"", [])], 2
    )
    assert chunk.records["timestamp"].to_pylist() == [None, None]
    assert chunk.records["timestamp_type"].to_pylist() == [None, None]


def test_no_rows_give_an_empty_chunk() -> None:
    chunk = records_to_chunk(CLICKS, [], 5)
    assert (chunk.records.num_rows, chunk.next_offset) == (0, 5)
    assert chunk.records.schema == SCHEMA


@pytest.mark.parametrize(("offsets", "reached"), [([1, 1], 5), ([2, 1], 5), ([1, 5], 5)])
def test_offsets_that_do_not_rise_are_refused(offsets: list[int], reached: int) -> None:
    records: list[Row] = [(offset, 0, 0, None, b"", []) for offset in offsets]
    with pytest.raises(ValueError, match="clicks/3: offsets do not rise"):
        records_to_chunk(CLICKS, records, reached)
