"""Messages for the tests of SequenceFiles, as plain dictionaries and as columns."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from secor.core.model import SCHEMA
from secor.formats.sequencefile import SequenceFileFormat

CODECS = ("none", "gzip", "default", "snappy", "lz4", "bzip2", "zstd")
KEYS = ("messagepack", "legacy")
SEED = b"raw_logs/backup/clicks/offset=0/1_3_00000000000000012345.seq"

Row = dict[str, Any]


def row(offset: int, value: bytes | None = b"v", **others: Any) -> Row:
    """Return a message with a recent timestamp, no key and no headers, unless given."""
    plain: Row = {"timestamp": 1735689600000, "timestamp_type": 0, "key": None, "headers": []}
    return {"offset": offset, "value": value} | plain | others


def header(key: str, value: bytes | None) -> Row:
    """Return one header as Arrow gives it."""
    return {"key": key, "value": value}


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return the messages as columns."""
    return pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def write(form: SequenceFileFormat, *batches: pa.RecordBatch) -> bytes:
    """Return the file of these batches."""
    sink = io.BytesIO()
    writer = form.create(sink, SEED)
    for one in batches:
        writer.append(one)
    writer.close()
    return sink.getvalue()


def read(data: bytes) -> list[Row]:
    """Return the file's messages."""
    batches = list(SequenceFileFormat().read(io.BytesIO(data), "a.seq"))
    for one in batches:
        one.validate(full=True)
    return [row for one in batches for row in one.to_pylist()]


def varied(count: int, size: int = 200) -> list[Row]:
    """Return messages of all kinds, the same every time; some values larger than a chunk."""
    chance = random.Random(7)
    rows = []
    for index in range(count):
        value = chance.randbytes(chance.randrange(2 * size))
        if index % 101 == 50:
            value = chance.randbytes(1000) * 300
        others: Row = {"timestamp": 1735689600000 + index}
        if index % 3:
            others["key"] = chance.randbytes(chance.randrange(300))
        if index % 11 == 5:
            others["headers"] = [header("h", b"1"), header("h", None), header("é", b"")]
        if index % 13 == 7:
            others["timestamp_type"] = 1
        if index % 17 == 9:
            others["timestamp"] = None
        rows.append(row(200 + index * 3, None if index % 7 == 3 else value, **others))
    return rows


def legacy(rows: Sequence[Row]) -> list[Row]:
    """Return what remains of messages in the legacy layout."""
    lost = dict.fromkeys(("timestamp", "timestamp_type", "key", "headers"))
    return [{**lost, "offset": one["offset"], "value": one["value"] or b""} for one in rows]


def expected(keys: str, rows: Sequence[Row]) -> list[Row]:
    """Return what reading gives for rows written with a layout."""
    return list(rows) if keys == "messagepack" else legacy(rows)


LONGS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from(
        [
            sign * (1 << bits) + more
            for bits in (5, 7, 8, 15, 16, 31, 32, 62)
            for sign in (1, -1)
            for more in (-1, 0, 1)
        ]
    ),
)
VALUES = st.one_of(st.none(), st.binary(max_size=300), st.just(b"x" * 70_000))
HEADERS = st.lists(
    st.builds(header, st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3
)
ROWS = st.lists(
    st.builds(
        row,
        LONGS,
        VALUES,
        timestamp=st.none() | LONGS,
        timestamp_type=st.sampled_from([0, 0, 1]),
        key=VALUES,
        headers=st.one_of(st.just([]), HEADERS),
    ),
    max_size=12,
)
"""Messages with whatever a column can hold."""
