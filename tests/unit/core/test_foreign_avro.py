"""Avro schemas and files that claim more than they hold."""

from __future__ import annotations

import io
import time
import tracemalloc
from typing import Any

import fastavro
import pytest
import zstandard

from secor.core import foreign_avro
from secor.core.foreign_avro import SchemaLook, rows_of_file

NULLS = {"type": "array", "items": "null"}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "below", "type": {"type": "array", "items": "Tree"}},
    ],
}


def record(*kinds: Any, name: str = "Row") -> Any:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def varint(number: int) -> bytes:
    out = bytearray()
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def file_of(schema: Any, *rows: Any, codec: str = "null") -> bytes:
    file = io.BytesIO()
    if codec == "zstandard":  # which the library writes only with another package
        data = io.BytesIO()
        for row in rows:
            fastavro.schemaless_writer(data, schema, row)
        head = file_of(schema).replace(b"\x08null", b"\x12zstandard")
        packed = zstandard.compress(data.getvalue())
        return head + varint(len(rows)) + varint(len(packed)) + packed + b"s" * 16
    fastavro.writer(file, schema, rows, codec=codec, sync_marker=b"s" * 16)
    return file.getvalue()


def with_block(schema: Any, count: int, data: bytes, codec: str = "null") -> bytes:
    block = varint(count) + varint(len(data)) + data + b"s" * 16
    return file_of(schema, codec=codec) + block


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_files_are_read_in_every_codec(codec: str) -> None:
    rows = [{"f0": number, "f1": [None if number % 2 else "x"]} for number in range(20_000)]
    schema = record("long", {"type": "array", "items": ["null", "string"]})
    assert list(rows_of_file(io.BytesIO(file_of(schema, *rows, codec=codec)))) == rows


def test_a_type_within_itself_is_read_and_is_not_read_without_end() -> None:
    tree = {"name": "a", "below": [{"name": "b", "below": []}]}
    assert list(rows_of_file(io.BytesIO(file_of(TREE, tree)))) == [tree]
    deep = (b"\x00" + b"\x02") * 1_000_000
    with pytest.raises(RecursionError):
        list(rows_of_file(io.BytesIO(with_block(TREE, 1, deep))))
    endless = record("Row")
    with pytest.raises((ValueError, RecursionError)):
        list(rows_of_file(io.BytesIO(with_block(endless, 1, b"x"))))


@pytest.mark.parametrize(
    "schema",
    [
        record(NULLS),
        record(["null", {"type": "map", "values": NULLS}]),
        record("int", {"type": "array", "items": record(name="Empty")}),
        record({"type": "array", "items": record(record("null", name="A"), name="B")}),
        record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
    ],
)
def test_arrays_of_nothing_are_refused_before_anything_is_read(schema: Any) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="any number"):
        list(rows_of_file(io.BytesIO(with_block(schema, 1, varint(1 << 60) + b"\x00"))))
    assert time.process_time() - began < 1


def test_a_schema_that_doubles_with_every_name_is_looked_at_once() -> None:
    schema = record("long", name="R0")
    for at in range(1, 200):
        schema = record(schema, f"R{at - 1}", name=f"R{at}")
    assert SchemaLook(fastavro.parse_schema(schema)).least_size == 1 << 199


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (with_block(record("null"), 1 << 60, b""), "any number"),
        (with_block(record("long"), 1 << 60, b"\x02\x02"), None),
        (with_block(record("long"), 1, b"\x02\x02"), "after its rows"),
        (with_block(record("long"), 1, b"\x02")[:-1] + b"x", "marker"),
        (with_block(record("string"), 1, varint(1 << 40)), None),
        (with_block(record("string"), 1, varint(-5)), None),
        (file_of(record("long")) + varint(1) + varint(1 << 60), "a block of"),
        (file_of(record("long")) + b"\xff" * 11, "64 bits"),
        (file_of(record("long")) + varint(1), None),
        (b"Obj\x01" + varint(1) + varint(1 << 60), "a length of"),
        (file_of(record("long")).replace(b"\x08null", b"\x08nope"), "codec nope"),
    ],
)
def test_counts_and_lengths_that_lie_are_errors(content: bytes, error: str | None) -> None:
    with pytest.raises((ValueError, EOFError, IndexError), match=error):
        list(rows_of_file(io.BytesIO(content)))


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_block_that_unpacks_to_too_much_is_refused(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file_of(record("bytes"), {"f0": bytes(50_000_000)}, codec=codec)
    monkeypatch.setattr(foreign_avro, "LARGEST_BLOCK", 4_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="unpacked"):
            list(rows_of_file(io.BytesIO(content)))
        assert tracemalloc.get_traced_memory()[1] < 25_000_000
    finally:
        tracemalloc.stop()
