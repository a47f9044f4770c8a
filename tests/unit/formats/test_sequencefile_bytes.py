from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from secor.formats.sequencefile import SequenceFileFormat
from secor.formats.sequencefile.header import decode_header, encode_vint, sync_of
from tests.unit.formats.sequencefile_messages import (
    SEED,
    Row,
    batch,
    header,
    legacy,
    read,
    row,
    varied,
    write,
)

pytestmark = pytest.mark.usefixtures("framer")

JAVA = Path(__file__).parents[2] / "vectors" / "java-secor"
SYNC = sync_of(SEED)


def _source(partition: int) -> dict[int, Row]:
    rows = {}
    for line in (JAVA / "source" / "c_raw.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["partition"] == partition:
            key, value = (
                None if one[name] is None else bytes.fromhex(one[name]) for name in ("key", "value")
            )
            rows[one["offset"]] = row(one["offset"], value, key=key, timestamp=one["timestamp"])
    return rows


def _as_java_sees_it(one: Row) -> Row:
    """It writes a null value as empty, and leaves an empty key out."""
    return {**one, "value": one["value"] or b"", "key": one["key"] or None}


def _java_files(folder: str) -> list[Path]:
    files = sorted(path for path in (JAVA / "s3" / folder).rglob("*") if path.is_file())
    assert files
    return files


def _raw_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Give serialised keys and values of record mode, read naively."""
    kind, at = decode_header(data)
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -1:
            assert data[at + 4 : at + 20] == kind.sync
            at += 20
            continue
        (key_size,) = struct.unpack_from(">i", data, at + 4)
        key = data[at + 8 : at + 8 + key_size]
        value = data[at + 8 + key_size : at + 8 + length]
        yield key, zlib.decompress(value) if kind.codec else value
        at += 8 + length


def _partition(path: Path) -> int:
    return int(path.name.split("_")[1])


@pytest.mark.parametrize("path", _java_files("msgpack"), ids=lambda path: path.name)
def test_java_secors_messagepack_files_are_read(path: Path) -> None:
    source = _source(_partition(path))
    rows = read(path.read_bytes())
    assert rows == [_as_java_sees_it(source[one["offset"]]) for one in rows]
    assert len(rows) == 20


@pytest.mark.parametrize("path", _java_files("seq_default"), ids=lambda path: path.name)
def test_java_secors_default_files_are_read(path: Path) -> None:
    source = _source(_partition(path))
    rows = read(path.read_bytes())
    assert rows == legacy([source[one["offset"]] for one in rows])
    assert rows


@pytest.mark.parametrize("folder", ["msgpack", "seq_default"])
def test_records_are_byte_for_byte_those_of_java_secor(folder: str) -> None:
    form = SequenceFileFormat("messagepack" if folder == "msgpack" else "legacy")
    for path in _java_files(folder):
        source = _source(_partition(path))
        theirs = path.read_bytes()
        offsets = [one["offset"] for one in read(theirs)]
        ours = write(form, batch([_as_java_sees_it(source[offset]) for offset in offsets]))
        assert list(_raw_records(ours)) == list(_raw_records(theirs))


def test_the_header_is_hadoops() -> None:
    name = b"\x22org.apache.hadoop.io.BytesWritable"
    assert write(SequenceFileFormat()) == b"SEQ\x06" + name + name + b"\0\0" + bytes(4) + SYNC
    codec = b"\x27org.apache.hadoop.io.compress.GzipCodec"
    long = b"\x21org.apache.hadoop.io.LongWritable"
    compressed = write(SequenceFileFormat("legacy", "gzip"))
    assert compressed == b"SEQ\x06" + long + name + b"\1\1" + codec + bytes(4) + SYNC


def test_the_fields_of_a_messagepack_key_are_in_their_order() -> None:
    headers = [header("a", b"1"), header("a", None)]
    full = row(300, None, key=b"k", timestamp=5, timestamp_type=1, headers=headers)
    [(key, value)] = _raw_records(write(SequenceFileFormat(), batch([full])))
    fields = msgpack.unpackb(key[4:], strict_map_key=False)
    expected = {1: 300, 3: 5, 2: b"k", 4: [["a", b"1"], ["a", None]], 5: True, 6: 1}
    assert list(fields.items()) == list(expected.items())
    assert key == struct.pack(">i", len(key) - 4) + msgpack.packb(expected)
    assert value == bytes(4)


def test_absent_fields_are_left_out() -> None:
    data = write(SequenceFileFormat(), batch([row(7, b"", timestamp=None)]))
    assert list(_raw_records(data)) == [(b"\0\0\0\3\x81\x01\x07", bytes(4))]


def test_integers_have_the_shortest_form_of_messagepack() -> None:
    edges = [0, 127, 128, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
    edges += [-1, -32, -33, -128, -129, -32768, -32769, -(1 << 31), -(1 << 31) - 1, -(1 << 63)]
    rows = [row(edge, b"", timestamp=edges[-1 - at]) for at, edge in enumerate(edges)]
    for alone in (False, True):
        groups = [[one] for one in rows] if alone else [rows]
        keys = [key for group in groups for key, _ in _raw_records(write(_PLAIN, batch(group)))]
        assert [key[4:] for key in keys] == [
            msgpack.packb({1: one["offset"], 3: one["timestamp"]}) for one in rows
        ]


_PLAIN = SequenceFileFormat()


def test_sync_markers_stand_where_hadoop_would_put_them() -> None:
    rows = varied(2000)
    data = write(SequenceFileFormat(), batch(rows))
    records = list(_raw_records(data))
    expected = bytearray(write(SequenceFileFormat()))
    since = 0
    for key, value in records:
        if since >= 100 * 1024:
            expected += b"\xff\xff\xff\xff" + SYNC
            since = 0
        expected += struct.pack(">ii", len(key) + len(value), len(key)) + key + value
        since += 8 + len(key) + len(value)
    assert data == bytes(expected)
    assert data.count(SYNC) > 5


def test_blocks_are_cut_at_hadoops_size() -> None:
    rows = varied(6000)
    sizes = [
        len(key) + len(value)
        for key, value in _raw_records(write(SequenceFileFormat(), batch(rows)))
    ]
    counts, count, size = [], 0, 0
    for one in sizes:
        count, size = count + 1, size + one
        if size >= 1_000_000:
            counts.append(count)
            count = size = 0
    counts += [count] if count else []
    data = write(SequenceFileFormat(codec="snappy"), batch(rows))
    parts = data.split(b"\xff\xff\xff\xff" + SYNC)[1:]
    assert len(parts) == len(counts) > 2
    heads = [part[: len(encode_vint(count))] for part, count in zip(parts, counts, strict=True)]
    assert heads == [encode_vint(count) for count in counts]


def test_the_sync_marker_is_that_of_the_seed() -> None:
    assert sync_of(b"a") == hashlib.sha256(b"sequencefile sync\0a").digest()[:16]
    assert sync_of(b"a") != sync_of(b"b")


def test_the_bytes_of_version_1_stay_as_they_are() -> None:
    digests = {
        keys: hashlib.sha256(write(SequenceFileFormat(keys), batch(varied(500)))).hexdigest()[:16]
        for keys in ("messagepack", "legacy")
    }
    assert digests == {"messagepack": "065a29bbdc4db698", "legacy": "1e5856d0a561a01a"}
