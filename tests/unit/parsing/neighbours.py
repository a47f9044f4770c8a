"""Messages of every decoder, few kinds to a field, and what becomes of each in a chunk."""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import msgpack
from google.protobuf import json_format

from secor.core.model import Chunk, Part
from secor.formats.typed.jsonlines import JsonLinesFormat
from secor.parsing.parts import ROW
from secor.parsing.pipeline import Pipeline
from tests.fakes.registry import Registry
from tests.unit.formats.test_typed_misfits import shown
from tests.unit.parsing.parsing_cases import chunk_of
from tests.unit.parsing.test_decoder_protobuf import event

Chance = random.Random
Outcome = tuple[str, str, str]
"""OutputStream, output partition, and the row or the reason."""


def outcomes(pipeline: Pipeline, chunk: Chunk) -> dict[int, Outcome]:
    """Return what becomes of each message, by offset; what is filtered is not there."""
    found: dict[int, Outcome] = {}
    for part in _split(pipeline, chunk):
        offsets = part.records.column("offset").to_pylist()
        for offset, told in zip(offsets, _told(part), strict=True):
            found[offset] = (part.stream, part.output_partition, told)
    return found


def _split(pipeline: Pipeline, chunk: Chunk) -> Sequence[Part]:
    parts = pipeline.split(chunk)
    places: dict[tuple[str, str], list[int]] = {}
    for part in parts:
        offsets = part.records.column("offset").to_pylist()
        places.setdefault((part.stream, part.output_partition), []).extend(offsets)
    assert all(offsets == sorted(set(offsets)) for offsets in places.values())
    return parts


def _told(part: Part) -> list[str]:
    if ROW not in part.records.schema.names:
        return [str(it) for it in part.records.column("headers").to_pylist()]
    rows = part.records.column(ROW)
    rows.validate(full=True)
    return shown(rows)


class _Lines(io.BytesIO):
    """A sink of the lines of undeclared rows."""


def lines(pipeline: Pipeline, chunk: Chunk) -> dict[int, Outcome]:
    """Return likewise what JSON lines have of rows of no schema."""
    found: dict[int, Outcome] = {}
    for part in _split(pipeline, chunk):
        told = _told(part)
        if ROW in part.records.schema.names:
            sink: Any = _Lines()
            writer = JsonLinesFormat().create(sink, b"")
            writer.append(part.records)
            writer.close()
            told = sink.getvalue().decode().splitlines()
        offsets = part.records.column("offset").to_pylist()
        for offset, line in zip(offsets, told, strict=True):
            found[offset] = (part.stream, part.output_partition, line)
    return found


def agree(
    look: Callable[[Pipeline, Chunk], dict[int, Outcome]],
    pipeline: Pipeline,
    values: Sequence[bytes | None],
) -> dict[int, Outcome]:
    """Check that messages have the same result together and each by itself; return it."""
    alone: dict[int, Outcome] = {}
    for offset, value in enumerate(values):
        alone |= look(pipeline, chunk_of([value], first=offset))
    found = look(pipeline, chunk_of(values))
    differ = [it for it in range(len(values)) if found.get(it) != alone.get(it)]
    assert not differ, [(values[it], found.get(it), alone.get(it)) for it in differ]
    return alone


# -------------------------------------------------------------------- values

TEXTS = ["", "p", "5", "NL", '"p"', "[1]", '{"x":1}', "null", "1.5", "ü", "YWJj", "2026-01-01"]
INTEGERS = [0, 1, -1, 5, 86_400, 1 << 40, 1_700_000_000, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
DOUBLES = [0.0, -0.0, 5.0, 1.5, 0.1, 1e16, 1e300, 2.0**53, 1.7e18, float("nan"), float("inf")]
BLOBS = [b"", b"abc", b"5", b"\xff", b"NL", b"YWJj", b"\xed\xb3\xbf", b"1700000000"]

Make = Callable[[Chance, int], Any]


def of_any_kind(chance: Chance, depth: int = 0) -> Any:
    """Return a value of JSON or, beyond it, of bytes."""
    kind = chance.randrange(11 if depth < 2 else 8)
    if kind < 2:
        return chance.choice(INTEGERS)
    if kind < 4:
        return chance.choice(DOUBLES)
    if kind == 4:
        return chance.choice(TEXTS)
    if kind < 7:
        return chance.choice(BLOBS)
    if kind == 7:
        return chance.choice([None, True, False])
    if kind == 8:
        return [of_any_kind(chance, depth + 1) for _ in range(chance.randrange(3))]
    names = chance.sample("xyz", chance.randrange(3))
    return {name: of_any_kind(chance, depth + 1) for name in names}


WRAPS: list[Callable[[Any], Any]] = [
    lambda it: it,
    lambda it: [it],
    lambda it: {"x": it},
    lambda it: {"x": {"y": it}},
    lambda it: [{"x": it}],
    lambda it: {"x": [it]},
]


def objects_of(chance: Chance, make: Make) -> list[dict[str, Any]]:
    """Return objects with ``a`` of few kinds: so columns of them are made of two."""
    wrap = chance.choice(WRAPS)
    pool = [wrap(make(chance, 2)) for _ in range(4)] + [make(chance, 0) for _ in range(2)]
    rows: list[dict[str, Any]] = []
    for _ in range(chance.randrange(2, 7)):
        row = {} if chance.random() < 0.1 else {"a": chance.choice(pool)}
        if chance.random() < 0.3:
            row[chance.choice(["b", "a.x", "w"])] = make(chance, 1)
        rows.append(row)
    return rows


def damaged(chance: Chance, values: Sequence[bytes]) -> list[bytes | None]:
    """Return the messages, now and then one of them broken or null."""
    found: list[bytes | None] = list(values)
    if chance.random() < 0.2:
        at = chance.randrange(len(values))
        found[at] = chance.choice([None, b"", values[at][:-1], values[at] + b"\x00"])
    return found


# ------------------------------------------------------------------ encodings


def _json_value(chance: Chance, depth: int) -> Any:
    value = of_any_kind(chance, depth)
    return value if _is_json(value) else chance.choice(TEXTS)


def _is_json(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_is_json, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, bytes) and value == value and abs_of(value) != float("inf")


def abs_of(value: Any) -> Any:
    return abs(value) if isinstance(value, float) else value


def json_messages(chance: Chance) -> list[bytes]:
    rows = [json.dumps(row) for row in objects_of(chance, _json_value)]
    if chance.random() < 0.2:
        rows.append(chance.choice(['{"a":1,"a":2}', '{"a":{"x":1,"x":2}}', r'{"a":"\udcffYWJj"}']))
    return [row.encode() for row in rows]


def _packable(chance: Chance, depth: int) -> Any:
    odd = [msgpack.Timestamp(5, 7), msgpack.Timestamp(-1, 0), msgpack.ExtType(5, b"abc")]
    odd += [{5: 1, "y": b"abc"}, 1 << 63]
    return chance.choice(odd) if chance.random() < 0.15 else of_any_kind(chance, depth)


def messagepack_messages(chance: Chance) -> list[bytes]:
    return [bytes(msgpack.packb(row)) for row in objects_of(chance, _packable)]


THRIFT_IDS = {"a": 1, "b": 2, "a.x": 3, "w": 4, "x": 1, "y": 2, "z": 3}
THRIFT_NAMES = {"1": "a", "2": "b", "4": "w", "1.1": "x", "1.2": "y", "1.3": "z"}


def thrift_messages(chance: Chance) -> list[bytes]:
    return [thrift_value(row)[1] for row in objects_of(chance, of_any_kind)]


def thrift_value(value: Any) -> tuple[int, bytes]:
    """Return a value's type and bytes of the binary protocol."""
    match value:
        case bool():
            return 2, bytes([value])
        case int():
            return 10, struct.pack(">q", value)
        case float():
            return 4, struct.pack(">d", value)
        case str() | bytes():
            raw = value.encode() if isinstance(value, str) else value
            return 11, struct.pack(">i", len(raw)) + raw
        case list():
            items = [thrift_value(item) for item in value if item is not None]
            kind = items[0][0] if items else 11
            packed = [content for found, content in items if found == kind]  # of one type only
            return 15, struct.pack(">bi", kind, len(packed)) + b"".join(packed)
    fields = b""
    for name, item in value.items():
        if item is not None:
            kind, content = thrift_value(item)
            fields += struct.pack(">bh", kind, THRIFT_IDS[name]) + content
    return 12, fields + b"\x00"


PERSON = {"country": "NL", "id": 5}


def thrift_class_messages(chance: Chance) -> list[bytes]:
    """Structs of ``thrift_for_tests.Event``."""
    rows = []
    for _ in range(chance.randrange(2, 6)):
        user = b"\x0b\x00\x01" + thrift_value(chance.choice(["NL", b"\xff", "x"]))[1]
        friend = b"\x0c\x00\x03" + user + b"\x00" if chance.random() < 0.5 else b""
        fields = {
            1: (10, thrift_value(chance.choice(INTEGERS))[1]),
            2: (12, user + friend + b"\x00"),
            6: (4, thrift_value(chance.choice(DOUBLES))[1]),
            9: (11, thrift_value(chance.choice([*TEXTS, *BLOBS]))[1]),
            300: (14, b"\x0b" + struct.pack(">i", 1) + thrift_value(chance.choice(BLOBS))[1]),
        }
        chosen = sorted(chance.sample(list(fields), chance.randrange(1, 6)))
        content = b"".join(struct.pack(">bh", fields[it][0], it) + fields[it][1] for it in chosen)
        rows.append(content + b"\x00")
    return rows


def _event(chance: Chance, depth: int = 0) -> dict[str, Any]:
    every: dict[str, Any] = {
        "ts": chance.choice(INTEGERS),
        "user": chance.choice([{}, {"country": chance.choice(TEXTS)}]),
        "color": chance.choice([0, 1, 7]),
        "sizes": chance.choice([[], [1, 2**64 - 1]]),
        "raw": chance.choice(BLOBS),
        "score": chance.choice(DOUBLES),
        "maybe": chance.choice([0, 5]),
        "counts": chance.choice([{}, {"b": 2, "a": 1}]),
    }
    if depth < 2:
        every["parent"] = _event(chance, depth + 1)
    return {name: every[name] for name in chance.sample(list(every), chance.randrange(5))}


def protobuf_messages(chance: Chance) -> list[bytes]:
    return [event(**_event(chance)).SerializeToString() for _ in range(chance.randrange(2, 6))]


def protobuf_json_messages(chance: Chance) -> list[bytes]:
    return [
        json_format.MessageToJson(event(**_event(chance))).encode()
        for _ in range(chance.randrange(2, 6))
    ]


PATTERN = r"(?P<a>[^ ]*) (?P<b>[^ ]*)"


def regex_messages(chance: Chance) -> list[bytes]:
    return [f"{chance.choice(TEXTS)} {chance.choice(TEXTS)}".encode() for _ in range(4)]


# ----------------------------------------------------------------------- Avro

Field = tuple[Any, Make]
"""A type, and a maker of its values as they are written."""


def _logical(kind: str, logical: str, values: Sequence[Any], **more: Any) -> Field:
    return {"type": kind, "logicalType": logical, **more}, lambda chance, _: chance.choice(values)


def _unscaled(*numbers: int) -> list[bytes]:
    return [number.to_bytes(4, "big", signed=True) for number in numbers]


def _of(kind: Any, values: Sequence[Any]) -> Field:
    return kind, lambda chance, _: chance.choice(values)


MOMENTS = [0, 1, 86_399_999, 1_700_000_000_000, -5, 1 << 60]
AVRO_LEAVES: list[Field] = [
    _of("int", [0, 5, -1, 86_400]),
    _of("long", INTEGERS),
    _of("float", [0.5, 5.0, 0.10000000149011612, 16777216.0]),
    _of("double", DOUBLES),
    _of("string", TEXTS),
    _of("bytes", BLOBS),
    _of("boolean", [True, False]),
    _of("null", [None]),
    _of(["null", "int"], [None, 5]),
    _of(["int", "string"], [5, "5", "x"]),
    _of(["null", "bytes", "string"], [None, b"abc", b"\xff", "abc", "YWJj"]),
    _of(["null", "boolean", "double"], [None, True, 5.0, 1.5]),
    _of({"type": "enum", "name": "E", "symbols": ["NL", "x"]}, ["NL", "x"]),
    _of({"type": "fixed", "name": "F", "size": 3}, [b"abc", b"\xff\x00\x01"]),
    _logical("bytes", "decimal", _unscaled(0, 5, -150), precision=5, scale=2),
    _logical("bytes", "decimal", _unscaled(500, 123456), precision=9, scale=4),
    _logical("int", "date", [0, 20_000, -5]),
    _logical("int", "time-millis", [0, 5, 86_399_999]),
    _logical("long", "time-micros", [0, 5, 86_399_999_999]),
    _logical("long", "timestamp-millis", MOMENTS),
    _logical("long", "timestamp-micros", MOMENTS),
    _logical("long", "local-timestamp-millis", MOMENTS),
]


def _avro_field(chance: Chance, number: str, depth: int = 0) -> Field:
    kind, make = chance.choice(AVRO_LEAVES)
    if isinstance(kind, dict) and "name" in kind:
        kind = kind | {"name": f"{kind['name']}{number}"}
    wrap = chance.randrange(8 if depth < 2 else 1)
    if wrap < 4:
        return kind, make
    kind, make = _avro_field(chance, f"{number}{wrap}", depth + 1)
    if wrap == 4:
        return {"type": "array", "items": kind}, lambda chance, _: [make(chance, 0)]
    if wrap == 5:
        return {"type": "map", "values": kind}, lambda chance, _: {"x": make(chance, 0)}
    if wrap == 6:
        branches = kind if isinstance(kind, list) else ["null", kind]
        if kind == "null":
            branches = ["null"]
        return branches, make
    other, another = _avro_field(chance, f"{number}o", depth + 1)
    record = {
        "type": "record",
        "name": f"R{number}",
        "fields": [{"name": "x", "type": kind}, {"name": "y", "type": other}],
    }
    return record, lambda chance, _: {"x": make(chance, 0), "y": another(chance, 0)}


def avro_messages(chance: Chance, registry: Registry) -> list[bytes]:
    """Return messages of some schemas that are new in ``registry``."""
    values = []
    for number in range(chance.randrange(1, 5)):
        fields = {"a": _avro_field(chance, "a")}
        for name in ("b", "w"):
            if chance.random() < 0.4:
                fields[name] = _avro_field(chance, name)
        columns = [{"name": name, "type": kind} for name, (kind, _) in fields.items()]
        schema = {"type": "record", "name": f"M{number}", "fields": columns}
        schema_id = len(registry.schemas) + 1
        registry.register(schema_id, schema)
        plain = fastavro.parse_schema(_bare(schema))
        for _ in range(chance.randrange(1, 4)):
            stream = io.BytesIO(struct.pack(">bI", 0, schema_id))
            stream.seek(0, io.SEEK_END)
            record = {name: make(chance, 0) for name, (_, make) in fields.items()}
            fastavro.schemaless_writer(stream, plain, record)
            values.append(stream.getvalue())
    chance.shuffle(values)
    return values


def _bare(schema: Any) -> Any:
    return json.loads(json.dumps(schema).replace("logicalType", "was"))


@dataclass(frozen=True)
class Source:
    """Messages of one decoder, and its settings."""

    settings: Mapping[str, Any]
    messages: Callable[[Chance], list[bytes]]
