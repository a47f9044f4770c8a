"""A format that is easy to read in tests: one line a message, buffered until it is closed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import BinaryIO

import pyarrow as pa

from secor.core.model import SCHEMA
from secor.core.ports import Sink


class PlainFormat:
    """``[offset, value in hex or null]`` as JSON, one line a message."""

    extension = ".plain"

    def __init__(self, identity: str = "plain") -> None:
        """``identity`` lets a test pretend that a setting changed."""
        self.identity = identity

    def create(self, sink: Sink, seed: bytes) -> PlainWriter:
        """Begin a file."""
        return PlainWriter(sink)

    def read(self, file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
        """Give all messages at once."""
        rows = [json.loads(line) for line in file]
        yield chunk_of([row[0] for row in rows], [bytes.fromhex(row[1]) for row in rows])


class PlainWriter:
    """Writes at close."""

    def __init__(self, sink: Sink) -> None:
        """Write to ``sink``."""
        self._sink = sink
        self._lines: list[bytes] = []

    def append(self, records: pa.RecordBatch) -> None:
        """Add lines."""
        offsets = records.column("offset").to_pylist()
        values = records.column("value").to_pylist()
        for offset, value in zip(offsets, values, strict=True):
            text = None if value is None else value.hex()
            self._lines.append(json.dumps([offset, text]).encode() + b"\n")

    def buffered(self) -> int:
        """Bytes of the lines."""
        return sum(map(len, self._lines))

    def close(self) -> None:
        """Write all of it."""
        self._sink.write(b"".join(self._lines))
        self._lines.clear()

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Nothing to free but memory."""


def chunk_of(offsets: list[int], values: list[bytes | None] | None = None) -> pa.RecordBatch:
    """Return records of ``SCHEMA``; the timestamp is a thousand times the offset."""
    rows = None if values is None else tuple(values)
    # Simulations read the same few messages in each of their thousands of worlds.
    make = _chunk_of if len(offsets) <= SMALL else _chunk_of.__wrapped__
    return make(tuple(offsets), rows)


SMALL = 16


@lru_cache(maxsize=4096)
def _chunk_of(offsets: tuple[int, ...], values: tuple[bytes | None, ...] | None) -> pa.RecordBatch:
    rows = len(offsets)
    columns: dict[str, Sequence[object]] = {
        "offset": offsets,
        "timestamp": [offset * 1000 for offset in offsets],
        "timestamp_type": [0] * rows,
        "key": [None] * rows,
        "value": [b"%d" % offset for offset in offsets] if values is None else values,
        "headers": [[] for _ in offsets],
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
