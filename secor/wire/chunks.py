"""Decoding of record batches into chunks, several small batches in one pass.

Several small batches are decoded in one pass: a pass costs what a few hundred messages do,
so batches of ten messages would otherwise cost more than all that is done with them later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from secor.core.errors import CorruptBatch
from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.wire import compiled
from secor.wire.batch_header import (
    CODEC,
    CONTROL,
    CRC_FOLLOWS,
    HEADER,
    Buffer,
    Headers,
    check_header,
    corrupt,
    read_headers_of,
)
from secor.wire.codecs import Undecodable, decompress
from secor.wire.record_headers import no_headers, read_headers
from secor.wire.records import BadRecord, Fields, gather, read_fields, record_ends
from secor.wire.varints import PADDING

MAX_UNCOMPRESSED = 256 << 20
PASS_BYTES = 2 << 20
"""A pass ends with the batch that reaches this: about what a core's cache holds."""
PARSED_PASS_BYTES = 4 << 20
"""The same where messages are parsed: they are divided by output partition, and each piece
costs the same however few rows it has."""
PIECE_BYTES = 4 << 20
"""A chunk has values of about so many bytes at most, or one message: parsing each takes
some time, and between them the loop tells that it is alive."""
_LARGEST_BUFFER = (1 << 31) - 1 - PARSED_PASS_BYTES - len(PADDING)
_NO_TIMESTAMP = -1

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Payloads:
    """Batches to be decoded in one pass: their headers and their records."""

    heads: Headers
    records: Sequence[bytes | memoryview]


def decode_chunks(
    topic_partition: TopicPartition,
    batches: Sequence[Buffer],
    start: int,
    *,
    next_offset: int | None = None,
    max_uncompressed: int = MAX_UNCOMPRESSED,
    pass_bytes: int = PASS_BYTES,
    check_crc: bool = True,
) -> Iterator[Chunk]:
    """Decode whole batches of format v2, in the order of the log.

    Rows below ``start`` are dropped: the first batch after a seek may begin below it.
    Control batches are passed over.  ``next_offset``, when beyond the last batch, is that of
    the last chunk; a chunk without rows tells of it where none has rows.
    ``max_uncompressed`` is in bytes of one batch, below 2 GiB; small batches are put together
    until they have ``pass_bytes``.
    Raises ``CorruptBatch`` after the chunks of what comes before it.
    """
    if not 0 <= max_uncompressed <= _LARGEST_BUFFER:
        raise ValueError(f"max_uncompressed is {max_uncompressed}, not 0 to {_LARGEST_BUFFER}")
    views = [memoryview(batch) for batch in batches]
    heads, right = read_headers_of(views)
    nexts = (heads["base_offset"] + heads["last_offset_delta"] + np.int64(1)).tolist()
    crcs, codecs = heads["crc"].tolist(), (heads["attributes"] & CODEC).tolist()
    empty = ((heads["attributes"] & CONTROL != 0) | (heads["count"] == 0)).tolist()
    waiting: list[int] = []
    payloads: list[bytes | memoryview] = []
    size, yielded, reached = 0, start, 0

    def decoded(until: int) -> Iterator[Chunk]:
        """Decode what waits."""
        chunk = _chunk(topic_partition, _Payloads(heads[waiting], payloads), start, until)
        waiting.clear()
        payloads.clear()
        return _pieces(chunk)

    for index, view in enumerate(views):
        try:
            if index >= right or (check_crc and crc32c(view[CRC_FOLLOWS:]) != crcs[index]):
                check_header(topic_partition, view, reached, check_crc=check_crc)
            reached = nexts[index]
            if empty[index] or reached <= start:
                continue
            body = view[HEADER.size :]
            records: bytes | memoryview = body
            if codecs[index] or len(body) > max_uncompressed:
                base = int(heads["base_offset"][index])
                records = _decompress(topic_partition, base, codecs[index], body, max_uncompressed)
        except CorruptBatch:
            if waiting:
                yield from decoded(nexts[waiting[-1]])
            raise
        if waiting and size + len(records) > _LARGEST_BUFFER:
            yielded, size = nexts[waiting[-1]], 0
            yield from decoded(yielded)
        waiting.append(index)
        payloads.append(records)
        size += len(records)
        if size >= pass_bytes:
            yielded, size = reached, 0
            yield from decoded(yielded)
    reached = max(reached, next_offset or 0)
    if waiting or reached > yielded:
        yield from decoded(max(reached, start))


def _pieces(chunk: Chunk) -> Iterator[Chunk]:
    """Cut a large chunk; the last piece has its ``next_offset``."""
    values = chunk.records.column("value")
    if values.nbytes < 2 * PIECE_BYTES:
        yield chunk
        return
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy()
    pieces = np.cumsum(lengths, dtype=np.int64) // PIECE_BYTES
    offsets = chunk.records.column("offset").to_numpy()
    first = 0
    for last in np.flatnonzero(np.diff(pieces)).tolist():
        rows = chunk.records.slice(first, last + 1 - first)
        yield Chunk(chunk.topic_partition, rows, int(offsets[last + 1]))
        first = last + 1
    yield Chunk(chunk.topic_partition, chunk.records.slice(first), chunk.next_offset)


def _decompress(
    topic_partition: TopicPartition, base_offset: int, codec: int, records: memoryview, most: int
) -> bytes | memoryview:
    try:
        return decompress(codec, records, most)
    except Undecodable as error:
        raise corrupt(topic_partition, base_offset, str(error)) from error


def _chunk(topic_partition: TopicPartition, payloads: _Payloads, start: int, reached: int) -> Chunk:
    if not payloads.records:
        return Chunk(topic_partition, pa.RecordBatch.from_pylist([], SCHEMA), reached)
    heads = payloads.heads
    rows = heads["count"].astype(np.int64)
    try:
        records = compiled.decode_records(payloads.records, heads)
        if records is None:
            records = _decode(payloads, rows)
    except BadRecord as error:
        which = int(np.searchsorted(np.cumsum(rows), error.row, side="right"))
        header = heads[min(which, len(heads) - 1)]
        record = error.row - int(rows[:which].sum())
        raise corrupt(
            topic_partition,
            int(header["base_offset"]),
            f"record {record} of the batch: {error.what}",
        ) from error
    offsets = records.column("offset").to_numpy()
    if offsets[0] < start:
        records = records.slice(int(offsets.searchsorted(start)))
    return Chunk(topic_partition, records, reached)


def _decode(payloads: _Payloads, rows: Int64s) -> pa.RecordBatch:
    raw = b"".join([*payloads.records, PADDING])
    data = np.frombuffer(raw, np.uint8)
    starts, ends = _bounds(raw, payloads)
    fields = read_fields(data, starts, ends)
    headers = payloads.heads
    buffer = pa.py_buffer(raw)
    types = _appended(headers).astype(np.int8)
    with_headers = fields.header_count.any()
    columns = [
        pa.array(_offsets(fields, headers, rows)),
        _timestamps(fields, headers, rows),
        pa.array(np.repeat(types, rows)),
        gather(buffer, fields.key_at, fields.key_length),
        gather(buffer, fields.value_at, fields.value_length),
        read_headers(raw, data, buffer, fields) if with_headers else no_headers(len(ends)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _bounds(raw: bytes, payloads: _Payloads) -> tuple[Int64s, Int64s]:
    at = 0
    ends: list[int] = [0]
    for records, count in zip(payloads.records, payloads.heads["count"].tolist(), strict=True):
        end = at + len(records)
        try:
            ends += record_ends(raw, at, end, count)
        except BadRecord as error:
            raise BadRecord(len(ends) - 1 + error.row, error.what) from None
        at = end
    places = np.array(ends)
    return places[:-1], places[1:]


def _offsets(fields: Fields, headers: Headers, rows: Int64s) -> Int64s:
    deltas = fields.offset_delta
    outside = (deltas < 0) | (deltas > np.repeat(headers["last_offset_delta"], rows))
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise BadRecord(row, f"offset delta {deltas[row]} is outside of the batch")
    offsets = np.repeat(headers["base_offset"].astype(np.int64), rows) + deltas
    falling = offsets[1:] <= offsets[:-1]
    if falling.any():
        row = int(np.flatnonzero(falling)[0]) + 1
        raise BadRecord(row, f"offset {offsets[row]} is not above the one before it")
    return offsets


def _appended(headers: Headers) -> npt.NDArray[np.bool_]:
    """Tell which batches have the time at which they were appended."""
    return headers["attributes"] >> 3 & 1 == 1


def _timestamps(fields: Fields, headers: Headers, rows: Int64s) -> pa.Array:
    appended = _appended(headers)
    base = headers["base_timestamp"].astype(np.int64)
    stamps = np.repeat(base, rows) + fields.timestamp_delta
    if appended.any():
        latest = headers["max_timestamp"].astype(np.int64)
        stamps = np.where(np.repeat(appended, rows), np.repeat(latest, rows), stamps)
    absent = stamps == _NO_TIMESTAMP
    return pa.array(stamps, mask=absent if absent.any() else None)
