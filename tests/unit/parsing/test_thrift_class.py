"""Thrift by a generated class: names, types and defaults are the class's."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from secor.core.errors import ConfigurationError
from secor.core.variant_json import MIXED
from secor.parsing.decoders.thrift import ThriftDecoder
from secor.parsing.fields import field_at, texts
from tests.unit.parsing.decoder_cases import decode, reason, rows, survives
from tests.unit.parsing.test_decoder_thrift import BOTH, field, text

HERE = "tests.unit.parsing.thrift_for_tests"
EVENT = f"{HERE}:Event"

NL = {"country": "NL", "id": -7, "friend": None}
EXPECTED: dict[str, Any] = {
    "ts": 1735686001000,
    "user": NL,
    "shorts": [1, -1],
    "flags": [("k", True)],
    "paid": True,
    "share": 0.5,
    "small": -1,
    "country": "NL",
    "friends": None,
    "words": ["a", "b"],
    "owner": {"country": "DE", "id": None, "friend": None},
    "raw": [("x", b"y")],
    "blobs": [b"\xff"],
}


@BOTH
def test_fields_have_the_names_types_and_defaults_of_the_class(
    protocol: str, payload: bytes
) -> None:
    decoder = ThriftDecoder(protocol, message_class=EVENT)
    found = decode(decoder, [payload, b"\x00"])
    assert found.bad == {}
    kind = found.rows.type
    assert kind.field("ts").type == pa.int64()
    assert kind.field("small").type == pa.int8()
    assert kind.field("shorts").type == pa.list_(pa.int16())
    assert kind.field("flags").type == pa.map_(pa.string(), pa.bool_())
    assert kind.field("blobs").type == pa.list_(pa.binary())
    full, empty = found.rows.to_pylist()
    assert full == EXPECTED
    defaults = {name: EXPECTED[name] for name in ("country", "words", "owner", "raw")}
    assert empty == dict.fromkeys(EXPECTED) | defaults | {"share": 0.25}


@BOTH
def test_paths_are_of_names(protocol: str, payload: bytes) -> None:
    decoder = ThriftDecoder(protocol, message_class=EVENT)
    paths = ("ts", "user.country", "owner.country", "2.1", "flags", "flags.k")
    asked = decode(decoder, [payload], *paths).rows
    assert [texts(field_at(asked, path)).at(0) for path in paths] == [
        "1735686001000",
        "NL",
        "DE",
        None,
        '{"k":true}',
        "true",
    ]


def user(country: bytes, friend: bytes = b"") -> bytes:
    inner = field(12, 3, friend) if friend else b""
    return field(11, 1, text(country)) + inner + b"\x00"


def test_a_struct_within_itself_is_json_text() -> None:
    decoder = ThriftDecoder(message_class=f"{HERE}:User")
    found = decode(decoder, [user(b"NL", user(b"DE", user(b"FR")))])
    assert found.rows.type.field("friend").metadata == MIXED
    fr = '{"country":"FR","id":null,"friend":null}'
    assert found.rows.to_pylist() == [
        {"country": "NL", "id": None, "friend": f'{{"country":"DE","id":null,"friend":{fr}}}'}
    ]
    odd = (
        field(14, 1, b"\x0c" + struct.pack(">i", 1) + field(11, 2, text(b"x")) + b"\x00") + b"\x00"
    )
    others = rows(ThriftDecoder(message_class=f"{HERE}:Odd"), [odd])
    assert others == [{"others": ['{"others":null,"old":"x"}'], "old": None}]


def test_fields_that_the_class_does_not_know_are_left_out() -> None:
    payload = field(11, 77, text(b"new")) + user(b"NL")
    assert rows(ThriftDecoder(message_class=f"{HERE}:User"), [payload])[0]["country"] == "NL"


MISFITS = {
    "text for a number": (field(11, 1, text(b"x")), "field ts: str where the class has int"),
    "a number for text": (field(8, 9, b"\0" * 4), "field country: int where the class has str"),
    "no UTF-8": (field(11, 9, text(b"\xff")), "field country: bytes where the class has str"),
    "a flag for a number": (field(2, 1, b"\x01"), "field ts: bool where the class has int"),
    "a list for a struct": (field(15, 2, b"\x03\0\0\0\0"), "field user: list"),
    "a map for a list of structs": (
        field(13, 10, b"\x0b\x02" + struct.pack(">i", 1) + text(b"k") + b"\x01"),
        "field friends: map where the class has dict",
    ),
    "a list for a map": (field(15, 4, b"\x03\0\0\0\x01\x07"), "a list where the class has a map"),
    "text in a list of numbers": (
        field(15, 3, b"\x0b" + struct.pack(">i", 1) + text(b"x")),
        "field shorts: str",
    ),
}


@pytest.mark.parametrize(("payload", "expected"), list(MISFITS.values()), ids=list(MISFITS))
def test_a_value_of_another_type_is_bad(payload: bytes, expected: str) -> None:
    decoder = ThriftDecoder(message_class=EVENT)
    assert expected in reason(decoder, payload + b"\x00")
    assert expected in reason(decoder, payload + b"\x00", "ts")


def test_a_number_beyond_its_type_is_bad() -> None:
    wide = field(10, 7, struct.pack(">q", 300)) + b"\x00"
    assert "does not fit" in reason(ThriftDecoder(message_class=EVENT), wide)


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("tests.unit.parsing.thrift_for_tests", "write module:Class"),
        ("tests.nowhere:Event", "No module named"),
        (f"{HERE}:Nobody", "Nobody"),
        (f"{HERE}:NoStruct", "no generated struct"),
        (f"{HERE}:Unknown", "unknown type 99"),
    ],
)
def test_what_is_no_generated_class_is_refused(place: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        ThriftDecoder(message_class=place)


def test_a_class_and_names_exclude_each_other_and_both_are_in_the_identity() -> None:
    with pytest.raises(ConfigurationError, match="give only one"):
        ThriftDecoder(names={"1": "ts"}, message_class=EVENT)
    found = {
        ThriftDecoder(message_class=f"{HERE}:{name}").identity for name in ("Event", "User", "Odd")
    }
    assert len(found) == 3
    assert ThriftDecoder(message_class=EVENT).identity in found


@BOTH
def test_damaged_messages_are_bad_and_never_a_crash(protocol: str, payload: bytes) -> None:
    survives(ThriftDecoder(protocol, message_class=EVENT), payload, "ts", "user.country")
