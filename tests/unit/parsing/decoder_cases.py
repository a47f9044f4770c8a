"""Messages for the tests of decoders, and ways to damage them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from secor.core.model import SCHEMA
from secor.parsing.rows import Decoded, Decoder


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    """Messages with these payloads, offsets from 0."""
    rows = len(values)
    return pa.record_batch(
        [
            pa.array(range(rows), pa.int64()),
            pa.array([1735686001000] * rows, pa.int64()),
            pa.array([0] * rows, pa.int8()),
            pa.nulls(rows, pa.binary()),
            pa.array(values, pa.binary()),
            pa.nulls(rows, SCHEMA.field("headers").type),
        ],
        schema=SCHEMA,
    )


def decode(
    decoder: Decoder, values: Sequence[bytes | None], *paths: str, slack: int = 0
) -> Decoded:
    """Decode, everything if no path is named, and check what every answer must be like."""
    padded = batch([*[b"{}"] * slack, *values]).slice(slack)
    found = decoder.decode(padded, paths or None)
    found.rows.validate(full=True)
    assert len(found.rows) == len(values)
    nulls = found.rows.is_null().to_pylist()
    assert [row for row, null in enumerate(nulls) if null] == list(found.bad)
    assert all(reason and len(reason) < 200 for reason in found.bad.values())
    if paths:
        assert [field.name for field in found.rows.type] == list(paths)
    return found


def rows(decoder: Decoder, values: Sequence[bytes | None], *paths: str) -> list[Any]:
    found = decode(decoder, values, *paths)
    assert found.bad == {}
    return list(found.rows.to_pylist())


def reason(decoder: Decoder, value: bytes | None, *paths: str) -> str:
    """The reason why a message is bad, which must hurt none of its neighbours."""
    found = decode(decoder, [value], *paths)
    assert list(found.bad) == [0]
    return found.bad[0]


def damaged(good: bytes, seed: int, flips: int = 150) -> Iterator[bytes]:
    """Every truncation, bits flipped, bytes inserted, removed and repeated."""
    rng = random.Random(seed)
    for end in range(len(good)):
        yield good[:end]
    for _ in range(flips):
        broken = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 5))):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        yield bytes(broken)
    for _ in range(flips):
        at = rng.randrange(len(good))
        junk = rng.randbytes(rng.randrange(1, 9))
        yield good[:at] + junk + good[at + rng.randrange(5) :]
    yield good + good
    yield b"\x00" * 64
    yield b"\xff" * 64


def survives(decoder: Decoder, good: bytes, *paths: str) -> None:
    """Damage a message in many ways: each answer is whole, and the good ones stay good."""
    values = [item for broken in damaged(good, 7) for item in (broken, good)]
    for asked in ((), paths):
        alone = decode(decoder, [good], *asked).rows.to_pylist()
        found = decode(decoder, values, *asked)
        assert len(found.bad) > len(good) // 2
        assert all(row % 2 == 0 for row in found.bad)
        again = decode(decoder, values, *asked)
        assert again.rows.equals(found.rows)
        assert again.bad == found.bad
        # Row by row the verdicts are the same: a message's neighbours do not decide on it.
        for row in range(0, len(values), 37):
            single = decode(decoder, values[row : row + 1], *asked)
            assert single.bad.get(0) == found.bad.get(row)
        assert alone[0] is not None
