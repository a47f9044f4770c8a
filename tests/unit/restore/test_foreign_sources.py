"""Archives of other tools, made by hand from their documentation."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from crc32c import crc32c

from secor.adapters.local import DirectoryStore
from secor.core.errors import ArchiveIncomplete
from secor.core.model import OffsetRange
from secor.restore.model import Boundary, Piece, Silence, SourcePartition
from secor.restore.sources import foreign_files
from secor.restore.sources.aiven import AivenLayout
from secor.restore.sources.confluent import ConfluentLayout
from secor.restore.sources.foreign import ForeignLayout, ForeignSource
from secor.restore.sources.lenses import LensesLayout
from tests.fakes.reader import DirectReader

CLICKS = SourcePartition("archive", "clicks", 3)
Put = Callable[[str, bytes], None]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    store = DirectoryStore(tmp_path)

    def put(key: str, content: bytes) -> None:
        store.put(key, content, crc32c(content), {})

    return put


def source_of(tmp_path: Path, layout: ForeignLayout, *, lossy: bool = False) -> ForeignSource:
    wanted = {"clicks"}.__contains__
    return ForeignSource(
        "archive", DirectoryStore(tmp_path), "topics/", layout, wanted, lossy, DirectReader
    )


def rows(source: ForeignSource, start: int = 0) -> list[tuple[Any, ...]]:
    """Offset, timestamp, key, value, headers of all messages."""
    return [
        (
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for piece in source.pieces(CLICKS, start)
        for row in piece.records.to_pylist()
    ]


def avro(schema: Mapping[str, object] | str, content: list[Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), content)  # type: ignore[arg-type]
    return sink.getvalue()


def parquet(content: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(content, schema), sink)
    return sink.getvalue()


def lines(*content: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in content)


# ------------------------------------------------------------------ Confluent

PLACE = "topics/clicks/partition=3/clicks+3+0000000010"


def test_confluent_bytes_with_keys_and_headers_beside(tmp_path: Path, put: Put) -> None:
    put(f"{PLACE}.bin", b"first\n\nthird\n")
    put(f"{PLACE}.keys.avro", avro("bytes", [b"k1", b"\xff", b"k3"]))
    put(
        f"{PLACE}.headers.json",
        lines([{"key": "h", "value": "x"}, {"key": "h", "value": None}], [], []),
    )
    source = source_of(tmp_path, ConfluentLayout(), lossy=True)
    assert source.partitions() == [CLICKS]
    assert source.extent(CLICKS).range == OffsetRange(10, 13)
    assert rows(source) == [
        (10, None, b"k1", b"first", [("h", b"x"), ("h", None)]),
        (11, None, b"\xff", b"", []),
        (12, None, b"k3", b"third", []),
    ]
    assert [row[0] for row in rows(source, 11)] == [11, 12]


def test_confluent_json_and_avro(tmp_path: Path, put: Put) -> None:
    put(f"{PLACE}.json.gz", gzip.compress(lines({"a": "é"}, "text", None)))
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    put("topics/clicks/partition=3/clicks+3+0000000013.avro", avro(record, [{"a": 1}, {"a": 2}]))
    source = source_of(tmp_path, ConfluentLayout(), lossy=True)
    values = ['{"a":"é"}'.encode(), b"text", None, b'{"a":1}', b'{"a":2}']
    assert [row[3] for row in rows(source)] == values
    assert [row[0] for row in rows(source)] == [10, 11, 12, 13, 14]
    assert source.extent(CLICKS).range == OffsetRange(10, 15)


def test_confluent_keeps_no_times_and_that_is_said(tmp_path: Path, put: Put) -> None:
    put(f"{PLACE}.bin", b"first\n")
    with pytest.raises(ArchiveIncomplete, match=r"keeps no timestamp.*source.lossy = true"):
        rows(source_of(tmp_path, ConfluentLayout()))


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({f"{PLACE}.bin": b"a\nb\n", f"{PLACE}.keys.json": b'"k"\n'}, "have other rows"),
        ({f"{PLACE}.bin": b"a\nb"}, "does not end with source.delimiter"),
        ({f"{PLACE}.keys.json": b'"k"\n'}, "values is missing"),
        (
            {
                f"{PLACE}.bin": b"a\n",
                f"{PLACE}.keys.json": b'"k"\n',
                f"{PLACE[:-1]}1.bin": b"b\n",
            },
            "has no keys next to it",
        ),
        # A partitioner by field: both objects have messages between each other's.
        ({f"{PLACE}.bin": b"a\nb\nc\n", f"{PLACE[:-1]}1.bin": b"d\n"}, "do not overlap"),
        ({f"{PLACE}.json": b"{"}, "cannot be read"),
        ({f"{PLACE}.json.gz": b"\x1f\x8bxx"}, "cannot be read"),
        ({f"{PLACE}.avro": b"Obj\x01\x00"}, "cannot be read"),
    ],
)
def test_confluent_archives_that_are_not_whole_are_refused(
    tmp_path: Path, put: Put, files: Mapping[str, bytes], what: str
) -> None:
    for key, content in files.items():
        put(key, content)
    with pytest.raises(ArchiveIncomplete, match=what):
        rows(source_of(tmp_path, ConfluentLayout(), lossy=True))


# ---------------------------------------------------------------------- Aiven

AIVEN = pa.schema(
    [
        ("key", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("headers", pa.map_(pa.string(), pa.binary())),
        ("value", pa.binary()),
    ]
)


def aiven_row(offset: int, **changes: object) -> dict[str, Any]:
    row = {
        "key": b"\xff",
        "offset": offset,
        "timestamp": 1_700_000_000_000 + offset,
        "headers": [("h", b"x")],
        "value": b"v%d" % offset,
    }
    return {**row, **changes}


def test_aiven_parquet_of_bytes_is_exact(tmp_path: Path, put: Put) -> None:
    first = [aiven_row(10), aiven_row(12, key=None, value=None, headers=[])]
    put("topics/clicks-3-10.parquet", parquet(first, AIVEN))
    put("topics/2026/clicks-3-13", parquet([aiven_row(13, headers=None)], AIVEN))
    put("topics/clicks-4-0", parquet([aiven_row(0)], AIVEN))
    source = source_of(tmp_path, AivenLayout())
    assert [it.partition for it in source.partitions()] == [3, 4]
    assert rows(source) == [
        (10, 1_700_000_000_010, b"\xff", b"v10", [("h", b"x")]),
        (12, 1_700_000_000_012, None, None, []),
        (13, 1_700_000_000_013, b"\xff", b"v13", []),
    ]
    assert source.extent(CLICKS).range == OffsetRange(10, 14)


def test_aiven_json_lines_give_what_json_kept(tmp_path: Path, put: Put) -> None:
    message = {
        "key": "user1",
        "value": {"name": "John", "address": {"city": "London"}},
        "offset": 1232155,
        "timestamp": "2020-01-01T00:00:01Z",
        "headers": [{"key": "h", "value": "x"}],
    }
    put("topics/clicks-3-1232155.gz", gzip.compress(lines(message)))
    put("topics/clicks-3-1232156.zst", zstandard.compress(lines({**message, "offset": 1232156})))
    array = json.dumps([{**message, "offset": 1232157}]).encode()
    put("topics/clicks-3-1232157", array)
    with pytest.raises(ArchiveIncomplete, match="JSON does not say"):
        rows(source_of(tmp_path, AivenLayout()))
    value = b'{"name":"John","address":{"city":"London"}}'
    assert rows(source_of(tmp_path, AivenLayout(), lossy=True)) == [
        (offset, 1_577_836_801_000, b"user1", value, [("h", b"x")])
        for offset in (1232155, 1232156, 1232157)
    ]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ([{"value": "v"}], "rows without offset or value"),
        ([{"value": "v", "offset": 10}], "did not name key, timestamp, headers"),
        ([aiven_row(11), aiven_row(10)], "does not rise"),
        ([aiven_row(10), aiven_row(20)], "do not overlap"),
    ],
)
def test_aiven_archives_that_are_not_whole_are_refused(
    tmp_path: Path, put: Put, content: list[dict[str, Any]], what: str
) -> None:
    text = "key" not in content[0]
    put("topics/clicks-3-10", lines(*content) if text else parquet(content, AIVEN))
    put("topics/clicks-3-20", parquet([aiven_row(20)], AIVEN))
    with pytest.raises(ArchiveIncomplete, match=what):
        rows(source_of(tmp_path, AivenLayout()))


# --------------------------------------------------------------------- Lenses

ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {"name": "headers", "type": {"type": "map", "values": ["null", "bytes"]}},
        {
            "name": "metadata",
            "type": {
                "type": "record",
                "name": "Metadata",
                "fields": [
                    {"name": "timestamp", "type": "long"},
                    {"name": "topic", "type": "string"},
                    {"name": "partition", "type": "int"},
                    {"name": "offset", "type": "long"},
                ],
            },
        },
    ],
}


def envelope(offset: int, **changes: object) -> dict[str, Any]:
    metadata = {"timestamp": 1695645345 + offset, "topic": "clicks", "partition": 3}
    row = {"key": b"k", "value": b"\xff", "headers": {"h": b"x"}}
    return {**row, "metadata": {**metadata, "offset": offset}, **changes}


def test_lenses_envelopes_of_bytes_are_exact(tmp_path: Path, put: Put) -> None:
    first = [envelope(10), envelope(12, key=None, value=None, headers={})]
    put("topics/clicks/3/000000000012.avro", avro(ENVELOPE, first))
    put("topics/clicks/3/000000000013_1695_1696.avro", avro(ENVELOPE, [envelope(13)]))
    source = source_of(tmp_path, LensesLayout())
    assert source.extent(CLICKS).range == OffsetRange(10, 14)
    assert rows(source) == [
        (10, 1695645355, b"k", b"\xff", [("h", b"x")]),
        (12, 1695645357, None, None, []),
        (13, 1695645358, b"k", b"\xff", [("h", b"x")]),
    ]
    assert [row[0] for row in rows(source, 13)] == [13]


def test_lenses_json_has_bytes_in_base64(tmp_path: Path, put: Put) -> None:
    value = base64.b64encode(b"\xff").decode()
    row = envelope(7, key=None, value=value, valueIsArray=True, headers={})
    put("topics/clicks/3/7.json", lines(row))
    assert rows(source_of(tmp_path, LensesLayout())) == [(7, 1695645352, None, b"\xff", [])]
    text = envelope(8, key="k", value={"a": 1}, headers={"h": "x"})
    put("topics/clicks/3/8.json", lines(text))
    with pytest.raises(ArchiveIncomplete, match="offset 8: a converter has decoded"):
        rows(source_of(tmp_path, LensesLayout()))
    lossy = source_of(tmp_path, LensesLayout(), lossy=True)
    assert rows(lossy, 8) == [(8, 1695645353, b"k", b'{"a":1}', [("h", b"x")])]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ([{"a": 1}], "not written with store.envelope"),
        ([envelope(9, key=None, value=None, headers={})], "do not overlap"),
        ([{**envelope(12, key=None, value=None, headers={}), "metadata": {"topic": "x"}}], "read"),
    ],
)
def test_lenses_archives_that_are_not_whole_are_refused(
    tmp_path: Path, put: Put, content: list[dict[str, Any]], what: str
) -> None:
    put("topics/clicks/3/10.avro", avro(ENVELOPE, [envelope(9), envelope(10)]))
    put("topics/clicks/3/12.json", lines(*content))
    with pytest.raises(ArchiveIncomplete, match=what):
        rows(source_of(tmp_path, LensesLayout()))


# -------------------------------------------------------------------- of all


def test_each_object_is_a_transaction_and_the_end_is_told(tmp_path: Path, put: Put) -> None:
    put(f"{PLACE}.bin", b"a\nb\n")
    put(f"{PLACE[:-1]}2.bin", b"c\n")
    reader = source_of(tmp_path, ConfluentLayout(), lossy=True).open(CLICKS, 0)
    told = []
    while isinstance(piece := reader.next(1), Piece):
        told.append((piece.records.num_rows, piece.next_offset, piece.boundary))
    assert piece is Silence.EXHAUSTED
    commit = Boundary.COMMIT
    assert told == [(2, 12, None), (0, 12, commit), (1, 13, None), (0, 13, commit)]


def test_two_objects_that_claim_one_offset_are_refused(tmp_path: Path, put: Put) -> None:
    put("topics/2025/clicks-3-10", parquet([aiven_row(10)], AIVEN))
    put("topics/2026/clicks-3-10", parquet([aiven_row(10)], AIVEN))
    with pytest.raises(ArchiveIncomplete, match="claim the same offsets"):
        rows(source_of(tmp_path, AivenLayout()))


def test_an_archive_that_vanished_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveIncomplete, match="no object of it any more"):
        rows(source_of(tmp_path, AivenLayout()))


# ------------------------------------------------------------------ hostile archives

ROW = {"offset": 10, "timestamp": 1, "key": "k", "value": "v", "headers": {"h": "x"}}


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"offset":1e999,"value":1}',
        *(
            json.dumps({**ROW, **change}).encode()
            for change in (
                {"offset": 10**30},
                {"offset": -5},
                {"offset": 2},
                {"timestamp": 10**30},
                {"timestamp": True},
                {"headers": {"\ud800": "x"}},
                {"value": "\ud800"},
            )
        ),
    ],
)
def test_a_row_that_cannot_be_a_message_names_its_object(
    tmp_path: Path, put: Put, line: bytes
) -> None:
    put("topics/clicks-3-0000000010.json", line + b"\n")
    source = source_of(tmp_path, AivenLayout(), lossy=True)
    with pytest.raises(ArchiveIncomplete, match=r"topics/clicks-3-0000000010\.json"):
        rows(source)
    with suppress(ArchiveIncomplete):
        source.extent(CLICKS)


def test_an_avro_file_whose_schema_is_damaged_names_itself(tmp_path: Path, put: Put) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    damaged = avro(schema, [{"a": 1}]).replace(b'"name": "a"', b'"nume": "a"')
    put("topics/clicks-3-0000000010", damaged)
    with pytest.raises(ArchiveIncomplete, match="cannot be read"):
        rows(source_of(tmp_path, AivenLayout(), lossy=True))


@pytest.mark.parametrize(
    ("layout", "key"),
    [
        (AivenLayout(), "topics/clicks-3-0000000010.gz"),
        (ConfluentLayout(), f"{PLACE}.bin.gz"),
    ],
)
def test_few_bytes_that_unpack_to_many_are_refused_before_they_fill_the_memory(
    tmp_path: Path, put: Put, monkeypatch: pytest.MonkeyPatch, layout: ForeignLayout, key: str
) -> None:
    monkeypatch.setattr(foreign_files, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(foreign_files, "LARGEST", 1 << 20)
    put(key, gzip.compress(b"x" * (64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveIncomplete, match="more than 1,048,576 bytes"):
            rows(source_of(tmp_path, layout, lossy=True))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_an_avro_file_whose_counts_lie_is_an_error_that_names_it(tmp_path: Path, put: Put) -> None:
    """The library would read an array of nothing until the memory is full."""
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "many", "type": {"type": "array", "items": "null"}}],
    }
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"many": [None]}])
    put(f"{PLACE}.avro", file.getvalue())
    with pytest.raises(ArchiveIncomplete, match=r"\.avro: it cannot be read .*any number"):
        rows(source_of(tmp_path, ConfluentLayout(), lossy=True))


def test_an_array_of_many_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_files, "LARGEST", 1000)
    file = io.BytesIO(gzip.compress(b"[\n" + b"0,\n" * 10_000 + b"0]"))
    with pytest.raises(ValueError, match="an array of more than 1,000 bytes"):
        list(foreign_files.rows_of(file, array=True))
