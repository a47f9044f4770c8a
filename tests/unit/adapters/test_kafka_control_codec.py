import io
import json
import zlib
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secor.adapters.kafka.control_topic import LARGEST, SCHEMA, decode, encode
from secor.core.model import TopicPartition
from secor.tables.control import ControlEvent, EventKind, PartitionAnswer

ANSWERS = (
    PartitionAnswer(TopicPartition("clicks", 3), 9, 1_700_000_000_000),
    PartitionAnswer(TopicPartition("b", 0), 0),
)
EVENT = ControlEvent(
    *(EventKind.DATA_COMPLETE, "g", "c1", 7, "me", ANSWERS, "key", "db.t", 5, 1_600_000_000_000),
)


def file_of(schema: Any, record: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), [record])
    return file.getvalue()


@pytest.mark.parametrize("kind", list(EventKind))
def test_an_event_is_read_back_as_it_was_sent(kind: EventKind) -> None:
    event = ControlEvent(kind, "g", "c1", 7, "me")
    assert decode(encode(event)) == event
    assert decode(encode(EVENT)) == EVENT


def test_an_older_sender_leaves_fields_out_and_a_newer_one_adds_some() -> None:
    fields = [it for it in SCHEMA["fields"] if it["name"] in ("kind", "group", "commit", "epoch")]
    newer = {
        "type": "record",
        "name": "secor.tables.ControlEvent",
        "fields": [*fields, {"name": "colour", "type": "string"}],
    }
    record = {"kind": "START_COMMIT", "group": "g", "commit": "c1", "epoch": 7, "colour": "red"}
    assert decode(file_of(newer, record)) == ControlEvent(EventKind.START_COMMIT, "g", "c1", 7, "")


def test_a_kind_that_is_not_known_is_skipped() -> None:
    data = encode(EVENT).replace(b"DATA_COMPLETE", b"DATA_CHANGED!")
    assert decode(data) is None


@pytest.mark.parametrize(
    "value",
    [None, b"", b"rubbish", encode(EVENT)[:-40], b"Obj\x01" + b"\xff" * 30, b"0" * LARGEST * 2],
)
def test_what_is_no_event_is_skipped(value: bytes | None) -> None:
    assert decode(value) is None


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_no_bytes_are_an_error(rubbish: bytes, at: int, byte: int) -> None:
    decode(rubbish)
    damaged = bytearray(encode(EVENT))
    damaged[at % len(damaged)] = byte
    decode(bytes(damaged))


def header_of(schema: Any, codec: str) -> bytes:
    """The beginning of an Avro file: its schema is not checked by whoever writes it here."""
    written = json.dumps(schema).encode()
    metadata = {b"avro.schema": written, b"avro.codec": codec.encode()}
    pairs = b"".join(sized(name) + sized(text) for name, text in metadata.items())
    return b"Obj\x01" + number(len(metadata)) + pairs + number(0) + bytes(16)


def number(value: int) -> bytes:
    value, written = value << 1, b""
    while value & ~0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def sized(text: bytes) -> bytes:
    return number(len(text)) + text


FOUR = [it for it in SCHEMA["fields"] if it["name"] in ("kind", "group", "commit", "epoch")]
BODY = sized(b"START_COMMIT") + sized(b"g") + sized(b"c1") + number(7)


def forged(fields: list[dict[str, Any]], body: bytes, codec: str = "null") -> bytes:
    schema = {"type": "record", "name": "secor.tables.ControlEvent", "fields": fields}
    return header_of(schema, codec) + number(1) + sized(body) + bytes(16)


def test_a_file_made_by_hand_is_read() -> None:
    assert decode(forged(FOUR, BODY)) == ControlEvent(EventKind.START_COMMIT, "g", "c1", 7, "")


def test_a_few_bytes_that_unpack_to_many_are_no_event() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(BODY + bytes(64 << 20)) + packer.flush()
    assert decode(forged(FOUR, packed, "deflate")) is None


@pytest.mark.parametrize(
    "unbounded",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        "secor.tables.ControlEvent",
        {"type": "array", "items": "secor.tables.ControlEvent"},
        {"type": "bytes", "logicalType": "decimal", "precision": 9},
    ],
)
def test_a_schema_that_the_library_would_read_without_end_is_no_event(unbounded: object) -> None:
    """Arrays of nothing took for ever; a record within itself ended the process."""
    body = number(1 << 60) + number(0) + BODY
    assert decode(forged([{"name": "x", "type": unbounded}, *FOUR], body)) is None


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ({"type": "array", "items": "int"}, number(2) + number(5) + number(6) + number(0)),
        ({"type": "map", "values": "null"}, number(1) + sized(b"k") + number(0)),
        (["null", {"type": "enum", "name": "e", "symbols": ["A"]}], number(1) + number(0)),
        ({"type": "fixed", "name": "f", "size": 3}, b"abc"),
    ],
)
def test_fields_of_a_newer_version_are_left_out_whatever_their_type(
    type_: object, body: bytes
) -> None:
    value = forged([{"name": "x", "type": type_}, *FOUR], body + BODY)
    assert decode(value) == ControlEvent(EventKind.START_COMMIT, "g", "c1", 7, "")
