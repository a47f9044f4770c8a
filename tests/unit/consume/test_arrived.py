"""What was fetched and is in no batch yet."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest

from secor.consume import partition as arrived_module
from secor.consume.partition import ArrivedChunks
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


def ends(arrived: ArrivedChunks) -> list[int]:
    chunks = iter(arrived.next, None)
    return [chunk.next_offset for chunk in chunks if chunk is not None]


def test_chunks_come_in_order_and_a_rest_comes_first() -> None:
    arrived = ArrivedChunks(fetched(3, 6))
    arrived.extend(ArrivedChunks(fetched(8, start=6)))
    first = arrived.next()
    assert first is not None
    arrived.put_back(first.since(1))
    assert ends(arrived) == [3, 6, 8]


def test_its_size_is_that_of_fetches_and_of_the_rest() -> None:
    arrived = ArrivedChunks(fetched(3))
    arrived.extend(ArrivedChunks(fetched(6, size=50, start=3)))
    assert arrived.size == 150
    first = arrived.next()
    assert first is not None
    arrived.put_back(first)
    assert arrived.size == 150 + first.records.get_total_buffer_size()
    assert ends(arrived) == [3, 6]
    assert arrived.size == 0


def test_very_many_rests_of_one_chunk_need_no_deep_stack() -> None:
    arrived = ArrivedChunks(fetched(1))
    for _ in range(200_000):
        chunk = arrived.next()
        assert chunk is not None
        arrived.put_back(chunk)
    assert ends(arrived) == [1]


def test_what_cannot_be_decoded_is_told_in_its_place() -> None:
    def chunks() -> Iterator[Chunk]:
        yield Chunk(KEY, messages([0]), 1)
        raise CorruptBatch("clicks/0: at offset 1")

    arrived = ArrivedChunks(Fetched(KEY, 9, chunks))
    assert arrived.next() is not None
    with pytest.raises(CorruptBatch):
        arrived.next()


class Answer:
    """What a broker sent."""


def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrived_module, "LARGE", 1)


def test_a_fetch_is_given_up_when_a_large_message_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[weakref.ref[Answer]] = []

    def chunks() -> Iterator[Chunk]:
        answer = Answer()
        answers.append(weakref.ref(answer))
        yield Chunk(KEY, messages([0]), 1)

    arrived = ArrivedChunks(Fetched(KEY, 100, chunks))
    large(monkeypatch)
    assert arrived.next() is not None
    assert [answer() for answer in answers] == [None]
    assert arrived.size == 0
    assert arrived.next() is None


def test_a_rest_of_a_large_chunk_comes_before_what_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large(monkeypatch)
    arrived = ArrivedChunks(fetched(3, 6, 8))
    first = arrived.next()
    assert first is not None
    decoded = arrived.size - 100
    assert decoded == messages(range(3, 6)).get_total_buffer_size()
    arrived.put_back(first.since(1))
    assert arrived.size == 100 + decoded + first.since(1).records.get_total_buffer_size()
    assert ends(arrived) == [3, 6, 8]


def test_what_cannot_be_decoded_behind_a_large_message_is_told_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large(monkeypatch)

    def chunks() -> Iterator[Chunk]:
        yield Chunk(KEY, messages([0, 1]), 2)
        raise CorruptBatch("clicks/0: at offset 2")

    arrived = ArrivedChunks(Fetched(KEY, 9, chunks))
    first = arrived.next()
    assert first is not None
    arrived.put_back(first.since(1))
    assert arrived.next() is not None
    with pytest.raises(CorruptBatch):
        arrived.next()
