import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secor.adapters.kafka.control_codec import LARGEST, SCHEMA, decode, encode
from secor.core.model import TopicPartition
from secor.tables.control import Answer, Event, Kind

ANSWERS = (
    Answer(TopicPartition("clicks", 3), 9, 1_700_000_000_000),
    Answer(TopicPartition("b", 0), 0),
)
EVENT = Event(
    *(Kind.DATA_COMPLETE, "g", "c1", 7, "me", ANSWERS, "key", "db.t", 5, 1_600_000_000_000),
)


def file_of(schema: Any, record: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), [record])
    return file.getvalue()


@pytest.mark.parametrize("kind", list(Kind))
def test_an_event_is_read_back_as_it_was_sent(kind: Kind) -> None:
    event = Event(kind, "g", "c1", 7, "me")
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
    assert decode(file_of(newer, record)) == Event(Kind.START_COMMIT, "g", "c1", 7, "")


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
