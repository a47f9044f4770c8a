"""Chunks and results for the tests of parsing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from secor.core.model import DATA, HEADERS_TYPE, QUARANTINE, SCHEMA, Chunk, Part, TopicPartition
from secor.parsing.rows import Decoded

TP = TopicPartition("clicks", 3)


def chunk_of(
    values: Sequence[bytes | None],
    *,
    first: int = 0,
    timestamps: Sequence[int | None] | None = None,
    headers: Sequence[list[dict[str, object]] | None] | None = None,
) -> Chunk:
    count = len(values)
    columns = [
        pa.array(range(first, first + count), pa.int64()),
        pa.array([1_700_000_000_000] * count if timestamps is None else timestamps, pa.int64()),
        pa.array([0] * count, pa.int8()),
        pa.array([None] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([[]] * count if headers is None else headers, HEADERS_TYPE),
    ]
    return Chunk(TP, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), first + count)


def json_chunk(items: Iterable[object], *, first: int = 0) -> Chunk:
    return chunk_of([json.dumps(item).encode() for item in items], first=first)


def rows_of(items: Sequence[Mapping[str, object] | None]) -> Decoded:
    return Decoded(pa.array(items))


def places(parts: Iterable[Part]) -> dict[str, list[int]]:
    """Offsets by stream and output partition; the stream of data has no name."""
    found: dict[str, list[int]] = {}
    for part in parts:
        stream = "" if part.stream == DATA else f"{part.stream}:"
        offsets = part.records.column("offset").to_pylist()
        found.setdefault(stream + part.output_partition, []).extend(offsets)
    return found


def reasons(parts: Iterable[Part]) -> dict[int, str]:
    """The reason of each offset in quarantine."""
    found: dict[int, str] = {}
    for part in parts:
        if part.stream == QUARANTINE:
            for row in part.records.select(["offset", "headers"]).to_pylist():
                assert row["headers"][-1]["key"] == "secor-reason"
                found[row["offset"]] = row["headers"][-1]["value"].decode()
    return found
