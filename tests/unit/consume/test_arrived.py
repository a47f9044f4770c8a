"""What was fetched and is in no batch yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secor.consume.arrived import Arrived
from secor.core.errors import CorruptBatch
from secor.core.model import Chunk, TopicPartition
from secor.core.ports import Fetched
from tests.fakes.archive import messages

KEY = TopicPartition("clicks", 0)


def fetched(*ends: int, size: int = 100, start: int = 0) -> Fetched:
    def chunks() -> Iterator[Chunk]:
        at = start
        for end in ends:
            yield Chunk(KEY, messages(list(range(at, end))), end)
            at = end

    return Fetched(KEY, size, chunks)


def ends(arrived: Arrived) -> list[int]:
    chunks = iter(arrived.next, None)
    return [chunk.next_offset for chunk in chunks if chunk is not None]


def test_chunks_come_in_order_and_a_rest_comes_first() -> None:
    arrived = Arrived(fetched(3, 6))
    arrived.extend(Arrived(fetched(8, start=6)))
    first = arrived.next()
    assert first is not None
    arrived.put_back(first.since(1))
    assert ends(arrived) == [3, 6, 8]


def test_its_size_is_that_of_fetches_and_of_the_rest() -> None:
    arrived = Arrived(fetched(3))
    arrived.extend(Arrived(fetched(6, size=50, start=3)))
    assert arrived.size == 150
    first = arrived.next()
    assert first is not None
    arrived.put_back(first)
    assert arrived.size == 150 + first.records.get_total_buffer_size()
    assert ends(arrived) == [3, 6]
    assert arrived.size == 0


def test_very_many_rests_of_one_chunk_need_no_deep_stack() -> None:
    arrived = Arrived(fetched(1))
    for _ in range(200_000):
        chunk = arrived.next()
        assert chunk is not None
        arrived.put_back(chunk)
    assert ends(arrived) == [1]


def test_what_cannot_be_decoded_is_told_in_its_place() -> None:
    def chunks() -> Iterator[Chunk]:
        yield Chunk(KEY, messages([0]), 1)
        raise CorruptBatch("clicks/0: at offset 1")

    arrived = Arrived(Fetched(KEY, 9, chunks))
    assert arrived.next() is not None
    with pytest.raises(CorruptBatch):
        arrived.next()
