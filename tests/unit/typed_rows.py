"""Rows as a parser hands them to a typed format."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from secor.model import SCHEMA
from secor.ports import LogFormat

FIRST_TIMESTAMP = 1_700_000_000_000
HEADERS = [{"key": "h", "value": b"v"}, {"key": "h", "value": None}]


def messages(values: Sequence[bytes | None], first: int = 0) -> pa.RecordBatch:
    rows = len(values)
    columns = {
        "offset": list(range(first, first + rows)),
        "timestamp": [FIRST_TIMESTAMP + at for at in range(first, first + rows)],
        "timestamp_type": [0] * rows,
        "key": [b"key"] * rows,
        "value": list(values),
        "headers": [HEADERS] * rows,
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def with_rows(records: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    schema = pa.schema([*SCHEMA, pa.field("row", rows.type)])
    return pa.RecordBatch.from_arrays([*records.columns, rows], schema=schema)


def batch(
    rows: Sequence[Mapping[str, Any] | None] | pa.Array, first: int = 0, kind: Any = None
) -> pa.RecordBatch:
    column = rows if isinstance(rows, pa.Array) else pa.array(rows, kind)
    return with_rows(messages([b"{}"] * len(column), first), column)


def split(records: pa.RecordBatch, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    edges = [0, *sorted(min(cut, records.num_rows) for cut in cuts), records.num_rows]
    return [records.slice(a, b - a) for a, b in itertools.pairwise(edges)]


def written(log_format: LogFormat, *batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    writer = log_format.create(sink, b"topic/dt=2026-11-21/1_0_0")
    for records in batches:
        writer.append(records)
    writer.close()
    return sink.getvalue()


def read(log_format: LogFormat, data: bytes) -> pa.Table:
    return pa.Table.from_batches(list(log_format.read(io.BytesIO(data), "file")), SCHEMA)
