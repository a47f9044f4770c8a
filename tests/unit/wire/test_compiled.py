"""The compiled decoder answers as numpy does, or leaves the answer to it."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptBatch
from secor.core.model import Chunk
from secor.wire import compiled, decode_chunks
from tests.unit.wire.conftest import DECODERS, use_decoder
from tests.unit.wire.wire_batches import (
    CLICKS,
    HEADER_SIZE,
    Message,
    as_the_client_reads,
    batch_of,
    rows_of,
    with_payload,
)

ROOT = Path(__file__).parents[3]
FIXED = settings(deadline=None, max_examples=100, derandomize=True, database=None)
BYTES = (0, 1, 2, 3, 0x0E, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)

NAMES = ("traceparent", "", "zürich", "n" * 70)


def messages(chance: random.Random, count: int) -> list[Message]:
    """Messages of all kinds: nulls, long and empty parts, headers, no time."""

    def content() -> bytes | None:
        return chance.choice((None, b"", b"k", bytes(chance.randrange(200)), b"x" * 9000))

    delta, made = -1, []
    for _ in range(count):
        delta += chance.choice((1, 1, 1, 2, 200))
        names = [chance.choice(NAMES) for _ in range(chance.choice((0, 0, 1, 4, 40)))]
        made.append(
            Message(
                delta,
                chance.choice((-1, 0, 1_700_000_000_000, 2**61, 1_600_000_000_000)),
                content(),
                content(),
                tuple((name, content()) for name in names),
            )
        )
    return made


def batches(seed: int) -> list[bytes]:
    """A few batches that follow each other."""
    chance = random.Random(seed)
    made, base = [], 5
    for _ in range(chance.randrange(1, 4)):
        drawn = messages(chance, chance.randrange(1, 8))
        append = chance.choice((None, None, -1, 1_800_000_000_000))
        made.append(batch_of(drawn, base=base, codec=chance.choice((0, 3)), log_append=append))
        base += drawn[-1].delta + 1
    return made


def damaged(batch: bytes, chance: random.Random) -> bytes:
    """The batch with some bytes of its records changed, cut out or put in, or its count."""
    payload = bytearray(batch[HEADER_SIZE:])
    for _ in range(chance.choice((1, 1, 2))):
        # Numbers stand at the beginning of records: most damage is done there.
        at = min(chance.choice((chance.randrange(12), chance.randrange(10**5))), len(payload) - 1)
        match chance.randrange(4):
            case 0:
                del payload[at : at + chance.choice((1, 5))]
            case 1:
                payload[at:at] = bytes([chance.choice(BYTES)])
            case _:
                payload[at] = chance.choice((*BYTES, payload[at] ^ 1, payload[at] + 2 & 0xFF))
        payload = payload or bytearray(1)
    (count,) = struct.unpack_from(">i", batch, 57)
    return with_payload(
        batch, bytes(payload), count=max(count + chance.choice((0, 0, 0, 1, -1)), 0)
    )


def answer(made: list[bytes], start: int = 0) -> list[Chunk] | str:
    """What the decoder in use says to these batches."""
    try:
        return list(decode_chunks(CLICKS, made, start))
    except CorruptBatch as error:
        return str(error)


def answers(made: list[bytes], start: int = 0) -> list[list[Chunk] | str]:
    """What each decoder says; columns are valid."""
    said = []
    for name in DECODERS:
        with pytest.MonkeyPatch.context() as patch:
            use_decoder(patch, name)
            said.append(answer(made, start))
        for chunk in said[-1] if isinstance(said[-1], list) else ():
            chunk.records.validate(full=True)
    return said


def test_the_extension_is_in_use_where_there_is_a_compiler() -> None:
    if shutil.which("cc") or shutil.which("gcc"):
        assert (compiled.DECODER, list(DECODERS)) == ("compiled", ["numpy", "compiled"])


@given(st.integers(0, 1 << 32))
@FIXED
def test_both_decode_the_same(seed: int) -> None:
    made = batches(seed)
    first, *others = answers(made, start=seed % 9)
    assert others == [first] * len(others)
    assert rows_of(answer(made)) == as_the_client_reads(made)  # type: ignore[arg-type]


def test_both_refuse_the_same_and_say_the_same() -> None:
    chance = random.Random(7)
    refused = 0
    for seed in range(1000):
        whole = batch_of(messages(chance, 3), codec=0)
        first, *others = answers([damaged(whole, chance)])
        assert others == [first] * len(others), seed
        refused += isinstance(first, str)
    assert 250 < refused < 950


def payloads(chance: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Batches' records, whole and damaged, with their headers."""
    for _ in range(800):
        whole = batch_of(messages(chance, chance.randrange(1, 5)), codec=0)
        batch = chance.choice((whole, damaged(whole, chance)))
        yield batch[HEADER_SIZE:], batch[:HEADER_SIZE]


def span(*numbers: int) -> memoryview:
    """Places of batches: buffer, begin and end of each."""
    return memoryview(struct.pack(f"={len(numbers)}q", *numbers))


def test_what_numpy_takes_the_extension_takes_too() -> None:
    """Else a topic would be decoded by numpy, slowly, and nobody would know."""
    if compiled.extension is None:
        return
    decode = compiled.extension.decode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "extension", None)
        for records, head in payloads(random.Random(3)):
            by_numpy = answer([head + records])
            if struct.unpack_from(">i", head, 57)[0]:
                refuses = decode([records], span(0, 0, len(records)), memoryview(head)) is None
                assert refuses == isinstance(by_numpy, str)


@pytest.mark.parametrize("count", [-1, 1, 2, 1 << 20, (1 << 31) - 1])
def test_a_count_that_lies_takes_no_memory(count: int) -> None:
    head = bytearray(HEADER_SIZE)
    struct.pack_into(">i", head, 57, count)
    if compiled.extension is not None:
        assert compiled.extension.decode([b"\0" * 6], span(0, 0, 6), memoryview(head)) is None


def test_wrong_arguments_are_refused() -> None:
    if compiled.extension is None:
        return
    decode = compiled.extension.decode
    head = memoryview(bytes(HEADER_SIZE))
    first = span(0, 0, 0)
    for spans, heads in ((first, head[1:]), (span(), head), (span(0, 0, 0, 0, 0, 0), head)):
        with pytest.raises(ValueError, match="as many spans as headers"):
            decode([b""], spans, heads)
    for arguments in (
        (1, first, head),
        ([1], first, head),
        ([b""], first, "text"),
        ([b""], first),
        (),
    ):
        with pytest.raises(TypeError):
            decode(*arguments)


@pytest.mark.parametrize(
    "place", [(-1, 0, 0), (2, 0, 0), (0, -1, 0), (0, 3, 2), (0, 0, 5), (1, 0, 4), (0, 2**62, 2**62)]
)
def test_spans_outside_of_the_buffers_are_refused(place: tuple[int, int, int]) -> None:
    if compiled.extension is not None:
        with pytest.raises(ValueError, match="outside of the buffers"):
            compiled.extension.decode(
                [b"four", b"abc"], span(*place), memoryview(bytes(HEADER_SIZE))
            )


def test_batches_may_lie_in_several_buffers_and_in_any_order() -> None:
    if compiled.extension is None:
        return
    first, second = batch_of([Message(0, value=b"1")]), batch_of([Message(0, value=b"2")], base=1)
    whole = second + first
    heads = memoryview(first[:HEADER_SIZE] + second[:HEADER_SIZE])
    at = len(second) + HEADER_SIZE
    spans = span(1, at, len(whole), 0, HEADER_SIZE, len(second))
    apart = compiled.extension.decode([second, whole], spans, heads)
    assert apart is not None
    assert apart == compiled.extension.decode(
        [first, second], span(0, HEADER_SIZE, len(first), 1, HEADER_SIZE, len(second)), heads
    )


@pytest.mark.parametrize("changed", range(len(compiled.SOURCES)))
def test_what_was_built_from_another_source_is_not_used(
    changed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.c"
    other.write_bytes(compiled.SOURCES[changed].read_bytes() + b"\n")
    sources = [*compiled.SOURCES[:changed], other, *compiled.SOURCES[changed + 1 :]]
    monkeypatch.setattr(compiled, "SOURCES", sources)
    loaded, why = compiled.load()
    if compiled.extension is not None:
        assert "of another version" in why
    assert loaded is None


def test_numpy_is_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.SWITCH, "1")
    assert compiled.load() == (None, "numpy, because NO_SECOR_EXTENSION is set")


def test_numpy_is_used_where_the_extension_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "secor.wire._compiled", None)
    loaded, why = compiled.load()
    assert loaded is None
    assert "the compiled extension is not there" in why


@pytest.mark.parametrize("variables", [{"CC": "/bin/false"}, {compiled.SWITCH: "1"}], ids=str)
def test_without_a_compiler_the_build_goes_through(
    variables: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "setup.py", "build_ext", f"--build-lib={tmp_path / 'lib'}"]
    done = subprocess.run(
        [*command, f"--build-temp={tmp_path / 'temp'}"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.so"))
    assert ('building extension "secor.wire._compiled" failed' in done.stderr) == (
        "CC" in variables
    )
