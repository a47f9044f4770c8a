import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import Message

from secor.core.errors import ConfigurationError
from secor.core.variant_json import MIXED
from secor.parsing.decoders.protobuf import ProtobufDecoder
from secor.parsing.fields import field_at, texts
from tests.unit.parsing.decoder_cases import decode, reason, rows, survives

FIELD = descriptor_pb2.FieldDescriptorProto


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """What protoc writes for a message of every kind of field."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="event.proto", package="shop", syntax="proto3")
    color = file.enum_type.add(name="Color")
    color.value.add(name="RED", number=0)
    color.value.add(name="BLUE", number=1)
    user = file.message_type.add(name="User")
    add(user, 1, "country", FIELD.TYPE_STRING)
    event = file.message_type.add(name="Event")
    add(event, 1, "ts", FIELD.TYPE_INT64)
    add(event, 2, "user", FIELD.TYPE_MESSAGE, kind=".shop.User")
    add(event, 3, "color", FIELD.TYPE_ENUM, kind=".shop.Color")
    add(event, 4, "sizes", FIELD.TYPE_UINT64, many=True)
    add(event, 5, "raw", FIELD.TYPE_BYTES)
    add(event, 6, "score", FIELD.TYPE_DOUBLE)
    add(event, 7, "parent", FIELD.TYPE_MESSAGE, kind=".shop.Event")
    maybe = add(event, 8, "maybe", FIELD.TYPE_INT32)
    maybe.proto3_optional = True
    maybe.oneof_index = 0
    event.oneof_decl.add(name="_maybe")
    entry = event.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    add(entry, 1, "key", FIELD.TYPE_STRING)
    add(entry, 2, "value", FIELD.TYPE_INT32)
    add(event, 9, "counts", FIELD.TYPE_MESSAGE, kind=".shop.Event.CountsEntry", many=True)
    return found


def add(
    message: Any, number: int, name: str, type_: int, kind: str = "", many: bool = False
) -> Any:
    label = FIELD.LABEL_REPEATED if many else FIELD.LABEL_OPTIONAL
    made = message.field.add(name=name, number=number, type=type_, label=label)
    if kind:
        made.type_name = kind
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "shop.desc"
    place.write_bytes(descriptors().SerializeToString())
    return place


@pytest.fixture
def decoder(path: Path) -> ProtobufDecoder:
    return ProtobufDecoder("shop.Event", path)


def event(**fields: Any) -> Message:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors().file:
        pool.Add(file)
    made: Message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Event"))(
        **fields
    )
    return made


FULL: dict[str, Any] = {
    "ts": 1735686001000,
    "user": {"country": "NL"},
    "color": 1,
    "sizes": [1, 2**64 - 1],
    "raw": b"\xff",
    "score": 0.5,
    "parent": {"ts": 3},
    "maybe": 0,
    "counts": {"b": 2, "a": 1},
}


def test_messages_become_typed_rows(decoder: ProtobufDecoder) -> None:
    found = decode(decoder, [event(**FULL).SerializeToString(), event(ts=1).SerializeToString()])
    kind = found.rows.type
    assert kind.field("sizes").type == pa.list_(pa.uint64())
    assert kind.field("counts").type == pa.map_(pa.string(), pa.int32())
    assert kind.field("parent").metadata == MIXED
    full, sparse = found.rows.to_pylist()
    assert json.loads(full.pop("parent")) == {"ts": "3"}
    assert full == {
        **{name: FULL[name] for name in ("ts", "user", "sizes", "raw", "score", "maybe")},
        "color": "BLUE",
        "counts": [("a", 1), ("b", 2)],
    }
    assert sparse["user"] is None
    assert sparse["maybe"] is None
    assert (sparse["color"], sparse["score"], sparse["raw"]) == ("RED", 0.0, b"")


def test_asked_for_fields_are_found(decoder: ProtobufDecoder) -> None:
    payload = event(**FULL).SerializeToString()
    paths = ("ts", "user.country", "color", "counts", "counts.b", "sizes", "parent.ts", "x")
    asked = decode(decoder, [payload], *paths).rows
    assert [texts(field_at(asked, path)).at(0) for path in paths] == [
        "1735686001000",
        "NL",
        "BLUE",
        '{"a":1,"b":2}',
        "2",
        "[1,18446744073709551615]",
        "3",
        None,
    ]


def test_json_encoded_messages_give_the_same_rows(path: Path, decoder: ProtobufDecoder) -> None:
    from google.protobuf.json_format import MessageToJson

    message = event(**FULL)
    as_json = ProtobufDecoder("shop.Event", path, encoding="json")
    assert rows(as_json, [MessageToJson(message).encode()]) == rows(
        decoder, [message.SerializeToString()]
    )
    assert "unknown" in reason(as_json, b'{"unknown": 1}')
    assert "invalid UTF-8 at byte 1" in reason(as_json, b"\x20\xff")
    assert "invalid protobuf JSON" in reason(as_json, b'{"ts": 1e400}')
    assert "invalid protobuf JSON" in reason(as_json, b"[1]")
    deep = b'{"parent":' * 50_000 + b"{}" + b"}" * 50_000
    assert "nested deeper" in reason(as_json, deep)
    survives(as_json, MessageToJson(message, indent=None).encode(), "ts", "user.country")


def test_a_generated_class_is_found_by_its_import_path() -> None:
    decoder = ProtobufDecoder(message_class="google.protobuf.timestamp_pb2:Timestamp")
    payload = timestamp_pb2.Timestamp(seconds=5, nanos=6).SerializeToString()
    assert rows(decoder, [payload]) == [{"seconds": 5, "nanos": 6}]


def test_the_registrys_header_is_skipped(path: Path) -> None:
    decoder = ProtobufDecoder("shop.Event", path, framing="confluent")
    payload = event(ts=5).SerializeToString()
    for indexes in (b"\x00", b"\x02\x02", b"\x04\x00\x80\x01"):
        assert rows(decoder, [b"\x00\x00\x00\x00\x07" + indexes + payload], "ts") == [{"ts": 5}]
    assert rows(decoder, [bytes(6)], "ts") == [{"ts": 0}]
    assert reason(decoder, payload) == "magic byte 8, not 0 or 1"
    assert reason(decoder, b"\x00\x00") == "2 bytes: shorter than magic and schema id"
    assert reason(decoder, bytes(5)) == "truncated header at byte 5"
    assert "truncated header" in reason(decoder, bytes(5) + b"\x06\x02")
    assert reason(decoder, bytes(5) + b"\x01") == "-1 message indexes"
    assert "message indexes" in reason(decoder, bytes(5) + b"\xfe" * 9 + b"\x01")
    with pytest.raises(ConfigurationError, match="framing"):
        ProtobufDecoder("shop.Event", path, framing="what")


def test_unknown_symbols_are_their_numbers(decoder: ProtobufDecoder) -> None:
    assert rows(decoder, [b"\x18\x09"], "color") == [{"color": "9"}]


def test_what_is_no_message_is_bad(decoder: ProtobufDecoder) -> None:
    assert reason(decoder, None) == "null payload"
    assert "invalid protobuf" in reason(decoder, b"\x0a")
    assert "invalid protobuf" in reason(decoder, b"\x12\x03\x0a\x01\xff")  # no UTF-8
    deep = b""
    for _ in range(300):
        size = len(deep)
        varint = bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])
        deep = b"\x3a" + varint + deep
    assert "invalid protobuf" in reason(decoder, deep)


def test_an_empty_payload_is_a_message_with_defaults(path: Path, decoder: ProtobufDecoder) -> None:
    [got] = rows(decoder, [b""])
    assert (got["ts"], got["sizes"], got["maybe"]) == (0, [], None)
    assert reason(ProtobufDecoder("shop.Event", path, encoding="json"), b"") == "empty payload"


def test_settings_that_cannot_be_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no message 'shop\.Evnt'"):
        ProtobufDecoder("shop.Evnt", path)
    with pytest.raises(ConfigurationError, match="descriptor set"):
        ProtobufDecoder("shop.Event", tmp_path / "none.desc")
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff\xff")
    with pytest.raises(ConfigurationError, match="descriptor set"):
        ProtobufDecoder("shop.Event", tmp_path / "bad.desc")
    with pytest.raises(ConfigurationError, match="either"):
        ProtobufDecoder("shop.Event")
    with pytest.raises(ConfigurationError, match="encoding"):
        ProtobufDecoder("shop.Event", path, encoding="text")
    for place in ("no.such:Class", "json:JSONDecoder", "json:Nothing", "json", ":x"):
        with pytest.raises(ConfigurationError, match="protobuf class"):
            ProtobufDecoder(message_class=place)


def test_a_class_made_for_another_version_of_the_package_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later_pb2.py").write_text(
        "from google.protobuf import runtime_version as it\n"
        "it.ValidateProtobufRuntimeVersion(it.Domain.PUBLIC, 99, 0, 0, '', 'later.proto')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"later_pb2:Event.*later\.proto: gencode 99"):
        ProtobufDecoder(message_class="later_pb2:Event")


def test_the_identity_covers_the_definition(path: Path, decoder: ProtobufDecoder) -> None:
    assert ProtobufDecoder("shop.Event", path).identity == decoder.identity
    changed = descriptors()
    add(changed.file[0].message_type[0], 2, "city", FIELD.TYPE_STRING)
    path.write_bytes(changed.SerializeToString())
    assert ProtobufDecoder("shop.Event", path).identity != decoder.identity


def test_damaged_messages_are_bad_and_never_a_crash(decoder: ProtobufDecoder) -> None:
    payload = event(**FULL).SerializeToString()
    values = [payload[:end] for end in range(1, len(payload))]
    found = decode(decoder, values)
    assert len(found.bad) > len(values) // 2
    assert decode(decoder, values, "ts", "user.country").bad == found.bad
