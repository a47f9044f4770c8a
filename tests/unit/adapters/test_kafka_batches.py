"""Whole batches against the client's own iterator over messages."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition as KafkaTopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from secor.adapters.kafka.batches import BatchRecords, decode
from secor.core.errors import CorruptBatch
from secor.core.model import TopicPartition
from secor.wire import BatchRun

TP = TopicPartition("clicks", 3)
CONTROL = 0x20
CRC_AT = 17


def batch(
    base: int,
    count: int,
    *,
    codec: int = 0,
    producer: int = -1,
    transactional: bool = False,
    control: bool = False,
    gap: int = 0,
    value: bytes = b"v",
) -> bytearray:
    """Return a batch of format v2 at ``base``; ``gap`` offsets behind its messages are gone."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1 << 20,
    )
    for delta in range(count):
        # A marker's key: version 0, type 0 = abort.
        key = b"\0\0\0\0" if control else b"k%d" % delta
        builder.append(delta, 1000 + delta, key, value, [("h", b"x")] if delta % 2 else [])
    data = bytearray(builder.build())
    data[0:8] = base.to_bytes(8, "big")
    data[12:16] = (5).to_bytes(4, "big")
    data[23:27] = (count - 1 + gap).to_bytes(4, "big")
    if control:
        data[22] |= CONTROL
    return with_crc(data)


def with_crc(data: bytearray) -> bytearray:
    from crc32c import crc32c

    data[CRC_AT : CRC_AT + 4] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


def read(kind: Any, data: bytes, start: int, aborted: list[tuple[int, int]]) -> Any:
    transactions = [
        SimpleNamespace(producer_id=producer, first_offset=first) for producer, first in aborted
    ]
    return kind(
        start,
        KafkaTopicPartition(TP.topic, TP.partition),
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=transactions,
    )


def rows_of(data: bytes, start: int, aborted: list[tuple[int, int]]) -> tuple[list[Any], int, int]:
    fetch = read(BatchRecords, data, start, aborted).read()
    assert fetch.error is None
    chunks = list(decode(TP, fetch))
    rows = [row for chunk in chunks for row in chunk.records.to_pylist()]
    reached = chunks[-1].next_offset if chunks else start
    assert reached == fetch.next_offset
    return rows, fetch.next_offset, fetch.leader_epoch


SEQUENCES: dict[str, tuple[list[bytearray], list[tuple[int, int]]]] = {
    "plain": ([batch(0, 3), batch(3, 2)], []),
    "compressed": ([batch(0, 5, codec=1), batch(5, 5, codec=3), batch(10, 5, codec=4)], []),
    "compacted": ([batch(0, 3, gap=4), batch(20, 1, gap=9)], []),
    "committed then marker": (
        [batch(0, 2, producer=7, transactional=True), batch(2, 1, producer=8, control=True)],
        [],
    ),
    "aborted": (
        [
            batch(0, 2),
            batch(2, 3, producer=7, transactional=True),
            batch(5, 1, producer=7, transactional=True, control=True),
            batch(6, 2, producer=7, transactional=True),
        ],
        [(7, 2)],
    ),
    "only markers": ([batch(4, 1, producer=7, transactional=True, control=True)], []),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("start", [0, 1, 4])
def test_batches_give_what_the_clients_own_iterator_gives(name: str, start: int) -> None:
    parts, aborted = SEQUENCES[name]
    data = b"".join(parts)
    reference = read(Fetcher.PartitionRecords, data, start, aborted)
    expected = reference.take()

    rows, reached, epoch = rows_of(data, start, aborted)

    assert [row["offset"] for row in rows] == [record.offset for record in expected]
    assert [row["key"] for row in rows] == [record.key for record in expected]
    assert [row["timestamp"] for row in rows] == [record.timestamp for record in expected]
    assert reached == max(reference.next_fetch_offset, start)
    assert epoch == reference.leader_epoch


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_batches_of_the_old_formats_come_through_the_clients_iterator(
    magic: int, codec: int
) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset in range(6):
        builder.append(offset, 50 + offset, b"k", None if offset == 2 else b"v%d" % offset)
    rows, reached, _ = rows_of(bytes(builder.build()), 2, [])
    assert [row["offset"] for row in rows] == [2, 3, 4, 5]
    assert [row["value"] for row in rows] == [None, b"v3", b"v4", b"v5"]
    assert {row["timestamp_type"] for row in rows} == ({0} if magic else {None})
    assert reached == 6


def test_old_and_new_formats_may_follow_each_other() -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    for offset in range(2):
        builder.append(offset, 50, b"k", b"old")
    rows, reached, _ = rows_of(bytes(builder.build()) + batch(2, 2, value=b"new"), 0, [])
    assert [row["value"] for row in rows] == [b"old", b"old", b"new", b"new"]
    assert reached == 4


def test_what_came_before_a_corrupt_batch_is_good_and_the_position_stays_there() -> None:
    bad = batch(3, 2)
    bad[-1] ^= 0xFF
    fetch = read(BatchRecords, bytes(batch(0, 3) + bad + batch(5, 1)), 0, []).read()
    assert isinstance(fetch.error, CorruptBatch)
    assert "clicks/3" in str(fetch.error)
    assert "offset 3" in str(fetch.error)
    assert fetch.next_offset == 3
    assert [c.records.num_rows for c in decode(TP, fetch)] == [3]


def test_a_corrupt_first_batch_gives_nothing_and_keeps_the_position() -> None:
    bad = batch(0, 2)
    bad[40] ^= 1
    fetch = read(BatchRecords, bytes(bad), 0, []).read()
    assert isinstance(fetch.error, CorruptBatch)
    assert (fetch.items, fetch.next_offset) == ([], 0)


def test_records_that_cannot_be_decoded_are_a_corrupt_batch_when_they_are_decoded() -> None:
    bad = batch(0, 2)
    bad[61] = 0x7F
    fetch = read(BatchRecords, bytes(with_crc(bad)), 0, []).read()
    assert fetch.error is None
    with pytest.raises(CorruptBatch):
        list(decode(TP, fetch))


def described(data: bytes, start: int) -> tuple[object, ...]:
    """All that a fetch and its chunks are."""
    fetch = read(BatchRecords, data, start, []).read()
    try:
        chunks: object = [
            (chunk.records.to_pylist(), chunk.next_offset) for chunk in decode(TP, fetch)
        ]
    except CorruptBatch as error:
        chunks = str(error)
    return chunks, fetch.start, fetch.next_offset, fetch.leader_epoch, fetch.size, str(fetch.error)


def damaged(chance: random.Random) -> bytes:
    """Batches of all kinds that follow each other, some of them damaged, the last cut off."""
    parts: list[bytearray] = []
    base = 0
    for _ in range(chance.randrange(6)):
        producer = chance.choice((-1, 7))
        control = chance.random() < 0.2
        count = 1 if control else chance.randrange(1, 4)
        made = batch(
            base,
            count,
            codec=0 if control else chance.choice((0, 0, 3)),
            producer=producer,
            transactional=producer >= 0,
            control=control,
            gap=chance.choice((0, 0, 3)),
        )
        base += count + 5
        if chance.random() < 0.15:
            at = chance.randrange(len(made))
            made[at] ^= chance.choice((1, 0x80, 0xFF))
            made = made if chance.random() < 0.5 else with_crc(made)
        parts.append(made)
    data = b"".join(parts)
    return data[: chance.choice((len(data), chance.randrange(len(data) + 1)))]


def test_a_fetch_taken_at_once_is_what_it_is_batch_by_batch() -> None:
    chance = random.Random(11)
    at_once, one_by_one = 0, 0
    for seed in range(1500):
        data, start = damaged(chance), chance.randrange(20)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BatchRecords, "_read_at_once", lambda _: None)
            expected = described(data, start)
        assert described(data, start) == expected, seed
        fetch = read(BatchRecords, data, start, []).read()
        at_once += any(isinstance(item, BatchRun) for item in fetch.items)
        one_by_one += any(isinstance(item, bytearray) for item in fetch.items)
    assert at_once > 300
    assert one_by_one > 50


def test_a_fetch_with_an_aborted_transaction_is_read_batch_by_batch() -> None:
    parts, aborted = SEQUENCES["aborted"]
    fetch = read(BatchRecords, b"".join(parts), 0, aborted).read()
    assert {type(item) for item in fetch.items} == {bytearray}
