"""The compiled framing of SequenceFiles gives the bytes that numpy gives."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from secor.core.model import SCHEMA
from secor.formats import make_format
from secor.formats.sequencefile import format, framing, record_writer

EDGES = (0, 1, 15, 16, 31, 32, 127, 128, 255, 256, 65_535, 65_536, 70_000)
"""Sizes where MessagePack and Hadoop begin to take another byte."""
NUMBERS = sorted(
    {sign * (1 << bits) + step for bits in (0, 5, 7, 8, 15, 16, 31, 32, 53, 62)
     for sign in (1, -1) for step in (-1, 0, 1)} | {0, -32, -33, 2**63 - 1, -(2**63)}
)  # fmt: skip


class Collected:
    """A sink in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        self.data += memoryview(data)


def rows(chance: random.Random, count: int) -> pa.RecordBatch:
    """Messages of all kinds; all alike in some columns, now and then."""

    def content() -> bytes | None:
        size = chance.choice((*EDGES[:8], chance.choice(EDGES)))
        return None if chance.random() < 0.2 else chance.randbytes(size)

    headers = chance.choice((0, 0, 1, 4, 17))
    keyed, valued, timed = (chance.choice((0.0, 0.5, 1.0)) for _ in range(3))
    made = []
    for _ in range(count):
        names = [
            {"key": chance.choice(("", "traceparent", "ü" * 20, "n" * 300)), "value": content()}
            for _ in range(chance.choice((headers, chance.randrange(headers + 1))))
        ]
        made.append(
            {
                "offset": abs(chance.choice(NUMBERS)) % 2**63,
                "timestamp": chance.choice(NUMBERS) if chance.random() < timed else None,
                "timestamp_type": chance.choice((0, 0, 1, None)),
                "key": content() if chance.random() < keyed else None,
                "value": content() if chance.random() < valued else b"v",
                "headers": names,
            }
        )
    return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


def framed(parts: list[pa.RecordBatch], *, compiled: bool, codec: str, layout: str) -> bytes:
    sink = Collected()
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(framing, "extension", None)
        file = make_format("sequencefile", codec=codec, keys=layout).create(sink, b"same")
        for part in parts:
            file.append(part)
        file.close()
    return bytes(sink.data)


@pytest.mark.parametrize("layout", ["messagepack", "legacy"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_bytes_are_those_of_numpy(
    codec: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_writer, "SYNC_INTERVAL", 3000)
    monkeypatch.setattr(format, "BLOCK_SIZE", 20_000)
    monkeypatch.setattr(format, "_PENDING", 1)
    chance = random.Random(13)
    for seed in range(60):
        whole = rows(chance, chance.randrange(1, 60))
        first = chance.randrange(whole.num_rows)
        parts = [whole, whole.slice(first), whole.slice(first, 1), rows(chance, 1)]
        expected = framed(parts, compiled=False, codec=codec, layout=layout)
        assert framed(parts, compiled=True, codec=codec, layout=layout) == expected, seed


def test_a_record_that_is_too_large_is_left_to_numpy() -> None:
    if framing.extension is None:
        return
    whole = rows(random.Random(1), 20)
    framed_by = framing.frame_blocks(whole, legacy=False, largest=1 << 30, most=1, size=0)
    assert framed_by is not None
    _, keys, _, values, ends, _ = framed_by
    sizes = [
        (end[2] - start[2]) + (end[4] - start[4])
        for start, end in zip([(0, 0, 0, 0, 0), *ends], ends[:-1], strict=False)
    ]
    assert (len(keys), len(values), len(sizes)) == (ends[-1][2], ends[-1][4], 20)
    for limit, expected in ((max(sizes), False), (max(sizes) - 1, True)):
        blocks = framing.frame_blocks(whole, legacy=False, largest=limit, most=1, size=0)
        records = framing.frame_records(
            whole, legacy=False, largest=limit, interval=1, marker=b"", since=0
        )
        assert (blocks is None, records is None) == (expected, expected)


def columns_of(batch: pa.RecordBatch) -> list[framing.Column]:
    columns = framing._columns(batch)
    assert columns is not None
    return list(columns)


def is_refused(function: str, arguments: tuple[object, ...]) -> bool:
    try:
        getattr(framing.extension, function)(*arguments)
    except ValueError as error:
        return "not in its buffers" in str(error)
    return False


def test_columns_that_lie_are_refused_and_nothing_is_read_beyond_them() -> None:
    if framing.extension is None:
        return
    chance = random.Random(5)
    batch = next(made for made in iter(lambda: rows(chance, 20), None)
                 if made.column("headers").flatten().null_count == 0
                 and len(columns_of(made)) == 8)  # fmt: skip
    refused = 0
    for _ in range(3000):
        columns = columns_of(batch)
        at = chance.randrange(8)
        first_row, valid, first, second = columns[at]
        match chance.randrange(4):
            case 0:
                first_row = chance.choice((-1, 1, 7, 2**31, 2**62))
            case 1:
                first = first.slice(0, chance.randrange(first.size))
            case 2:
                damaged = bytearray(first)
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
                first = pa.py_buffer(bytes(damaged))
            case _ if second is not None:
                second = second.slice(0, chance.randrange(second.size + 1))
            case _:
                valid = pa.py_buffer(b"\x55")
        columns[at] = (first_row, valid, first, second)
        refused += is_refused("records", (tuple(columns), 20, False, 1 << 30, 100, b"mark", 0))
        refused += is_refused("blocks", (tuple(columns), 20, False, 1 << 30, 100, 0))
    assert 1000 < refused < 6000


def test_wrong_arguments_are_refused() -> None:
    if framing.extension is None:
        return
    columns = tuple(columns_of(rows(random.Random(2), 3)))
    for wrong in (columns[:4], (*columns, *columns)):
        with pytest.raises(ValueError, match="five or eight columns"):
            framing.extension.blocks(wrong, 3, False, 1, 1, 0)
    with pytest.raises(ValueError, match="not in its buffers"):
        framing.extension.blocks(columns, -1, False, 1, 1, 0)
    with pytest.raises(TypeError):
        framing.extension.records(list(columns), 3, False, 1, 1, b"", 0)
    with pytest.raises(TypeError):
        framing.extension.blocks((*columns[:4], (0, None, None, None)), 3, False, 1, 1, 0)


def test_the_extension_is_in_use_where_there_is_a_compiler() -> None:
    if shutil.which("cc") or shutil.which("gcc"):
        assert framing.extension is not None


def test_what_was_built_from_another_source_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "_framing.c"
    other.write_bytes(framing.SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(framing, "SOURCE", other)
    assert framing.load() is None


def test_numpy_is_used_where_it_is_asked_for_or_nothing_was_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(framing.SWITCH, "1")
        assert framing.load() is None
    monkeypatch.setitem(sys.modules, "secor.formats.sequencefile._framing", None)
    assert framing.load() is None
