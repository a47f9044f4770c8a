import struct

import pytest

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.columns import MAX_DEPTH
from secor.parsing.decoders.thrift import ThriftDecoder
from tests.unit.parsing.decoder_cases import reason, rows, survives


def field(kind: int, number: int, content: bytes) -> bytes:
    return struct.pack(">bh", kind, number) + content


def text(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


BINARY = (
    field(10, 1, struct.pack(">q", 1735686001000))
    + field(12, 2, field(11, 1, text(b"NL")) + field(8, 2, struct.pack(">i", -7)) + b"\x00")
    + field(15, 3, b"\x06" + struct.pack(">i", 2) + struct.pack(">hh", 1, -1))
    + field(13, 4, b"\x0b\x02" + struct.pack(">i", 1) + text(b"k") + b"\x01")
    + field(2, 5, b"\x01")
    + field(4, 6, struct.pack(">d", 0.5))
    + field(3, 7, b"\xff")
    + field(14, 300, b"\x0b" + struct.pack(">i", 1) + text(b"\xff"))
    + b"\x00"
)
"""i64, struct of string and i32, list<i16>, map<string, bool>, bool, double, byte, set<binary>."""

COMPACT = (
    b"\x16\xd0\xc5\x94\xef\x83\x65"  # field 1, i64 zigzag
    b"\x1c\x18\x02NL\x15\x0d\x00"  # field 2, struct
    b"\x19\x24\x02\x01"  # field 3, list of 2 i16
    b"\x1b\x01\x81\x01k\x01"  # field 4, map of 1
    b"\x11"  # field 5, true
    b"\x17"
    + struct.pack("<d", 0.5)
    + b"\x13\xff"
    + b"\x0a\xd8\x04\x18\x01\xff"  # field 300 by its own number, set of 1
    + b"\x00"
)
"""The same struct in the compact protocol."""

EXPECTED = {
    "1": 1735686001000,
    "2": {"1": "NL", "2": -7},
    "3": [1, -1],
    "4": [{"key": "k", "value": True}],
    "5": True,
    "6": 0.5,
    "7": -1,
    "300": [b"\xff"],
}

BOTH = pytest.mark.parametrize(
    ("protocol", "payload"), [("binary", BINARY), ("compact", COMPACT)], ids=["binary", "compact"]
)


@BOTH
def test_structs_are_read_without_their_definition(protocol: str, payload: bytes) -> None:
    decoder = ThriftDecoder(protocol)
    assert rows(decoder, [payload]) == [EXPECTED]
    asked = rows(decoder, [payload], "1", "2.1", "2.2", "9", "3")
    assert list(asked[0].values()) == [1735686001000, "NL", -7, None, "[1,-1]"]


@BOTH
def test_fields_can_have_names(protocol: str, payload: bytes) -> None:
    decoder = ThriftDecoder(protocol, {"1": "ts", "2": "user", "2.1": "country"})
    found = rows(decoder, [payload], "ts", "user.country", "user.2")
    assert list(found[0].values()) == [1735686001000, "NL", -7]
    assert decoder.identity != ThriftDecoder(protocol).identity


@BOTH
def test_what_is_no_whole_struct_is_bad(protocol: str, payload: bytes) -> None:
    decoder = ThriftDecoder(protocol)
    assert reason(decoder, None) == "null payload"
    assert reason(decoder, b"") == "empty payload"
    assert "truncated" in reason(decoder, payload[:-1])
    assert reason(decoder, payload + b"x") == (
        f"bytes after the struct's end, at byte {len(payload)}"
    )


BAD = {
    "deep binary": ("binary", field(12, 1, b"") * (MAX_DEPTH + 1), "nested deeper"),
    "very deep binary": ("binary", field(12, 1, b"") * 50_000, "nested deeper"),
    "deep lists": ("binary", field(15, 1, b"\x0f\x00\x00\x00\x01" * 5000), "nested deeper"),
    "deep compact": ("compact", b"\x1c" * 50_000, "nested deeper"),
    "deep compact lists": ("compact", b"\x19" * 50_000, "nested deeper"),
    "unknown type": ("binary", b"\x63\x00\x01\x00", "unknown type 99"),
    "unknown compact type": ("compact", b"\x1f\x00", "unknown type 15"),
    "negative size": ("binary", field(11, 1, b"\xff\xff\xff\xff"), "truncated"),
    "list of two billion": ("binary", field(15, 1, b"\x03\x7f\xff\xff\xff"), "a container of"),
    "negative list": ("binary", field(15, 1, b"\x03\xff\xff\xff\xff"), "a container of"),
    "compact list without end": ("compact", b"\x19\xf3" + b"\xff" * 8 + b"\x01", "a container of"),
    "varint without end": ("compact", b"\x16" + b"\xff" * 30, "varint"),
    "beyond int64": ("compact", b"\x16" + b"\xff" * 9 + b"\x7f\x00", "beyond 64 bits"),
    "field twice": ("binary", field(3, 1, b"\x01") * 2 + b"\x00", "field 1 twice"),
}


@pytest.mark.parametrize(("protocol", "payload", "expected"), list(BAD.values()), ids=list(BAD))
def test_hostile_bytes_are_bad(protocol: str, payload: bytes, expected: str) -> None:
    assert expected in reason(ThriftDecoder(protocol), payload)
    assert expected in reason(ThriftDecoder(protocol), payload, "1")


@pytest.mark.parametrize(
    "names", [{"a": "x"}, {"1": ""}, {"1": "2"}, {"1": "a.b"}, {"1": "x", "2": "x"}]
)
def test_names_that_cannot_be_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="thrift names"):
        ThriftDecoder("binary", names)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="binary, compact"):
        ThriftDecoder("json")


@BOTH
def test_damaged_messages_are_bad_and_never_a_crash(protocol: str, payload: bytes) -> None:
    survives(ThriftDecoder(protocol), payload, "1", "2.1")
