"""Rows wait until they fill a batch: fewer requests, the same records in the same order."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa

from secor.core.model import TopicPartition
from secor.restore.writer.unsent import UnsentRows
from tests.fakes.archive import messages

FIRST, SECOND = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
Parts = list[tuple[TopicPartition, pa.RecordBatch]]


def offsets(parts: Parts, of: TopicPartition = FIRST) -> list[list[int]]:
    return [rows.column("offset").to_pylist() for where, rows in parts if where == of]


def test_small_pieces_become_one_batch() -> None:
    unsent = UnsentRows(10_000, 1000)
    for at in range(0, 30, 10):
        assert list(unsent.add(FIRST, messages(range(at, at + 10)))) == []
    (batch,) = unsent.drain()
    assert batch[1].equals(messages(range(30)))
    assert list(unsent.drain()) == []


def test_a_piece_that_fills_batches_leaves_its_end() -> None:
    unsent = UnsentRows(10**6, 4)
    assert offsets(list(unsent.add(FIRST, messages(range(10))))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert offsets(list(unsent.add(FIRST, messages(range(10, 13))))) == [[8, 9, 10, 11]]
    assert offsets(list(unsent.drain())) == [[12]]


def test_rows_that_nearly_fill_a_batch_are_sent_without_being_copied() -> None:
    unsent = UnsentRows(10**6, 10)
    first = messages(range(8))
    assert list(unsent.add(FIRST, first)) == []
    ((_, sent),) = unsent.add(FIRST, messages(range(8, 12)))
    assert sent.column("value").buffers()[2].address == first.column("value").buffers()[2].address
    assert offsets(list(unsent.drain())) == [[8, 9, 10, 11]]


def test_each_partition_keeps_its_order_beside_others() -> None:
    unsent = UnsentRows(10**6, 3)
    sent: Parts = []
    for at in range(0, 20, 2):
        sent += unsent.add(FIRST, messages([at]))
        sent += unsent.add(SECOND, messages([at + 1]))
    sent += unsent.drain()
    assert list(chain.from_iterable(offsets(sent, FIRST))) == list(range(0, 20, 2))
    assert list(chain.from_iterable(offsets(sent, SECOND))) == list(range(1, 20, 2))


def test_what_waits_is_bounded_for_a_target_of_many_partitions() -> None:
    piece = messages(range(10))
    unsent = UnsentRows(10**6, 1000, most_bytes=5 * piece.nbytes)
    sent: Parts = []
    for number in range(6):
        assert sent == []
        sent += unsent.add(TopicPartition("clicks", number), piece)
    assert len(sent) == 6
    assert list(unsent.drain()) == []


def test_what_is_forgotten_is_not_sent() -> None:
    unsent = UnsentRows(10**6, 1000)
    assert list(unsent.add(FIRST, messages(range(5)))) == []
    unsent.clear()
    assert list(unsent.add(FIRST, messages([7]))) == []
    assert offsets(list(unsent.drain())) == [[7]]


def test_pieces_without_rows_change_nothing() -> None:
    unsent = UnsentRows(10**6, 1000)
    assert list(unsent.add(FIRST, messages([]))) == []
    assert list(unsent.drain()) == []
