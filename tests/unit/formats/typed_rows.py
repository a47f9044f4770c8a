"""Rows as a parser hands them to a typed format."""

from __future__ import annotations

import io
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from secor.core.model import SCHEMA
from secor.core.ports import LogFormat
from secor.parsing.decoders.json import JsonDecoder
from secor.schema.schema import RowSchema

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


def fitting(log_format: LogFormat, *batches: pa.RecordBatch) -> LogFormat:
    """Return the format with a schema for these rows, where it needs one and has none."""
    schema = getattr(log_format, "schema", None)
    if schema is None or schema.declared or log_format.extension.startswith(".json"):
        return log_format
    schema, _ = RowSchema.infer([records.column("row") for records in batches], "drop")
    return with_schema(log_format, schema)


def with_schema(log_format: LogFormat, schema: RowSchema) -> LogFormat:
    return cast("LogFormat", replace(cast("Any", log_format), schema=schema))


def written(log_format: LogFormat, *batches: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    if batches:
        log_format = fitting(log_format, *batches)
    writer = log_format.create(sink, b"topic/dt=2026-11-21/1_0_0")
    for records in batches:
        writer.append(records)
    writer.close()
    return sink.getvalue()


def read(log_format: LogFormat, data: bytes) -> pa.Table:
    return pa.Table.from_batches(list(log_format.read(io.BytesIO(data), "file")), SCHEMA)


def decoded(values: list[bytes], first: int = 0) -> pa.RecordBatch:
    records = messages(values, first)
    found = JsonDecoder().decode(records, None)
    assert not found.bad
    return with_rows(records, found.rows)


def _value(chance: random.Random, depth: int = 0) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: chance.choice([0, 1, -5, 1 << 40]),
        lambda: chance.choice([1.0, 1.5, -0.0, 1e16, 1e300]),
        lambda: chance.choice(["a", "ü\n", "5", "", "2026-01-01"]),
        lambda: chance.random() < 0.5,
        lambda: None,
        lambda: 1 << 70,
    ]
    if depth < 2:
        kinds.append(lambda: [_value(chance, depth + 1) for _ in range(chance.randrange(3))])
        kinds.append(
            lambda: {
                chance.choice("xyz"): _value(chance, depth + 1) for _ in range(chance.randrange(3))
            }
        )
    return chance.choice(kinds)()


def wild_messages(chance: random.Random) -> list[bytes]:
    """Return JSON objects that agree in most fields, and now and then in none."""
    usual = {field: _value(chance) for field in "abcde"}
    wild = chance.choice("abcde")
    return [
        json.dumps(
            {
                field: _value(chance) if field == wild and chance.random() < 0.2 else value
                for field, value in usual.items()
                if chance.random() < 0.8
            }
        ).encode()
        for _ in range(chance.randrange(1, 30))
    ]
