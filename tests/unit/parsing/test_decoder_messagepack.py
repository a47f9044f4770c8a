import msgpack
import pyarrow as pa
import pytest

from secor.parsing.decoders.columns import MAX_DEPTH
from secor.parsing.decoders.messagepack import MessagePackDecoder
from tests.unit.parsing.decoder_cases import decode, reason, rows, survives

MESSAGE = {
    "ts": 1735686001000,
    "user": {"country": "NL", "id": 7},
    "tags": ["a", "é"],
    "raw": b"\xff",
}


@pytest.fixture
def decoder() -> MessagePackDecoder:
    return MessagePackDecoder()


def nested(levels: int) -> bytes:
    return b"\x81\xa1a" * levels + b"\x01"


def test_maps_become_rows(decoder: MessagePackDecoder) -> None:
    payload = msgpack.packb(MESSAGE)
    assert rows(decoder, [payload, payload]) == [MESSAGE, MESSAGE]
    asked = rows(decoder, [payload], "ts", "user.country", "tags", "raw", "none")
    assert list(asked[0].values()) == [1735686001000, "NL", '["a","é"]', b"\xff", None]


def test_integer_keys_are_named_by_their_digits(decoder: MessagePackDecoder) -> None:
    payload = msgpack.packb({1: {-2: "x"}})
    assert rows(decoder, [payload], "1.-2") == [{"1.-2": "x"}]
    assert rows(decoder, [payload]) == [{"1": {"-2": "x"}}]


def test_timestamps_are_nanoseconds(decoder: MessagePackDecoder) -> None:
    payload = msgpack.packb(
        {"t": msgpack.Timestamp(1735686001, 5), "l": [msgpack.Timestamp(-1, 0)]}
    )
    assert rows(decoder, [payload]) == [{"t": 1735686001_000000005, "l": [-1_000000000]}]
    extreme = msgpack.packb({"t": msgpack.Timestamp(2**62, 0)})
    assert rows(decoder, [extreme], "t") == [{"t": str(2**62 * 10**9)}]


def test_unsigned_numbers_beyond_int64_keep_their_digits(decoder: MessagePackDecoder) -> None:
    found = decode(decoder, [msgpack.packb({"n": 2**64 - 1})], "n")
    assert found.rows.type.field("n").type == pa.string()
    assert found.rows.to_pylist() == [{"n": "18446744073709551615"}]


BAD = {
    "null": (None, "null payload"),
    "empty": (b"", "empty payload"),
    "no map": (b"\x93\x01\x02\x03", "not a messagepack map"),
    "truncated": (msgpack.packb(MESSAGE)[:-1], "invalid messagepack"),
    "trailing": (msgpack.packb({"a": 1}) + b"\x00", "bytes after the message's end, at byte 4"),
    "a key twice": (b"\x82\xa1a\x01\xa1a\x02", "a key twice"),
    "a key twice in two kinds": (b"\x82\xa11\x01\x01\x02", "a key twice"),
    "a list as key": (b"\x81\x91\x01\x01", "key is neither"),
    "a null as key": (b"\x81\xc0\x01", "key is neither"),
    "no utf-8": (b"\x81\xa1a\xa1\xff", "not UTF-8"),
    "unused byte": (b"\x81\xa1a\xc1", "invalid messagepack"),
    "a map of four billion": (b"\xdf\xff\xff\xff\xff", "invalid messagepack"),
    "a list of four billion": (b"\x81\xa1a\xdd\xff\xff\xff\xff", "invalid messagepack"),
    "bad timestamp": (b"\x81\xa1a\xc7\x0c\xff" + b"\xff" * 12, "invalid messagepack"),
    "deep": (nested(MAX_DEPTH + 1), "nested deeper"),
    "deep lists": (b"\x81\xa1a" + b"\x91" * MAX_DEPTH + b"\x01", "nested deeper"),
    "very deep": (nested(100_000), "nested deeper"),
}


@pytest.mark.parametrize(("payload", "expected"), list(BAD.values()), ids=list(BAD))
def test_what_is_no_map_is_bad(
    decoder: MessagePackDecoder, payload: bytes | None, expected: str
) -> None:
    assert expected in reason(decoder, payload)
    assert expected in reason(decoder, payload, "a")


def test_the_deepest_message_allowed_is_good(decoder: MessagePackDecoder) -> None:
    assert rows(decoder, [nested(MAX_DEPTH)], "b") == [{"b": None}]


def test_damaged_messages_are_bad_and_never_a_crash(decoder: MessagePackDecoder) -> None:
    survives(decoder, msgpack.packb({**MESSAGE, "t": msgpack.Timestamp(1, 2)}), "ts", "user.id")
