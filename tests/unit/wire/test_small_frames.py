"""Small compressed batches are decompressed together as the library does it, or left to it."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Sequence

import cramjam
import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptBatch
from secor.core.model import Chunk
from secor.wire import compiled, decode_chunks, passes
from secor.wire.codecs import GZIP, LZ4, SNAPPY, ZSTD, InvalidPayload, compress, decompress
from tests.unit.wire.conftest import DECODERS, use_decoder
from tests.unit.wire.lz4_frames import (
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    DICTIONARY,
    END,
    INDEPENDENT,
    VERSION,
    damaged_frame,
    drawn_frame,
    header,
    library_frame,
    packed,
    sequence,
    stored,
)
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    batch_of,
    lz4_of_java,
    with_payload,
)

FIXED = settings(deadline=None, max_examples=200, derandomize=True, database=None)
MOST = 1 << 24
OF_LIBRARIES = (GZIP, ZSTD)
TEXT = b"a message of a low rate " * 40
LINKED, ALONE = VERSION, VERSION | INDEPENDENT


def by_library(frame: bytes, most: int = MOST, codec: int = LZ4) -> bytes | None:
    """What the library makes of it; None where it refuses."""
    try:
        return bytes(decompress(codec, memoryview(frame), most))
    except InvalidPayload:
        return None


def compiled_answer(frame: bytes, most: int = MOST, codec: int = LZ4) -> bytes | None:
    """What the extension makes of it, between other bytes; None where it leaves it alone."""
    span = np.array([[3, 3 + len(frame)]], np.int64)
    data = b"abc" + frame + b"xyz"
    records, sizes = compiled.decompress_frames(codec, data, span, most, MOST)
    (size,) = sizes.tolist()
    assert len(records) == max(size, 0)
    return None if size < 0 else bytes(records)


def test_what_is_taken_is_what_the_library_makes_of_it() -> None:
    chance = random.Random(11)
    taken = refused = 0
    for number in range(12_000):
        content = bytes(chance.choices(b"ab", k=chance.choice((1, 20, 300, 3000))))
        frame = drawn_frame(chance) if number % 3 else library_frame(chance, content)
        if number % 5 < 2:
            frame = damaged_frame(frame, chance)
        most = chance.choice((MOST, MOST, MOST, 0, 100, len(content), len(content) - 1))
        answer, expected = compiled_answer(frame, most), by_library(frame, most)
        assert answer in (None, expected), number
        taken += answer is not None
        refused += expected is None
    assert refused > 3000
    assert taken > 2000 or compiled.extension is None


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=9), st.integers(0, 999))
@FIXED
def test_what_a_library_has_compressed_comes_back(pieces: list[bytes], seed: int) -> None:
    content = b"".join(random.Random(seed).choices(pieces, k=60))
    for linked in (False, True):
        frame = lz4.frame.compress(content, block_linked=linked, store_size=seed % 2 == 0)
        assert compiled_answer(frame) == (content if compiled.extension else None)


@given(st.binary(max_size=80), st.sampled_from((b"", header(), header() + b"\x20\0\0\0")))
@FIXED
def test_random_bytes_are_judged_as_by_the_library(data: bytes, begin: bytes) -> None:
    assert compiled_answer(begin + data) in (None, by_library(begin + data))


LONG = sequence(b"0123456789abcdefg" * 20, 340, 600) + sequence(b"the end")
TAKEN = {
    "java": lz4_of_java(TEXT),
    "java, 64 KiB": lz4_of_java(TEXT * 100),
    "python": lz4.frame.compress(TEXT),
    "python, linked blocks": lz4.frame.compress(TEXT * 100, block_size=4),
    "stored": header() + stored(b"k") + END,
    "stored after packed": header() + packed(LONG) + stored(b"k" * 20) + END,
    "a match into a stored block before": (
        header(LINKED)
        + stored(b"k" * 20)
        + packed(sequence(b"", 20, 30) + sequence(b"12345"))
        + END
    ),
    "a size that is told as none": header(ALONE | CONTENT_SIZE, rest=bytes(8)) + stored(b"k") + END,
    "a block of the largest size": header() + stored(b"k" * 65536) + END,
    "long lengths": header() + packed(LONG) + END,
    "a match that repeats one byte": header() + packed(sequence(b"k", 1, 900) + LONG) + END,
}


@pytest.mark.parametrize("frame", TAKEN.values(), ids=TAKEN)
def test_what_producers_send_is_taken(frame: bytes) -> None:
    """Else it would be decompressed by the library, slowly, and nobody would know."""
    expected = by_library(frame)
    assert expected
    assert compiled_answer(frame, len(expected)) == (expected if compiled.extension else None)
    assert compiled_answer(frame, len(expected) - 1) is None


def sized(size: int) -> bytes:
    return header(ALONE | CONTENT_SIZE, rest=struct.pack("<Q", size))


MATCH = sequence(b"0123456789", 10, 30)
LEFT = {
    "nothing": b"",
    "another magic": b"\x03" + lz4_of_java(TEXT)[1:],
    "a skippable frame": b"\x50\x2a\x4d\x18" + bytes(4),
    "a wrong checksum of the header": header()[:-1] + b"\0" + stored(b"k") + END,
    "another version": header(0x80 | INDEPENDENT) + stored(b"k") + END,
    "a reserved flag": header(ALONE | 2) + stored(b"k") + END,
    "reserved bits": header(largest=0x41) + stored(b"k") + END,
    "a reserved bit": header(largest=0xC0) + stored(b"k") + END,
    "blocks of no known size": header(largest=0x30) + stored(b"k") + END,
    "a dictionary": header(ALONE | DICTIONARY, rest=b"dict") + stored(b"k") + END,
    "checksums of blocks": lz4.frame.compress(TEXT, block_checksum=True),
    "wrong ones": header(ALONE | BLOCK_CHECKSUM) + stored(b"k") + bytes(4) + END,
    "a checksum of the content": lz4.frame.compress(TEXT, content_checksum=True),
    "a wrong one": header(ALONE | CONTENT_CHECKSUM) + stored(b"k") + END + bytes(4),
    "a size that is too small": sized(1) + stored(b"kk") + END,
    "a size that is too large": sized(3) + stored(b"kk") + END,
    "the largest size": sized(2**64 - 1) + stored(b"kk") + END,
    "no records": header() + END,
    "bytes behind the frame": lz4_of_java(TEXT) + b"\0",
    "a frame behind the frame": lz4_of_java(TEXT) * 2,
    "no end": header() + stored(b"k"),
    "a block that leads out": header() + struct.pack("<I", 9 | 1 << 31) + b"kkkk" + END,
    "an empty stored block": header() + struct.pack("<I", 1 << 31) + END,
    "a stored block that is too large": header() + stored(b"k" * 65537) + END,
    "more than the largest block": (
        header() + packed(sequence(b"k", 1, 65536) + sequence(b"12345")) + END
    ),
    "distance 0": header() + packed(sequence(b"0123456789", 0, 30) + sequence(b"12345")) + END,
    "a distance before the begin": (
        header() + packed(sequence(b"0123456789", 11, 30) + sequence(b"12345")) + END
    ),
    "a distance into another block": (
        header() + stored(b"k" * 20) + packed(sequence(b"", 20, 30) + sequence(b"12345")) + END
    ),
    "a match at the end": header() + packed(MATCH) + END,
    "few literals at the end": header() + packed(MATCH + sequence(b"1234")) + END,
    "literals that lead out": header() + packed(b"\xf0\xff") + END,
    "a length that leads out": header() + packed(b"\x1fk\1\0\xff\xff\xff\xff\xff\xff") + END,
}


@pytest.mark.parametrize("frame", LEFT.values(), ids=LEFT)
def test_what_is_rare_or_wrong_is_left_to_the_library(frame: bytes) -> None:
    assert compiled_answer(frame) is None


def test_each_frame_has_a_size_of_its_own() -> None:
    frames = [TAKEN["java"], LEFT["no end"], TAKEN["stored"], b""]
    ends = np.cumsum([len(frame) for frame in frames])
    spans = np.column_stack([ends - [len(frame) for frame in frames], ends])
    records, sizes = compiled.decompress_frames(LZ4, b"".join(frames), spans, MOST, MOST)
    expected = TEXT + b"k", [len(TEXT), -1, 1, -1]
    assert (bytes(records), sizes.tolist()) == (expected if compiled.extension else (b"", [-1] * 4))


@pytest.mark.parametrize("codec", [SNAPPY, LZ4, *OF_LIBRARIES])
def test_frames_beyond_the_room_are_left_to_the_library(codec: int) -> None:
    frame = compress(codec, TEXT)
    spans = np.array([[0, len(frame)]] * 3)
    records, sizes = compiled.decompress_frames(codec, frame, spans, MOST, 2 * len(TEXT) + 9)
    expected = [len(TEXT), len(TEXT), -1] if compiled.extension else [-1] * 3
    assert sizes.tolist() == expected
    assert bytes(records) == TEXT * sum(size > 0 for size in expected)


@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (0, 5), (2**62, 2**62)])
def test_spans_outside_of_the_buffer_are_refused(span: tuple[int, int]) -> None:
    if compiled.extension is not None:
        with pytest.raises(ValueError, match="outside of the buffer"):
            compiled.decompress_frames(LZ4, b"four", np.array([span]), MOST, MOST)
        with pytest.raises(ValueError, match="outside of the buffer"):
            compiled.extension.decompress_frames(LZ4, b"four", memoryview(bytes(9)), 1, 1)


@pytest.mark.parametrize(("codec", "most", "room"), [(LZ4, -1, 1), (LZ4, 1, -1), (LZ4, 1, 2**31)])
def test_limits_that_are_none_are_refused(codec: int, most: int, room: int) -> None:
    if compiled.extension is not None:
        with pytest.raises(ValueError, match="a limit is wrong"):
            compiled.extension.decompress_frames(codec, b"", memoryview(b""), most, room)


@pytest.mark.parametrize("codec", [-1, 0, 5, 2**31 - 1])
def test_other_codecs_are_refused(codec: int) -> None:
    if compiled.extension is not None:
        with pytest.raises(ValueError, match="not decompressed here"):
            compiled.extension.decompress_frames(codec, b"", memoryview(b""), 1, 1)


def made_by(codec: int, content: bytes, chance: random.Random) -> bytes:
    """A frame as one of several producers makes it."""
    if codec == SNAPPY:
        return chance.choice(
            (compress(codec, content), bytes(cramjam.snappy.compress_raw(content)))
        )
    if codec == GZIP:
        return gzip.compress(content, chance.randrange(10), mtime=0)
    level, sized = chance.choice((-5, 1, 3)), chance.random() < 0.5
    compressor = zstandard.ZstdCompressor(
        level, write_checksum=chance.random() < 0.5, write_content_size=sized
    )
    if sized:
        return compressor.compress(content)
    streaming = compressor.compressobj()  # as Java's clients do
    return streaming.compress(content) + streaming.flush()


@pytest.mark.parametrize("codec", [SNAPPY, *OF_LIBRARIES])
def test_other_codecs_give_what_the_library_gives(codec: int) -> None:
    chance = random.Random(codec)
    taken = refused = 0
    for number in range(4_000):
        letters = chance.choice((b"ab", bytes(range(256))))
        content = bytes(chance.choices(letters, k=chance.choice((0, 1, 20, 300, 3000))))
        frame = made_by(codec, content, chance)
        if number % 2:
            frame = damaged_frame(frame, chance)
        if number % 50 == 0:
            frame += chance.choice((frame, b"\0", b"rest"))
        most = chance.choice((MOST, MOST, MOST, 0, 100, len(content), len(content) - 1))
        answer, expected = (
            compiled_answer(frame, max(most, 0), codec),
            by_library(frame, max(most, 0), codec),
        )
        assert answer in (None, expected), number
        taken += answer is not None
        refused += expected is None
        whole = number % 2 == 0 and number % 50 and content and most >= len(content)
        assert not whole or answer == content or codec not in known(), number
    assert refused > 500
    assert taken > 1000 or codec not in known()


def known() -> tuple[int, ...]:
    """The codecs that this machine's extension knows."""
    return compiled.extension.SMALL_CODECS if compiled.extension else ()


def test_the_machine_s_libraries_are_found() -> None:
    """Debian, Fedora, Alpine and the container images have both; so do machines of tests."""
    assert known() in ((), (GZIP, SNAPPY, LZ4, ZSTD))


@pytest.mark.parametrize(
    "block",
    {
        "no length": b"",
        "a length that goes on": b"\x80" * 5,
        "a length of 33 bits": b"\xff\xff\xff\xff\x10k",
        "a length that is too large": b"\x02\x00k",
        "a length that is too small": b"\x01\x04kk",
        "literals that lead out": b"\x05\x10k",
        "a long length that leads out": b"\x05\xf4\x01",
        "distance 0": b"\x05\x00k\x01\x00",
        "a distance before the begin": b"\x05\x00k\x01\x02",
        "a distance that leads out": b"\x05\x00k\x01",
        "nothing but a length": b"\x00",
    }.values(),
)
def test_wrong_snappy_is_left_to_the_library(block: bytes) -> None:
    framed = b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", len(block)) + block
    for frame in (block, framed, framed[:-1], framed + b"\0", framed[:18]):
        assert compiled_answer(frame, codec=SNAPPY) is None


def test_a_window_of_zstandard_that_the_library_refuses_is_left_to_it() -> None:
    plain = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frame = bytearray(plain.compress(TEXT) + plain.flush())
    for exponent, mantissa in ((17, 0), (17, 1), (18, 0), (21, 7)):
        frame[5] = exponent << 3 | mantissa
        answer = compiled_answer(bytes(frame), codec=ZSTD)
        assert answer == (TEXT if frame[5] == 17 << 3 and ZSTD in known() else None)
        assert by_library(bytes(frame), codec=ZSTD) in (answer, None)


def batch(number: int, payload: bytes, codec: int) -> bytes:
    """A batch of one message with offset ``number``, whose records are ``payload``."""
    made = bytearray(with_payload(batch_of([Message(0)]), payload, codec=codec))
    struct.pack_into(">q", made, 0, number)
    return bytes(made)


def records(chance: random.Random) -> bytes:
    """The records of a batch with one message."""
    value = bytes(chance.choices(b"ab", k=chance.choice((1, 50, 300, 9000, 60_000))))
    return batch_of([Message(0, value=value)])[HEADER_SIZE:]


def mixed(seed: int) -> list[bytes]:
    """Batches that follow each other: small and large, by all codecs."""
    chance = random.Random(seed)
    made = []
    for number in range(120):
        content, codec = records(chance), chance.choice((0, *[GZIP, SNAPPY, LZ4, ZSTD] * 4))
        if codec == LZ4:
            content = library_frame(chance, content)
        elif codec:
            content = made_by(codec, content, chance)
        made.append(batch(number, content, codec))
    return made


def said(
    batches: Sequence[bytes], pass_bytes: int = 1 << 20, most: int = MOST
) -> tuple[list[Chunk], str]:
    """The chunks, and the error behind them."""
    chunks = []
    try:
        for chunk in decode_chunks(
            CLICKS, batches, 0, pass_bytes=pass_bytes, max_uncompressed=most
        ):
            chunk.records.validate(full=True)
            chunks.append(chunk)
    except CorruptBatch as error:
        return chunks, str(error)
    return chunks, ""


def both_say(batches: Sequence[bytes], **options: int) -> tuple[list[Chunk], str]:
    """What each decoder says, which must be the same."""
    answers = []
    for name in DECODERS:
        with pytest.MonkeyPatch.context() as patch:
            use_decoder(patch, name)
            answers.append(said(batches, **options))
    assert answers == answers[:1] * len(answers)
    return answers[0]


@pytest.mark.parametrize("pass_bytes", [1, 400, 20_000, 1 << 20])
@pytest.mark.slow
def test_passes_are_the_same_with_and_without_the_extension(pass_bytes: int) -> None:
    for seed in range(4):
        chunks, error = both_say(mixed(seed), pass_bytes=pass_bytes)
        assert sum(chunk.records.num_rows for chunk in chunks) == 120
        assert not error


def test_a_wrong_frame_is_refused_behind_what_comes_before_it() -> None:
    chance = random.Random(4)
    refused = 0
    batches = mixed(1)
    for _ in range(60):
        wrong = damaged_frame(lz4_of_java(records(chance)[:300]), chance)
        batches[20] = batch(20, wrong, LZ4)
        chunks, error = both_say(batches, pass_bytes=20_000)
        if "LZ4" in error:
            assert "offset 20:" in error
            assert [
                offset for chunk in chunks for offset in chunk.records["offset"].to_pylist()
            ] == (list(range(20)))
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("allowed", [899_999, 900_100])
def test_a_small_frame_may_not_have_more_than_is_allowed(allowed: int) -> None:
    bomb = batch_of([Message(0, value=bytes(900_000))])[HEADER_SIZE:]
    frame = lz4_of_java(bomb)
    assert len(frame) < passes.SMALL_FRAME
    batches = [batch(number, frame, LZ4) for number in range(passes.FEW_FRAMES)]
    chunks, error = both_say(batches, most=allowed)
    fits = len(bomb) <= allowed
    assert sum(chunk.records.num_rows for chunk in chunks) == (len(batches) if fits else 0)
    assert (f"more than the {allowed} bytes" in error) == (not fits)


@pytest.mark.parametrize("count", [passes.FEW_FRAMES - 1, passes.FEW_FRAMES, 50])
def test_small_frames_are_not_taken_one_by_one_unless_they_are_few(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def remembering(codec: int, data: memoryview, most: int) -> bytes | memoryview:
        called.append(len(data))
        return decompress(codec, data, most)

    monkeypatch.setattr(passes, "decompress", remembering)
    contents = [Message(0, value=b"small" * 9)] * count
    contents.append(Message(0, value=random.Random(3).randbytes(passes.SMALL_FRAME)))
    frames = [lz4_of_java(batch_of([content])[HEADER_SIZE:]) for content in contents]
    chunks, _ = said([batch(number, frame, LZ4) for number, frame in enumerate(frames)])
    assert sum(chunk.records.num_rows for chunk in chunks) == count + 1
    many = compiled.extension is not None and count >= passes.FEW_FRAMES
    assert called == [len(frame) for frame in (frames[-1:] if many else frames)]
