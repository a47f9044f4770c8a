"""Frames of Confluent's, Apicurio's and AWS Glue's serialisers, in headers too."""

from __future__ import annotations

import random
import struct
import zlib
from uuid import UUID

import pytest

from secor.parsing.decoders.frames import Frames, read_frames
from secor.parsing.decoders.framing import (
    FRAMINGS,
    ApicurioFraming,
    ConfluentFraming,
    GlueFraming,
    RegistryFraming,
    SchemaName,
)
from secor.parsing.registry import ApicurioId
from tests.unit.parsing.decoder_cases import batch
from tests.unit.parsing.test_decoder_json_framed import with_headers

GUID = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")


def named(frames: Frames) -> list[SchemaName | None]:
    return [frames.names[code] if code >= 0 else None for code in frames.codes]


def apicurio_reference(name: str) -> bytes:
    text = name.encode()
    return bytes([len(text) + 2, 0x0A, len(text)]) + text


def glue(payload: bytes, compressed: bool = False) -> bytes:
    head = bytes([3, 5 if compressed else 0]) + GUID.bytes
    return head + (zlib.compress(payload) if compressed else payload)


def test_apicurios_ids_have_four_bytes_or_eight_and_the_default_of_their_version() -> None:
    values = [struct.pack(">BI", 0, 7) + b"{}", struct.pack(">BQ", 0, 7) + b"[]", None, b""]
    frames = read_frames(batch(values), ApicurioFraming())
    content, world = ApicurioId("contentId", 7), ApicurioId("globalId", 7)
    assert named(frames) == [SchemaName(content), SchemaName(world), None, None]
    assert frames.payloads.to_pylist() == [b"{}", b"[]", None, b""]
    assert frames.bad == {3: "empty payload"}
    frames = read_frames(batch(values), ApicurioFraming(use_id="globalId"))
    assert named(frames)[:2] == [SchemaName(world)] * 2
    assert str(SchemaName(world)) == "schema globalId 7"


def test_apicurios_ids_are_in_headers_too() -> None:
    header = ("apicurio.value.globalId", struct.pack(">q", 7))
    headers = [[header], [("apicurio.value.contentId", b"x")], [("apicurio.key.globalId", b"")]]
    frames = read_frames(with_headers([b"{}", b"{}", b"{}"], headers), ApicurioFraming())
    assert named(frames) == [SchemaName(ApicurioId("globalId", 7)), None, None]
    assert frames.payloads.to_pylist()[0] == b"{}"
    assert frames.bad == {
        1: "header apicurio.value.contentId: 1 bytes, not an id of 8",
        2: "magic byte 123, not 0",
    }


def test_apicurios_serialiser_of_protobuf_names_the_type_in_front_of_the_message() -> None:
    value = struct.pack(">BI", 0, 7) + apicurio_reference("Order") + b"\x08\x01"
    in_header = apicurio_reference("Order") + b"\x08\x02"
    header = ("apicurio.value.contentId", struct.pack(">q", 7))
    messages = with_headers([value, in_header, b"\x08\x02"], [[], [header], [header]])
    frames = read_frames(messages, ApicurioFraming(indexed=True))
    order = SchemaName(ApicurioId("contentId", 7), "Order")
    assert named(frames) == [order, order, None]
    assert frames.payloads.to_pylist()[:2] == [b"\x08\x01", b"\x08\x02"]
    assert frames.bad == {2: "no reference to the message's type in front of it"}


def test_glues_payloads_are_plain_or_compressed() -> None:
    values = [glue(b"{}"), glue(b"[1]", compressed=True), None, glue(b"x")]
    frames = read_frames(batch(values), GlueFraming())
    schema = SchemaName(str(GUID))
    assert named(frames) == [schema, schema, None, schema]
    assert frames.payloads.to_pylist() == [b"{}", b"[1]", None, b"x"]
    assert frames.bad == {}


def test_glues_frame_has_the_position_of_a_protobuf_type() -> None:
    values = [glue(b"\x00ab"), glue(b"\x00cd", compressed=True), glue(b"\x80\x01ef")]
    frames = read_frames(batch(values), GlueFraming(indexed=True))
    assert [name.message_type for name in named(frames) if name] == [0, 0, 128]
    assert frames.payloads.to_pylist() == [b"ab", b"cd", b"ef"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x03\x00abc", "5 bytes: shorter than magic, compression and GUID"),
        (b"\x00\x00\x00\x00\x01{}", "magic byte 0, not 3"),
        (b"\x03\x07" + GUID.bytes, "compression 7, not 0 or 5"),
        (b"\x03\x05" + GUID.bytes + b"abc", "invalid zlib: "),
        (glue(b"x" * 99, compressed=True)[:-3], "zlib: truncated"),
        (glue(b"x", compressed=True) + b"y", "or followed"),
        (glue(b"x" * 10_000_000, compressed=True), "longer than 9"),
    ],
)
def test_frames_that_are_not_glues_are_bad(value: bytes, expected: str) -> None:
    frames = read_frames(batch([value, glue(b"{}")]), GlueFraming())
    assert expected in frames.bad[0]
    assert named(frames) == [None, SchemaName(str(GUID))]


def test_a_schema_in_headers_asks_for_no_other_schema() -> None:
    messages = with_headers([b"\0\0\0\0\1x"], [[("__value_schema_id", b"\0\0\0\0\5")]])
    assert read_frames(messages, ConfluentFraming()).names == [SchemaName(5)]


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("framing", FRAMINGS.values())
def test_any_bytes_are_read_alike_alone_and_among_others(
    framing: type[RegistryFraming], indexed: bool
) -> None:
    rng = random.Random(f"{framing}{indexed}")
    starts = [b"", b"\0", b"\1", b"\3\0", b"\3\5", b"\0\0\0\0", b"\0\0\0\0\0\0\0\0"]
    values: list[bytes | None] = [
        rng.choice(starts) + rng.randbytes(rng.randrange(30)) for _ in range(500)
    ]
    values += [glue(b"\1{}", compressed=bool(n % 2)) for n in range(20)] + [None]
    reader = framing(indexed)
    frames = read_frames(batch(values), reader)
    for row, value in enumerate(values):
        alone = read_frames(batch([value]), reader)
        assert named(alone)[0] == named(frames)[row]
        assert alone.bad.get(0) == frames.bad.get(row)
        if not alone.bad:
            assert alone.payloads[0] == frames.payloads[row]
