from __future__ import annotations

import gzip
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import zstandard

from secor.wire.codecs import InvalidPayload, decompress
from tests.unit.wire.wire_batches import lz4_of_java

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TEXT = bytes(range(256)) * 2000


def xerial(*blocks: bytes) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def streamed_zstd(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(data) + compressor.flush()


WAYS = {
    "plain": (0, TEXT),
    "gzip": (GZIP, gzip.compress(TEXT)),
    "gzip of two members": (GZIP, gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:])),
    "raw snappy": (SNAPPY, raw_snappy(TEXT)),
    "xerial snappy": (SNAPPY, xerial(raw_snappy(TEXT[:999]), raw_snappy(TEXT[999:]))),
    "lz4 of java": (LZ4, lz4_of_java(TEXT)),
    "lz4 with size": (LZ4, lz4.frame.compress(TEXT, store_size=True)),
    "zstd with size": (ZSTD, zstandard.ZstdCompressor().compress(TEXT)),
    "zstd without size": (ZSTD, streamed_zstd(TEXT)),
    "zstd of two frames": (ZSTD, streamed_zstd(TEXT[:999]) + streamed_zstd(TEXT[999:])),
}
ALL = pytest.mark.parametrize(("codec", "data"), WAYS.values(), ids=WAYS.keys())


@ALL
def test_the_bytes_come_back(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, memoryview(data), 1 << 28)) == TEXT


@ALL
def test_exactly_as_much_as_allowed_is_given(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, memoryview(data), len(TEXT))) == TEXT


@ALL
@pytest.mark.parametrize("most", [0, 1, 998, 1500, len(TEXT) - 1])
def test_more_than_allowed_is_refused(codec: int, data: bytes, most: int) -> None:
    with pytest.raises(InvalidPayload, match=f"more than the {most} bytes"):
        decompress(codec, memoryview(data), most)


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (GZIP, gzip.compress(bytes(1 << 24))),
        (SNAPPY, b"\xff\xff\xff\xff\x0f"),
        (SNAPPY, xerial(b"\xff\xff\xff\xff\x0f")),
        (LZ4, lz4_of_java(bytes(1 << 24))),
        (LZ4, b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 1 << 60) + b"\0\0\0\0\0"),
        (ZSTD, streamed_zstd(bytes(1 << 24))),
    ],
)
def test_a_bomb_is_refused(codec: int, bomb: bytes) -> None:
    with pytest.raises(InvalidPayload, match="more than the 1000000 bytes"):
        decompress(codec, memoryview(bomb), 1_000_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("most", [1_000, 1 << 28])
def test_bytes_of_no_codec_are_refused(codec: int, most: int) -> None:
    with pytest.raises(InvalidPayload, match="not "):
        decompress(codec, memoryview(b"\xde\xad\xbe\xef" * 20), most)


@ALL
def test_what_was_refused_leaves_nothing_behind(codec: int, data: bytes) -> None:
    for damaged, most in ((data[: len(data) // 2], 1 << 28), (data, 1000)):
        # Of half a Zstandard frame there are fewer records than the batch says.
        with suppress(InvalidPayload):
            decompress(codec, memoryview(damaged), most)
    assert bytes(decompress(codec, memoryview(data), 1 << 28)) == TEXT


@ALL
def test_threads_decompress_at_the_same_time(codec: int, data: bytes) -> None:
    with ThreadPoolExecutor(4) as threads:
        results = threads.map(lambda _: decompress(codec, memoryview(data), 1 << 28), range(200))
        assert all(bytes(records) == TEXT for records in results)


@pytest.mark.parametrize("size", [-1, 5, 2**31 - 1])
def test_a_lying_block_of_xerial_framing_is_refused(size: int) -> None:
    framed = xerial(raw_snappy(b"")) + struct.pack(">i", size)
    with pytest.raises(InvalidPayload, match=f"a snappy block of {size} bytes"):
        decompress(SNAPPY, memoryview(framed), 1000)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
@pytest.mark.parametrize("most", [len(TEXT), 1 << 28])
def test_a_stream_that_is_cut_off_is_refused(codec: int, most: int) -> None:
    whole = gzip.compress(TEXT) if codec == GZIP else lz4_of_java(TEXT)
    with pytest.raises(InvalidPayload):
        decompress(codec, memoryview(whole[: len(whole) // 2]), most)
