from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptBatch
from secor.core.model import SCHEMA
from secor.wire import decode_chunks, parse_header
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    as_the_client_reads,
    batch_of,
    lz4_of_java,
    rows_of,
    sealed,
    with_payload,
)

pytestmark = pytest.mark.usefixtures("decoder")

FIXED = settings(deadline=None, max_examples=100, derandomize=True, database=None)

contents = st.one_of(
    st.none(), st.binary(max_size=20), st.binary(max_size=3).map(lambda piece: piece * 3000)
)
headers = st.one_of(
    st.just(()), st.lists(st.tuples(st.text(max_size=5), contents), max_size=40).map(tuple)
)
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_300_000), st.integers(-1, 2**61), st.just(-1)
)
messages = st.builds(Message, st.just(0), timestamps, key=contents, value=contents, headers=headers)


@st.composite
def one_batch(draw: st.DrawFn) -> tuple[list[Message], dict[str, object]]:
    drawn = draw(st.lists(messages, min_size=1, max_size=12))
    gaps = draw(st.lists(st.integers(1, 300), min_size=len(drawn), max_size=len(drawn)))
    delta, placed = -1, []
    for message, gap in zip(drawn, gaps, strict=True):
        delta += gap
        placed.append(replace(message, delta=delta))
    return placed, {
        "codec": draw(st.integers(0, 4)),
        "transactional": draw(st.booleans()),
        "log_append": draw(st.one_of(st.none(), st.integers(-1, 2**60))),
        "last_delta": delta + draw(st.integers(0, 9)),
    }


@given(st.lists(one_batch(), max_size=4))
@FIXED
def test_batches_are_read_as_the_client_reads_them(
    drawn: list[tuple[list[Message], dict[str, object]]],
) -> None:
    batches, base = [], 100
    for placed, options in drawn:
        batches.append(batch_of(placed, base=base, **options))  # type: ignore[arg-type]
        base = parse_header(batches[-1]).next_offset
    chunks = list(decode_chunks(CLICKS, batches, 0))
    assert rows_of(chunks) == as_the_client_reads(batches)
    assert [chunk.next_offset for chunk in chunks][-1:] == [base] * bool(batches)
    assert all(chunk.records.schema == SCHEMA for chunk in chunks)
    assert all(chunk.topic_partition == CLICKS for chunk in chunks)


def some(count: int, size: int = 150, first: int = 0) -> list[Message]:
    return [
        Message(index, 1_700_000_000_000 + index, b"key", bytes([65 + index % 26]) * size)
        for index in range(first, first + count)
    ]


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_of_the_client_is_read(codec: int) -> None:
    batch = batch_of(some(1000), codec=codec)
    assert parse_header(batch).codec == codec
    assert rows_of(decode_chunks(CLICKS, [batch], 0)) == as_the_client_reads([batch])


def test_lz4_as_the_java_client_writes_it_is_read() -> None:
    plain = batch_of(some(3000))
    batch = with_payload(plain, lz4_of_java(plain[HEADER_SIZE:]), codec=3)
    assert rows_of(decode_chunks(CLICKS, [batch], 0)) == as_the_client_reads([plain])


SIZES = (0, 1, 50, 56, 57, 58, 63, 64, 120, 127, 128, 8100, 8192, 2_000_000)


@pytest.mark.parametrize("size", SIZES)
def test_lengths_at_the_borders_of_their_encoding_are_read(size: int) -> None:
    batch = batch_of([Message(0, value=b"v" * size), Message(1, key=b"k" * size, value=None)])
    assert rows_of(decode_chunks(CLICKS, [batch], 0)) == as_the_client_reads([batch])


def test_null_and_empty_keys_and_values_differ() -> None:
    both: tuple[bytes | None, ...] = (None, b"")
    pairs = [(key, value) for key in both for value in both]
    batch = batch_of([Message(i, key=key, value=value) for i, (key, value) in enumerate(pairs)])
    rows = rows_of(decode_chunks(CLICKS, [batch], 0))
    assert [(row[3], row[4]) for row in rows] == pairs


def test_no_timestamp_is_null() -> None:
    batch = batch_of([Message(0, -1), Message(1, 5), Message(2, -1)])
    assert [row[1] for row in rows_of(decode_chunks(CLICKS, [batch], 0))] == [None, 5, None]


def test_log_append_time_is_that_of_every_record_of_its_batch_only() -> None:
    created = batch_of([Message(0, 10), Message(1, 20)])
    appended = batch_of([Message(0, 30), Message(1, 40)], base=2, log_append=99)
    rows = rows_of(decode_chunks(CLICKS, [created, appended], 0))
    assert [row[1:3] for row in rows] == [(10, 0), (20, 0), (99, 1), (99, 1)]


def test_rows_below_the_start_are_dropped_and_batches_below_it_not_even_decoded() -> None:
    early = batch_of(some(10))
    broken = with_payload(early, b"nothing of a record")
    late = batch_of(some(10), base=10)
    chunks = list(decode_chunks(CLICKS, [broken, late], 14))
    assert [row[0] for row in rows_of(chunks)] == list(range(14, 20))
    assert chunks[0].records.column("offset").to_pylist() == list(range(14, 20))
    assert chunks[-1].next_offset == 20


def test_a_start_in_a_gap_gives_the_rows_behind_it() -> None:
    batch = batch_of([Message(0), Message(5)], last_delta=8)
    (chunk,) = decode_chunks(CLICKS, [batch], 3)
    assert rows_of([chunk]) == [(5, 1_700_000_000_000, 0, None, b"", [])]
    assert chunk.next_offset == 9


def test_a_start_behind_all_rows_of_a_batch_still_moves_the_position() -> None:
    batch = batch_of([Message(0), Message(5)], last_delta=8)
    (chunk,) = decode_chunks(CLICKS, [batch], 7)
    assert chunk.records.num_rows == 0
    assert chunk.next_offset == 9


def test_many_small_batches_come_as_one_chunk() -> None:
    batches = [batch_of(some(3), base=3 * index, codec=index % 5) for index in range(100)]
    chunks = list(decode_chunks(CLICKS, batches, 0))
    assert len(chunks) == 1
    assert rows_of(chunks) == as_the_client_reads(batches)


def test_a_large_fetch_comes_in_chunks_that_follow_each_other() -> None:
    batches = [batch_of(some(1000, 400), base=1000 * index) for index in range(8)]
    chunks = list(decode_chunks(CLICKS, batches, 0, next_offset=8005))
    assert 1 < len(chunks) < 8
    assert rows_of(chunks) == as_the_client_reads(batches)
    ends = [chunk.next_offset for chunk in chunks]
    assert ends == [int(chunk.records["offset"][-1].as_py()) + 1 for chunk in chunks[:-1]] + [8005]


def test_control_batches_are_passed_over_and_move_the_position() -> None:
    control = bytearray(batch_of([Message(0, key=b"\0\0\0\1", value=b"\0" * 6)], base=2))
    control[22] |= 0x20
    data = batch_of(some(2))
    (chunk,) = decode_chunks(CLICKS, [data, sealed(control)], 0)
    assert [row[0] for row in rows_of([chunk])] == [0, 1]
    assert chunk.next_offset == 3


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_compaction_emptied_moves_the_position(codec: int) -> None:
    empty = with_payload(batch_of(some(5)), b"", codec=codec, count=0)
    (chunk,) = decode_chunks(CLICKS, [empty], 0)
    assert (chunk.records.num_rows, chunk.next_offset) == (0, 5)
    assert chunk.records.schema == SCHEMA


def test_an_explicit_next_offset_comes_with_a_chunk_even_without_batches() -> None:
    (chunk,) = decode_chunks(CLICKS, [], 7, next_offset=9)
    assert (chunk.records.num_rows, chunk.next_offset) == (0, 9)


@pytest.mark.parametrize("reached", [None, 3, 7])
def test_nothing_comes_of_nothing(reached: int | None) -> None:
    assert list(decode_chunks(CLICKS, [], 7, next_offset=reached)) == []


def test_a_lower_explicit_next_offset_does_not_take_the_position_back() -> None:
    (chunk,) = decode_chunks(CLICKS, [batch_of(some(5))], 0, next_offset=2)
    assert chunk.next_offset == 5


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_batches_may_be_any_buffer_and_chunks_do_not_look_into_it_later(kind: type) -> None:
    original = batch_of(some(4))
    given_ = bytearray(original)
    chunks = list(decode_chunks(CLICKS, [kind(given_)], 0))
    given_[:] = bytes(len(given_))
    assert rows_of(chunks) == as_the_client_reads([original])


def test_the_header_says_what_the_batch_is() -> None:
    batch = batch_of(some(5), base=40, codec=3, transactional=True, log_append=77, last_delta=9)
    header = parse_header(memoryview(batch))
    assert (header.base_offset, header.magic, header.count) == (40, 2, 5)
    assert (header.codec, header.timestamp_type, header.is_control) == (3, 1, False)
    assert (header.size, header.next_offset) == (len(batch), 50)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 77)
    assert header.crc == struct.unpack_from(">I", batch, 17)[0]


def test_a_header_needs_all_its_bytes() -> None:
    with pytest.raises(ValueError, match="60 bytes"):
        parse_header(bytes(60))


def test_a_limit_beyond_what_columns_can_address_is_refused() -> None:
    with pytest.raises(ValueError, match="max_uncompressed"):
        next(decode_chunks(CLICKS, [], 0, max_uncompressed=1 << 31))


def test_chunks_before_a_corrupt_batch_are_given() -> None:
    good = batch_of(some(3000, 400))
    bad = bytearray(batch_of(some(1), base=3000))
    bad[-1] ^= 1
    chunks = decode_chunks(CLICKS, [good, bytes(bad)], 0)
    assert next(chunks).next_offset == 3000
    with pytest.raises(CorruptBatch, match=r"clicks/3, offset 3000: .*CRC32C"):
        next(chunks)


def test_a_batch_of_large_messages_comes_in_pieces() -> None:
    sizes = [3 << 20, 0, 3 << 20, 1, 9 << 20, 3 << 20, 5, 1 << 20]
    given = [Message(3 * at, value=b"x" * size) for at, size in enumerate(sizes)]
    chunks = list(decode_chunks(CLICKS, [batch_of(given, base=100, last_delta=40)], 103))
    found = [chunk.records.column("offset").to_pylist() for chunk in chunks]
    assert found == [[103, 106, 109], [112, 115, 118], [121]]
    assert [chunk.next_offset for chunk in chunks] == [112, 121, 141]
    assert [len(row[4]) for row in rows_of(chunks)] == sizes[1:]


def test_a_batch_of_small_messages_is_one_piece() -> None:
    given = [Message(at, value=b"x" * 700) for at in range(1500)]
    assert len(list(decode_chunks(CLICKS, [batch_of(given)], 0))) == 1


def test_small_batches_are_put_together_up_to_the_bytes_of_a_pass() -> None:
    batches = [batch_of([Message(0, value=b"x" * 1000)], base=base) for base in range(10)]
    for pass_bytes, sizes in ((1, [1] * 10), (4000, [4, 4, 2]), (1 << 20, [10])):
        chunks = decode_chunks(CLICKS, batches, 0, pass_bytes=pass_bytes)
        assert [chunk.records.num_rows for chunk in chunks] == sizes


def test_small_batches_before_a_corrupt_one_are_given_too() -> None:
    good = [batch_of([Message(0)], base=base) for base in range(3)]
    bad = bytearray(batch_of([Message(0, value=b"x")], base=3))
    bad[-1] ^= 1
    chunks = decode_chunks(CLICKS, [*good, bytes(bad)], 0)
    chunk = next(chunks)
    assert (chunk.records.num_rows, chunk.next_offset) == (3, 3)
    with pytest.raises(CorruptBatch, match="CRC32C"):
        next(chunks)


def of_epoch(batch: bytes, leader_epoch: int, *, control: bool = False) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 12, leader_epoch)
    if control:
        struct.pack_into(">h", changed, 21, struct.unpack_from(">h", changed, 21)[0] | 0x20)
    return sealed(changed)


def test_a_chunk_has_the_leader_epoch_of_the_last_batch_below_its_next_offset() -> None:
    first = of_epoch(batch_of([Message(0), Message(1)]), 3)
    second = of_epoch(batch_of([Message(0)], base=2), 4)
    marker = of_epoch(batch_of([Message(0)], base=3, transactional=True), 5, control=True)
    chunks = list(decode_chunks(CLICKS, [first, second, marker], 0, pass_bytes=1))
    assert [(chunk.next_offset, chunk.leader_epoch) for chunk in chunks] == [(2, 3), (4, 5)]
    (whole,) = decode_chunks(CLICKS, [first, second], 0)
    # A cut may keep a later epoch, which says less; an earlier one would stop a partition.
    assert (whole.until(1).leader_epoch, whole.since(2).leader_epoch) == (4, 4)
    (behind,) = decode_chunks(CLICKS, [first], 0, next_offset=9, leader_epoch=6)
    assert (behind.next_offset, behind.leader_epoch) == (9, 6)
    (nothing,) = decode_chunks(CLICKS, [], 0, next_offset=9, leader_epoch=6)
    assert nothing.leader_epoch == 6


def test_a_batch_without_a_leader_epoch_gives_none() -> None:
    (chunk,) = decode_chunks(CLICKS, [of_epoch(batch_of([Message(0)]), -1)], 0)
    assert chunk.leader_epoch is None
