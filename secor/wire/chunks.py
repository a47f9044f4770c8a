"""Decoding of record batches into chunks, several small batches in one pass.

Several small batches are decoded in one pass: a pass costs what a few hundred messages do,
so batches of ten messages would otherwise cost more than all that is done with them later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from secor.core.model import SCHEMA, Chunk, TopicPartition
from secor.wire import compiled
from secor.wire.batch_header import CRC_FOLLOWS, Buffer, Headers, check_header, corrupt
from secor.wire.batch_run import BatchRun, Int64s, join_batches
from secor.wire.passes import LARGEST_BUFFER, PASS_BYTES, Pass, Passes
from secor.wire.record_headers import no_headers, read_headers
from secor.wire.records import BadRecord, Fields, gather, read_fields, record_ends
from secor.wire.varints import PADDING

Header = tuple[str, bytes | None]
Row = tuple[int, int | None, int | None, bytes | None, bytes | None, Sequence[Header]]
"""Offset, timestamp (ms), timestamp type, key, value, headers."""


def records_to_chunk(
    topic_partition: TopicPartition, records: Iterable[Row], next_offset: int
) -> Chunk:
    """Return the records, which are in order of their offsets, as a chunk.

    A timestamp of -1 (the wire's word for none) becomes null, and so does its type when it
    is none of 0 and 1.  Raises ``ValueError`` when offsets do not rise or reach
    ``next_offset``.
    """
    rows = [
        {
            "offset": offset,
            "timestamp": None if timestamp == -1 else timestamp,
            "timestamp_type": timestamp_type if timestamp_type in (0, 1) else None,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": content} for name, content in headers],
        }
        for offset, timestamp, timestamp_type, key, value, headers in records
    ]
    columns = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    offsets = [*columns.column("offset").to_pylist(), next_offset]
    if any(after <= before for before, after in pairwise(offsets)):
        raise ValueError(f"{topic_partition}: offsets do not rise up to {next_offset}")
    return Chunk(topic_partition, columns, next_offset)


MAX_UNCOMPRESSED = 256 << 20
PIECE_BYTES = 4 << 20
"""A chunk has values of about so many bytes at most, or one message: parsing each takes
some time, and between them the loop reports that it is alive."""
_NO_TIMESTAMP = -1


def decode_chunks(
    topic_partition: TopicPartition,
    batches: BatchRun | Sequence[Buffer],
    start: int,
    *,
    next_offset: int | None = None,
    max_uncompressed: int = MAX_UNCOMPRESSED,
    pass_bytes: int = PASS_BYTES,
    check_crc: bool = True,
    leader_epoch: int | None = None,
) -> Iterator[Chunk]:
    """Decode whole batches of format v2, in the order of the log.

    Rows below ``start`` are dropped: the first batch after a seek may begin below it.
    Control batches are passed over.  ``next_offset``, when beyond the last batch, is that of
    the last chunk; a chunk without rows carries it where none has rows.  ``leader_epoch`` is
    that of the batch before ``next_offset``, where it is none of ``batches``.
    ``max_uncompressed`` is in bytes of one batch, below 2 GiB; small batches are put together
    until they have ``pass_bytes``.
    Raises ``CorruptBatch`` after the chunks of what comes before it.
    """
    if not 0 <= max_uncompressed <= LARGEST_BUFFER:
        raise ValueError(f"max_uncompressed is {max_uncompressed}, not 0 to {LARGEST_BUFFER}")
    run = batches if isinstance(batches, BatchRun) else join_batches(batches)
    right, nexts = _count_right(run, check_crc=check_crc), run.nexts
    whole = right == len(run)
    holds_messages = ~run.control & (run.heads["count"] > 0) & (nexts > start)
    wanted = np.flatnonzero(holds_messages[:right])
    last = int(wanted[-1]) if len(wanted) else -1
    reached = int(nexts[right - 1]) if right else 0
    end = max(reached, next_offset or 0, start)
    for part in Passes(topic_partition, run, wanted, max_uncompressed, pass_bytes):
        ends = whole and part.last == last
        until = end if ends else int(nexts[part.last])
        # What lies behind the last batch with messages may be of a later leader.
        newest = right - 1 if ends else part.last
        epoch = _known(int(run.heads["leader_epoch"][newest]))
        if ends and leader_epoch is not None:
            epoch = _known(leader_epoch)
        yield from _pieces(_chunk(topic_partition, part, start, until, epoch))
    if not whole:
        # Only now, after the good ones were given: it says what is wrong with the first bad one.
        check_header(topic_partition, run.batch(right), reached, check_crc=check_crc)
        raise corrupt(topic_partition, reached, "the batch is wrong")
    if last < 0 and end > start:
        yield Chunk(topic_partition, _no_records(), end, leader_epoch=_known(leader_epoch))


def _known(leader_epoch: int | None) -> int | None:
    return None if leader_epoch is None or leader_epoch < 0 else leader_epoch


def _no_records() -> pa.RecordBatch:
    # RecordBatch.from_pylist would import pandas where that is installed.
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in SCHEMA], schema=SCHEMA)


def _count_right(run: BatchRun, *, check_crc: bool) -> int:
    """Return how many of the first batches are right, as far as is known before decoding."""
    right = run.right
    crcs = run.heads["crc"].tolist() if check_crc else []
    for index, crc in enumerate(crcs[:right]):
        if crc32c(run.batch(index)[CRC_FOLLOWS:]) != crc:
            return index
    return right


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
        yield replace(chunk, records=rows, next_offset=int(offsets[last + 1]))
        first = last + 1
    yield replace(chunk, records=chunk.records.slice(first))


def _chunk(
    topic_partition: TopicPartition, part: Pass, start: int, reached: int, epoch: int | None
) -> Chunk:
    heads = part.heads
    rows = heads["count"].astype(np.int64)
    try:
        records = compiled.decode_records(part.buffers, part.spans, heads)
        if records is None:
            records = _decode(part, rows)
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
    return Chunk(topic_partition, records, reached, leader_epoch=epoch)


def _decode(part: Pass, rows: Int64s) -> pa.RecordBatch:
    views = [memoryview(buffer) for buffer in part.buffers]
    records = [views[buffer][begin:end] for buffer, begin, end in part.spans.tolist()]
    raw = b"".join([*records, PADDING])
    data = np.frombuffer(raw, np.uint8)
    headers = part.heads
    starts, ends = _bounds(raw, records, headers["count"].tolist())
    fields = read_fields(data, starts, ends)
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


def _bounds(
    raw: bytes, batches: Sequence[memoryview], counts: Sequence[int]
) -> tuple[Int64s, Int64s]:
    position = 0
    ends: list[int] = [0]
    for records, count in zip(batches, counts, strict=True):
        end = position + len(records)
        try:
            ends += record_ends(raw, position, end, count)
        except BadRecord as error:
            raise BadRecord(len(ends) - 1 + error.row, error.what) from None
        position = end
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
    """Return which batches have the time at which they were appended."""
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
