"""Messages that break other parsers: in quarantine or placed by every decoder, never a crash."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from secor.core.model import QUARANTINE, Chunk
from tests.fakes.archive import messages
from tests.unit.parsing.encodings import ENCODINGS
from tests.unit.parsing.test_every_combination import HERE, LAYOUTS, TIMES, fields, plan

DEEP = 100_000
HOSTILE = {
    "braces": b"{" * DEEP,
    "brackets": b"[" * DEEP,
    "objects in objects": b'{"s":' * DEEP + b"1" + b"}" * DEEP,
    "maps in maps": b"\x81\xa1s" * DEEP + b"\x01",
    "arrays in arrays": b"\x91" * DEEP,
    "structs in structs": b"\x0c\x00\x01" * DEEP,
    "compact structs in structs": b"\x1c" * DEEP,
    "groups in groups": b"\x0b" * DEEP,
    "messages in messages": b"\x0a\xff\xff\xff\xff\x0f" * DEEP,
    "an array of four billion": b"\xdd\xff\xff\xff\xff",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "text of two billion": b"\x0b\x00\x02\x7f\xff\xff\xff",
    "a varint without end": b"\xff" * 100,
    "a number of many digits": b'{"s":' + b"9" * 5000 + b"}",
    "a number beyond doubles": b'{"s":1e999,"country":"x"}',
    "no number": b'{"s":NaN,"country":"x"}',
    "a name twice": b'{"s":1795262400,"s":1795262401,"country":"x"}',
    "half a surrogate": b'{"s":1795262400,"country":"\\ud800"}',
    "a zero character": b'{"s":1795262400,"country":"\\u0000"}',
    "no UTF-8": b'{"s":1795262400,"country":"\xff\xfe"}',
    "overlong UTF-8": b'{"s":1795262400,"country":"\xc0\xaf"}',
    "a byte order mark": b'\xef\xbb\xbf{"s":1795262400,"country":"x"}',
    "two messages": b'{"s":1795262400}\n{"s":1795262400}',
    "nothing but space": b" \n\t ",
    "zeros": b"\x00" * 4096,
}


def chosen(name: str) -> Iterator[bytes]:
    """What is hostile to anybody, and good messages with it in their middle and at their end."""
    rng = random.Random(name)
    for number, content in enumerate(HOSTILE.values()):
        good = ENCODINGS[name].encode(fields(number))
        at = rng.randrange(1, len(good))
        yield from (content, good[:at] + content + good[at:], good + content, good)


@pytest.mark.parametrize("format", ["parquet", "text"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_hostile_messages_are_in_quarantine_or_placed_and_hurt_no_neighbour(
    name: str, format: str, tmp_path: Path
) -> None:
    settings = {**ENCODINGS[name].settings(tmp_path), **TIMES["s"], "layout": LAYOUTS[1]}
    made = plan(tmp_path, settings, format)
    values = list(chosen(name))
    parts = made.parser.split(
        Chunk(HERE, messages(range(len(values)), values.__getitem__), len(values))
    )
    found: list[tuple[int, str]] = []
    for part in parts:
        part.records.validate(full=True)
        found += [(offset, part.stream) for offset in part.records.column("offset").to_pylist()]
    assert sorted(offset for offset, _ in found) == list(range(len(values)))
    bad = {offset for offset, stream in found if stream == QUARANTINE}
    assert not bad & set(range(3, len(values), 4)), "a good message suffered"
    assert len(bad) > len(HOSTILE)
