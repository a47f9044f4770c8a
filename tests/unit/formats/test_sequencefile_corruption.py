from __future__ import annotations

import io
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.errors import CorruptFile
from secor.formats.sequencefile import SequenceFileFormat, codecs
from secor.formats.sequencefile.codecs import CODECS as IMPLEMENTATIONS
from secor.formats.sequencefile.codecs import codec_of_class
from secor.formats.sequencefile.header import encode_vint, sync_of
from tests.unit.formats.sequencefile_messages import (
    CODECS,
    SEED,
    Row,
    batch,
    header,
    read,
    row,
    write,
)

MARKER = b"\xff\xff\xff\xff" + sync_of(SEED)

ROWS = [
    row(5, b"one", key=b"k"),
    row(6, None, headers=[header("h", b"1")]),
    row(300, b"three" * 30, timestamp=None, timestamp_type=1),
]


def _read_or_fail(data: bytes) -> list[Row] | None:
    """Return what is read, None where the file is called corrupt; anything else is a defect."""
    try:
        return read(data)
    except CorruptFile as error:
        complaint = str(error)
    assert complaint.startswith("a.seq: at byte ")
    return None


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_anywhere_is_seen_or_falls_between_records(codec: Any) -> None:
    data = write(SequenceFileFormat(codec=codec), batch(ROWS))
    results = [_read_or_fail(data[:size]) for size in range(len(data))]
    whole = [result for result in results if result is not None]
    assert all(result == ROWS[: len(result)] for result in whole)
    assert len(whole) == (3 if codec == "none" else 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", ["messagepack", "legacy"])
def test_no_changed_byte_makes_another_error(keys: Any, codec: Any) -> None:
    data = write(SequenceFileFormat(keys, codec), batch(ROWS))
    seen = 0
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= (0x01, 0x80, 0xFF)[at % 3]
        seen += _read_or_fail(bytes(changed)) is None
    assert seen > len(data) / 3  # values without compression have no check


@given(st.binary(max_size=60), st.sampled_from(CODECS))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_garbage_after_a_header_is_never_another_error(garbage: bytes, codec: Any) -> None:
    head = write(SequenceFileFormat(codec=codec))
    _read_or_fail(head + garbage)
    _read_or_fail(head + MARKER + garbage)


@given(st.binary(max_size=40))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_a_key_of_garbage_is_never_another_error(key: bytes) -> None:
    for start in (b"", b"\x82\x01", b"\x82\x01\x05\x02", b"\x82\x01\x05\x04"):
        _read_or_fail(_file_with_key(start + key))


def _file_with_key(key: bytes, value: bytes = bytes(4)) -> bytes:
    raw = struct.pack(">i", len(key)) + key
    record = struct.pack(">ii", len(raw) + len(value), len(raw)) + raw + value
    return write(SequenceFileFormat()) + record


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({3: 5}, "no map of the fields"),
        ({3: 5, 2: b"k"}, "no map of the fields"),
        ({1: 5, 7: 1}, "no map of the fields"),
        ({1: "5"}, "no 64-bit integer"),
        ({1: True}, "no 64-bit integer"),
        ({1: (1 << 64) - 1}, "no 64-bit integer"),
        ({1: 5, 2: "text"}, "no binary"),
        ({1: 5, 4: [["h"]]}, "no header"),
        ({1: 5, 4: [[b"h", b""]]}, "no header"),
        ({1: 5, 4: 1}, "no array"),
        ({1: 5, 6: 2}, "not one of"),
        ({1: 5, 6: True}, "not one of"),
        ({1: 5, 5: 1}, "not one of"),
        ([1, 5], "no map of the fields"),
    ],
)
def test_a_key_of_other_fields_is_named(fields: Any, complaint: str) -> None:
    data = _file_with_key(msgpack.packb(fields))
    place = len(write(SequenceFileFormat()))
    with pytest.raises(CorruptFile, match=f"a.seq: at byte {place}: .*{complaint}"):
        read(data)


@pytest.mark.parametrize(
    "fields",
    [
        {2: b"k", 1: 5, 3: 1735689600000},
        {1: 5, 3: 1735689600000, 2: b"k", 6: 0, 5: False, 4: []},
    ],
)
def test_fields_in_any_order_and_of_any_form_are_read(fields: Any) -> None:
    data = _file_with_key(msgpack.packb(fields), struct.pack(">i", 1) + b"v")
    assert read(data) == [row(5, b"v", key=b"k")]


def test_a_null_value_that_has_bytes_is_refused() -> None:
    data = _file_with_key(msgpack.packb({1: 5, 5: True}), struct.pack(">i", 1) + b"v")
    with pytest.raises(CorruptFile, match="a null value of more than 0 bytes"):
        read(data)


@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x40000001, -2, 3])
def test_a_record_length_that_lies_is_refused(length: int) -> None:
    data = write(SequenceFileFormat()) + struct.pack(">ii", length, 4) + bytes(100)
    with pytest.raises(CorruptFile, match="at byte"):
        read(data)


def test_a_foreign_sync_marker_is_refused() -> None:
    for codec in ("none", "gzip"):
        form = SequenceFileFormat(codec=codec)
        data = write(form) + b"\xff\xff\xff\xff" + b"s" * 16
        with pytest.raises(CorruptFile, match="a sync marker that is not the file's"):
            read(data)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_block_that_expands_beyond_what_it_says_is_refused(codec: Any) -> None:
    bomb = IMPLEMENTATIONS[codec].compress(bytes(50_000_000))
    parts = [MARKER, b"\x01"] + 4 * [encode_vint(len(bomb)), bomb]
    data = write(SequenceFileFormat(codec=codec)) + b"".join(parts)
    with pytest.raises(CorruptFile, match=r"a block that cannot be read: .*5 bytes"):
        read(data)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_codec_makes_no_more_than_its_limit(codec: str) -> None:
    implementation = IMPLEMENTATIONS[codec]
    packed = implementation.compress(b"a" * 1_000_000)
    assert implementation.expand(packed, 1_000_000) == b"a" * 1_000_000
    with pytest.raises(ValueError, match="more than 999999 bytes"):
        implementation.expand(packed, 999_999)


def test_gzip_in_several_members_is_read() -> None:
    codec = IMPLEMENTATIONS["gzip"]
    assert codec.expand(codec.compress(b"a") + codec.compress(b"b"), 10) == b"ab"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ((b"SEQ\x06", b"SEQ\x05"), "version 5"),
        ((b"SEQ\x06", b"PAR1"), "it begins with b'PAR'"),
        ((b"io.LongWritable", b"io.XongWritable"), "keys are org.apache.hadoop.io.XongWritable"),
        ((b"io.BytesWritable", b"io.XytesWritable"), "values are org"),
        ((b"GzipCodec", b"LzopCodec"), "compressed by org.apache.hadoop.io.compress.LzopCodec"),
        ((b"\1\1", b"\0\1"), "blocks without compression"),
        ((b"\1\1", b"\2\1"), "is no boolean"),
    ],
)
def test_a_header_that_is_not_ours_to_read_is_named(
    change: tuple[bytes, bytes], complaint: str
) -> None:
    data = write(SequenceFileFormat("legacy", "gzip"))
    with pytest.raises(CorruptFile, match=f"a.seq: at byte 0: .*{complaint}"):
        read(data.replace(*change))


def test_metadata_in_the_header_is_passed_over() -> None:
    data = write(SequenceFileFormat(), batch(ROWS))
    pair = struct.pack(">i", 1) + b"\x04name\x05value"
    at = data.index(bytes(4) + sync_of(SEED))
    assert read(data[:at] + pair + data[at + 4 :]) == ROWS


def test_a_file_that_answers_in_small_pieces_is_read() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size or 7))

    data = write(SequenceFileFormat(), batch(ROWS))
    batches = SequenceFileFormat().read(Trickle(data), "a.seq")
    assert [one for part in batches for one in part.to_pylist()] == ROWS


def test_a_codec_is_found_by_its_java_class() -> None:
    package = "org.apache.hadoop.io.compress."
    assert codec_of_class(package + "DeflateCodec") is IMPLEMENTATIONS["default"]
    for codec in IMPLEMENTATIONS.values():
        assert codec_of_class(codec.java_class) is codec


@pytest.mark.parametrize("name", ["gzip", "default"])
def test_without_isal_the_standard_library_reads_and_writes_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    codec = IMPLEMENTATIONS[name]
    before = codec.compress(b"a" * 1000)
    monkeypatch.setattr(codecs, "ISAL", False)
    assert codec.expand(before, 1000) == b"a" * 1000
    after = codec.compress(b"a" * 1000)
    with pytest.raises(ValueError, match="cut short"):
        codec.expand(after[:-1], 1000)
    monkeypatch.undo()
    assert codec.expand(after, 1000) == b"a" * 1000


def test_a_header_whose_name_is_no_text_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="no MessagePack"):
        read(_file_with_key(b"\x82\x01\x05\x04\x91\x92\xa1\xff\xc0"))
    assert read(_file_with_key(b"\x82\x01\x05\x04\x91\x92\xa1h\xc0"))[0]["headers"] == [
        header("h", None)
    ]
