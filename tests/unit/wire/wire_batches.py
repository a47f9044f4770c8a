"""Record batches for tests: made by the client's own builder, or byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import lz4.frame
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from secor.core.model import Chunk, TopicPartition

CLICKS = TopicPartition("clicks", 3)
HEADER_SIZE = 61


@dataclass(frozen=True)
class Message:
    delta: int
    timestamp: int = 1_700_000_000_000
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, bytes | None], ...] = ()


def batch_of(
    messages: Sequence[Message],
    *,
    base: int = 0,
    codec: int = 0,
    transactional: bool = False,
    log_append: int | None = None,
    last_delta: int | None = None,
) -> bytes:
    """Build with the client, then set what only a broker sets."""
    builder = DefaultRecordBatchBuilder(
        2,
        codec,
        transactional,
        7 if transactional else -1,
        0 if transactional else -1,
        0 if transactional else -1,
        1 << 30,
    )
    for message in messages:
        builder.append(
            message.delta, message.timestamp, message.key, message.value, list(message.headers)
        )
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, base)
    if log_append is not None:
        struct.pack_into(">h", batch, 21, struct.unpack_from(">h", batch, 21)[0] | 8)
        struct.pack_into(">q", batch, 35, log_append)
    if last_delta is not None:
        struct.pack_into(">i", batch, 23, last_delta)
    return sealed(batch)


def sealed(batch: bytes | bytearray) -> bytes:
    """Set the length and the checksum to what the bytes give."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def with_payload(
    batch: bytes, payload: bytes, *, codec: int = 0, count: int | None = None
) -> bytes:
    """Put other bytes in the place of the records."""
    changed = bytearray(batch[:HEADER_SIZE] + payload)
    struct.pack_into(">h", changed, 21, codec)
    if count is not None:
        struct.pack_into(">i", changed, 57, count)
    return sealed(changed)


def lz4_of_java(payload: bytes) -> bytes:
    """Compress as the Java client does: independent blocks, no content size."""
    return bytes(lz4.frame.compress(payload, block_linked=False, store_size=False))


def as_the_client_reads(batches: Iterable[bytes]) -> list[tuple[Any, ...]]:
    rows = []
    for batch in batches:
        for record in DefaultRecordBatch(batch):
            timestamp = None if record.timestamp == -1 else record.timestamp
            headers = [(name, value) for name, value in record.headers]
            rows.append(
                (
                    record.offset,
                    timestamp,
                    record.timestamp_type,
                    record.key,
                    record.value,
                    headers,
                )
            )
    return rows


def rows_of(chunks: Iterable[Chunk]) -> list[tuple[Any, ...]]:
    rows = []
    for chunk in chunks:
        chunk.records.validate(full=True)
        for row in chunk.records.to_pylist():
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            rows.append((*list(row.values())[:5], headers))
    return rows
