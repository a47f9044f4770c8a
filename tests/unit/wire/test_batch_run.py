"""A fetch is taken apart at once as its batches are one by one."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from crc32c import crc32c

from secor.wire import BatchRun, decode_chunks, walk_batches
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    as_the_client_reads,
    batch_of,
    rows_of,
    sealed,
)

pytestmark = pytest.mark.usefixtures("decoder")

SIZES = (0, 1, 7, 8, 9, 100, 4000, 4100, 70_000)
"""Of values: around a word of the checksum, and around what the library takes."""


def log(count: int, seed: int = 1) -> list[bytes]:
    """Batches that follow each other, of all codecs."""
    chance = random.Random(seed)
    made, base = [], 7
    for _ in range(count):
        content = [
            Message(delta, value=chance.randbytes(chance.choice(SIZES)))
            for delta in range(chance.choice((1, 1, 1, 4)))
        ]
        made.append(batch_of(content, base=base, codec=chance.choice((0, 0, 0, 1, 3, 4))))
        base += len(content)
    return made


def by_one(data: bytes) -> list[bytes] | None:
    """The whole batches of format v2, None where one is none or damaged."""
    batches, at = [], 0
    while len(data) - at >= 12:
        (length,) = struct.unpack_from(">i", data, at + 8)
        batch = data[at : at + 12 + length]
        if length + 12 > len(data) - at:
            break
        if length + 12 < HEADER_SIZE or batch[16] != 2:
            return None
        if crc32c(batch[21:]) != struct.unpack_from(">I", batch, 17)[0]:
            return None
        batches.append(batch)
        at += len(batch)
    return batches


def walked(data: bytes) -> list[bytes] | None:
    run = walk_batches(data)
    if run is None:
        return None
    batches = [bytes(run.batch(index)) for index in range(len(run))]
    assert [head.tobytes() for head in run.heads] == [batch[:HEADER_SIZE] for batch in batches]
    return batches


def test_a_walk_gives_the_batches_and_leaves_out_what_is_cut_off() -> None:
    batches = log(40)
    for cut in (0, 1, 11, 12, 60, 61, len(batches[-1]) - 1):
        data = b"".join(batches[:-1]) + batches[-1][:cut]
        assert walked(data) == batches[:-1]
    assert walked(b"".join(batches)) == batches
    assert walked(b"") == []


def test_what_is_damaged_anywhere_is_not_walked() -> None:
    chance = random.Random(3)
    refused, logs = 0, [log(3, seed=seed) for seed in range(11)]
    for seed in range(1500):
        batches = logs[seed % 11]
        data = bytearray(b"".join(batches))
        begins = np.cumsum([0, *map(len, batches)]).tolist()
        for _ in range(chance.choice((0, 1, 2))):
            # Most of it in the headers: elsewhere it is a checksum's to find.
            at = chance.choice(begins[:3]) + chance.randrange(70)
            at = min(chance.choice((at, chance.randrange(len(data)))), len(data) - 1)
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1))
        cut = bytes(data[: chance.choice((len(data), chance.randrange(len(data))))])
        assert walked(cut) == by_one(cut), seed
        refused += by_one(cut) is None
    assert 200 < refused < 1300


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48, 49, 2**31 - 1])
def test_lengths_that_lie_lead_nowhere(length: int) -> None:
    batch = bytearray(batch_of([Message(0)]))
    struct.pack_into(">i", batch, 8, length)
    assert walked(bytes(batch)) == by_one(bytes(batch))


@pytest.mark.parametrize("pass_bytes", [1, 300, 5000, 2 << 20])
def test_a_run_is_decoded_like_its_batches(pass_bytes: int) -> None:
    batches = log(60)
    run = walk_batches(b"".join(batches))
    assert run is not None
    expected = as_the_client_reads(batches)
    for start in (0, 20, 40, 400):
        chunks = list(decode_chunks(CLICKS, run, start, next_offset=500, pass_bytes=pass_bytes))
        apart = list(decode_chunks(CLICKS, batches, start, next_offset=500, pass_bytes=pass_bytes))
        assert chunks == apart
        assert rows_of(chunks) == [row for row in expected if row[0] >= start]
        assert chunks[-1].next_offset == 500


def test_a_part_of_a_run_has_those_batches_alone() -> None:
    batches = log(5)
    run = walk_batches(b"".join(batches))
    assert run is not None
    wanted = np.array([True, False, True, True, False])
    part = run.where(wanted)
    assert isinstance(part, BatchRun)
    assert [bytes(part.batch(at)) for at in range(3)] == [batches[0], batches[2], batches[3]]
    assert part.size == sum(map(len, (batches[0], batches[2], batches[3])))
    assert run.where(np.ones(5, np.bool_)) is run


def test_a_batch_without_records_but_a_count_is_refused_wherever_it_is() -> None:
    empty = sealed(batch_of([Message(0)])[:HEADER_SIZE])
    run = walk_batches(empty)
    assert run is not None
    with pytest.raises(Exception, match="1 records in 0 bytes"):
        list(decode_chunks(CLICKS, run, 0))
