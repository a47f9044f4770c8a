from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptBatch
from secor.wire import decode_chunks
from secor.wire.batch_header import check_header
from secor.wire.batch_run import join_batches
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    batch_of,
    rows_of,
    sealed,
    with_payload,
)

pytestmark = pytest.mark.usefixtures("decoder")

FIXED = settings(deadline=None, max_examples=100, derandomize=True, database=None)
LIMIT = 1 << 20

SMALL = [
    Message(0, 1_700_000_000_000, b"k", b"value", (("a", b"1"), ("a", None))),
    Message(1, 1_700_000_000_005, None, b"w" * 70),
    Message(70, 1_800_000_000_000, b"", None, (("b", b""),)),
]


def varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def record(body: bytes, *, length: int | None = None) -> bytes:
    return varint(len(body) if length is None else length) + body


def payload_batch(*records: bytes, codec: int = 0, last_delta: int = 9) -> bytes:
    plain = batch_of(SMALL[:1], last_delta=last_delta)
    return with_payload(plain, b"".join(records), codec=codec, count=len(records))


PLAIN = b"\0\0\0\1\1\0"  # attributes, deltas, null key, null value, no headers


def decode(batch: bytes, *, check_crc: bool = True) -> list[tuple[object, ...]]:
    return rows_of(decode_chunks(CLICKS, [batch], 0, max_uncompressed=LIMIT, check_crc=check_crc))


def refused(batch: bytes, *, check_crc: bool = True) -> str:
    with pytest.raises(CorruptBatch) as caught:
        decode(batch, check_crc=check_crc)
    assert str(caught.value).startswith("clicks/3, offset ")
    return str(caught.value)


def flips(batch: bytes) -> Iterator[bytes]:
    for at in range(len(batch)):
        for bit in (0x01, 0x10, 0x80, 0xFF):
            changed = bytearray(batch)
            changed[at] ^= bit
            yield bytes(changed)


@pytest.mark.parametrize("codec", range(5))
def test_any_flipped_byte_is_refused_or_still_a_decodable_batch(codec: int) -> None:
    messages = [*SMALL, Message(71, value=b"x" * 300)]
    for changed in flips(batch_of(messages, base=5, codec=codec)):
        with suppress(CorruptBatch):
            decode(changed, check_crc=False)


@pytest.mark.parametrize("codec", range(5))
def test_any_cut_is_refused(codec: int) -> None:
    whole = batch_of([*SMALL, Message(71, value=b"x" * 300)], codec=codec)
    for end in range(len(whole)):
        refused(whole[:end])
        if end > HEADER_SIZE:
            # The header agrees with the cut: the records, or the codec, must notice.
            try:
                assert decode(sealed(whole[:end])) == decode(whole)
            except CorruptBatch:
                continue
            assert codec != 0


def test_any_flipped_byte_behind_the_checksum_fails_it() -> None:
    whole = batch_of(SMALL, codec=3)
    for at in range(17, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x20
        assert "CRC32C" in refused(bytes(changed))


@given(st.binary(max_size=120), st.integers(0, 7), st.integers(0, 20))
@FIXED
def test_random_bytes_never_do_more_than_be_refused(payload: bytes, codec: int, count: int) -> None:
    batch = with_payload(batch_of(SMALL[:1], last_delta=1 << 30), payload, codec=codec, count=count)
    with suppress(CorruptBatch):
        decode(batch)


@given(st.lists(st.binary(max_size=40).map(record), min_size=1, max_size=4))
@FIXED
def test_random_bodies_of_records_never_do_more_than_be_refused(records: list[bytes]) -> None:
    with suppress(CorruptBatch):
        decode(payload_batch(*records, last_delta=1 << 30))


def test_the_plain_record_of_these_tests_is_fine() -> None:
    assert decode(payload_batch(record(PLAIN))) == [(0, 1_700_000_000_000, 0, None, None, [])]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (PLAIN[:-1], "says it has 2 records"),
        (PLAIN + b"\0", "headers"),
        (b"\0" + b"\x80" * 9 + b"\1\0\1\1\0", None),
        (b"\0" + b"\x80" * 10 + b"\1\0\1\1\0", "too many bytes"),
        (b"\0\0" + b"\x80" * 4 + b"\0\1\1\0", None),
        (b"\0\0" + b"\x80" * 5 + b"\0\1\1\0", "too many bytes"),
        (b"\0\0\0" + varint(100) + b"k\1\0", "key is longer"),
        (b"\0\0\0" + varint(2**31 - 1) + b"\1\0", "key is longer"),
        (b"\0\0\0\1" + varint(100) + b"v\0", "value is longer"),
        (b"\0\0\0\1" + varint(2**31 - 1) + b"\0", "value is longer"),
        (b"\0\0\0\1\1" + varint(1), "headers"),
        (b"\0\0\0\1\1" + varint(-1), "headers"),
        (b"\0\0\0\1\1" + varint(2**30), "headers"),
        (b"\0\0\0\1\1" + varint(1) + b"\1\1", "name leads out"),
        (b"\0\0\0\1\1" + varint(1) + b"\x20\1", "name leads out"),
        (b"\0\0\0\1\1" + varint(1) + b"\0\x20", "value leads out"),
        (b"\0\0\0\1\1" + varint(1) + b"\0\1\0", "goes on behind"),
        (b"\0\0\0\1\1" + varint(2) + b"\0\1\0\1\0", "goes on behind"),
        (b"\0\0\0\1\1" + varint(2) + b"\0\1\2a", "value leads out|name leads out"),
        (b"\0\0" + varint(10) + b"\1\1\0", "offset delta 10"),
        (b"\0\0" + varint(-1) + b"\1\1\0", "offset delta -1"),
    ],
)
def test_a_record_that_lies_is_refused_by_name(body: bytes, what: str | None) -> None:
    good = record(b"\0\0" + varint(1) + b"\1\1\0")
    if what is None:
        assert len(decode(payload_batch(record(body), good))) == 2
        return
    with pytest.raises(CorruptBatch, match=rf"record 0 of the batch: .*({what})"):
        decode(payload_batch(record(body), good))


@pytest.mark.parametrize("length", [0, 5, 7, 100, 10_000, 2**31 - 1, -1, -6, -200, -(2**31)])
def test_a_lying_length_of_a_record_is_refused(length: int) -> None:
    refused(payload_batch(record(PLAIN, length=length), record(PLAIN)))


def test_an_overlong_length_of_a_record_is_refused() -> None:
    assert "length" in refused(payload_batch(b"\x8c\x80\x80\x80\x80\x00" + PLAIN))


def test_a_length_of_five_bytes_is_read() -> None:
    assert len(decode(payload_batch(b"\x8c\x80\x80\x80\x00" + PLAIN))) == 1


@pytest.mark.parametrize("count", [1, 3, 1000, 2**31 - 1, -1])
def test_a_lying_count_is_refused(count: int) -> None:
    two = record(PLAIN) + record(b"\0\0" + varint(1) + b"\1\1\0")
    refused(with_payload(batch_of(SMALL[:1], last_delta=9), two, count=count))


def test_offsets_that_do_not_rise_are_refused_and_the_record_named() -> None:
    same = record(PLAIN)
    rising = record(b"\0\0" + varint(1) + b"\1\1\0")
    assert "record 2 of the batch" in refused(payload_batch(same, rising, rising))


def test_the_batch_at_fault_is_named_among_several() -> None:
    good = [batch_of(SMALL, base=100 * index) for index in range(3)]
    bad = bytearray(payload_batch(record(PLAIN), record(PLAIN)))
    struct.pack_into(">q", bad, 0, 300)
    with pytest.raises(CorruptBatch, match=r"clicks/3, offset 300: record 1 of the batch"):
        list(decode_chunks(CLICKS, [*good, bytes(bad), batch_of(SMALL, base=400)], 0))


@pytest.mark.parametrize("base", [0, 70, -5])
def test_a_batch_below_the_end_of_the_one_before_is_refused(base: int) -> None:
    batches = [batch_of(SMALL), batch_of(SMALL, base=base)]
    with pytest.raises(CorruptBatch, match=rf"offset {base}: the batch begins below offset 71"):
        list(decode_chunks(CLICKS, batches, 0))


def test_an_offset_beyond_the_last_possible_is_refused() -> None:
    assert "beyond" in refused(batch_of(SMALL, base=2**63 - 5))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused_by_number(magic: int) -> None:
    changed = bytearray(batch_of(SMALL))
    changed[16] = magic
    assert f"format {magic}" in refused(bytes(changed))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused_by_number(codec: int) -> None:
    assert f"codec {codec}" in refused(with_payload(batch_of(SMALL), b"", codec=codec))


def test_a_negative_last_offset_delta_is_refused() -> None:
    assert "delta -1" in refused(batch_of(SMALL, last_delta=-1))


def test_a_batch_that_is_too_large_names_the_setting() -> None:
    large = batch_of([Message(0, value=bytes(LIMIT))], codec=1)
    with pytest.raises(CorruptBatch, match=r"limits\.record_batch"):
        list(decode_chunks(CLICKS, [large], 0, max_uncompressed=LIMIT))


def test_headers_read_at_once_are_judged_as_each_alone() -> None:
    chance = random.Random(5)
    whole = [batch_of([Message(0), Message(1)], base=2 * index) for index in range(4)]
    for _ in range(3000):
        batches = list(whole)
        which, at = chance.randrange(4), chance.randrange(HEADER_SIZE)
        damaged = bytearray(batches[which])
        damaged[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, damaged[at] ^ 1))
        batches[which] = bytes(damaged[: chance.choice((len(damaged), len(damaged) - 1, at))])
        views = [memoryview(batch) for batch in batches]
        right, after = 0, 0
        with suppress(CorruptBatch):
            for view in views:
                after = check_header(CLICKS, view, after, check_crc=False).next_offset
                right += 1
        assert join_batches(views).right == right
