"""Encoding of Arrow columns as record batches of format v2, for producing.

Every field is written as a vector over the records; one Arrow join puts the pieces of all
records together.  Source: Kafka's protocol guide, "Record Batch"; ``DefaultRecordBatch``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from secor.wire.batch_header import CRC_FOLLOWS, HEADER, LENGTH_FOLLOWS
from secor.wire.codecs import compress
from secor.wire.varints import Bytes, Places, varint_sizes, write_many, zigzag

NO_TIMESTAMP = -1
TRANSACTIONAL = 0x10
_MAGIC = 2
_OVERHEAD = 36
"""The most bytes of a record without its key, value and headers: five varints and a byte."""
_HEADER_OVERHEAD = 10
_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """The producer of a batch: its id and epoch, and the first record's sequence."""

    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


NOBODY = BatchProducer()


def sequence_after(base: int, records: int) -> int:
    """Return the sequence that follows ``records`` from ``base`` on; they begin again at 0."""
    return (base + records) % _SEQUENCES


def encode_batch(
    records: pa.RecordBatch, *, codec: int = 0, producer: BatchProducer = NOBODY
) -> bytes:
    """Return one record batch with all rows of ``records``, which has ``SCHEMA``.

    Offsets are 0, 1, 2, ...: the broker gives the real ones; ``offset`` and ``timestamp_type``
    are not looked at.  A null timestamp is written as -1.  Compression that gains nothing is
    left out.  Raises ``ValueError`` for no rows.
    """
    if not records.num_rows:
        raise ValueError("a record batch needs a record")
    timestamps = records.column("timestamp").fill_null(NO_TIMESTAMP).to_numpy()
    payload: bytes | pa.Buffer = encode_records(records, timestamps)
    if codec:
        smaller = compress(codec, memoryview(payload))
        codec, payload = (codec, smaller) if len(smaller) < len(payload) else (0, payload)
    size = HEADER.size + len(payload)
    header = bytearray(
        HEADER.pack(
            0,
            size - LENGTH_FOLLOWS,
            0,
            _MAGIC,
            0,
            codec | (TRANSACTIONAL if producer.transactional else 0),
            records.num_rows - 1,
            int(timestamps[0]),
            int(timestamps.max()),
            producer.producer_id,
            producer.epoch,
            producer.base_sequence,
            records.num_rows,
        )
    )
    checksum = crc32c(memoryview(payload), crc32c(bytes(header[CRC_FOLLOWS:])))
    struct.pack_into(">I", header, CRC_FOLLOWS - 4, checksum)
    return b"".join((header, payload))


def encode_records(records: pa.RecordBatch, timestamps: Places) -> pa.Buffer:
    """Return the records one after the other, as in an uncompressed batch."""
    keys, values = records.column("key"), records.column("value")
    tails = _tails(records.column("headers"))
    deltas = np.arange(records.num_rows, dtype=np.int64)
    value_lengths = _lengths(values)
    fields = [timestamps - timestamps[0], deltas, _lengths(keys)]
    numbers = [zigzag(field) for field in fields]
    sizes = [varint_sizes(field) for field in numbers]
    length_numbers = zigzag(value_lengths)
    length_sizes = varint_sizes(length_numbers)
    # The byte of attributes, the varints in front of the key, and what follows them.
    bodies = 1 + np.sum(sizes, axis=0) + np.maximum(fields[2], 0) + length_sizes
    bodies += np.maximum(value_lengths, 0)
    bodies += 1 if tails is None else _lengths(tails)
    body_numbers = zigzag(bodies)
    pieces = [
        _prefixes([body_numbers, *numbers], [varint_sizes(body_numbers), *sizes]),
        keys,
        _varints(length_numbers, length_sizes),
        values,
        pa.scalar(b"\x00", pa.binary()) if tails is None else tails,
    ]
    joined = pc.binary_join_element_wise(
        *pieces, b"", null_handling="replace", null_replacement=b""
    )
    return _content(joined)


def record_sizes(records: pa.RecordBatch) -> Places:
    """Return bytes that each row takes at most in an uncompressed batch, headers included."""
    sizes = np.maximum(_lengths(records.column("key")), 0) + _OVERHEAD
    sizes += np.maximum(_lengths(records.column("value")), 0)
    headers = records.column("headers")
    if len(headers.flatten()):
        entries = headers.flatten()
        each = _lengths(entries.field(0).cast(pa.binary())) + _HEADER_OVERHEAD
        each += np.maximum(_lengths(entries.field(1)), 0)
        before = np.concatenate([[0], np.cumsum(each)])
        offsets = headers.offsets.to_numpy() - headers.offsets[0].as_py()
        sizes += before[offsets[1:]] - before[offsets[:-1]]
    return sizes


def split_rows(
    records: pa.RecordBatch, most_bytes: int, most_records: int
) -> Iterator[pa.RecordBatch]:
    """Yield slices that are batches of at most so many bytes, uncompressed, and records.

    A row that is larger by itself is a slice of its own.
    """
    ends = np.cumsum(record_sizes(records))
    start = 0
    while start < records.num_rows:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + most_bytes - HEADER.size, side="right"))
        # One row at least, or a message that is too large would never be passed.
        until = max(start + 1, min(fitting, start + most_records))
        yield records.slice(start, until - start)
        start = until


def _lengths(column: pa.Array) -> Places:
    """Return the bytes of each element, -1 for null."""
    lengths: Places = (
        pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return lengths


def _prefixes(numbers: list[npt.NDArray[np.uint64]], sizes: list[Places]) -> pa.Array:
    """Return the bytes in front of each key: the length, a byte of attributes, which is 0,
    and the other numbers.
    """
    total: Places = np.sum(sizes, axis=0) + 1
    ends = np.cumsum(total)
    data = np.zeros(int(ends[-1]), np.uint8)
    positions = write_many(data, ends - total, numbers[0], sizes[0]) + 1
    for field, size in zip(numbers[1:], sizes[1:], strict=True):
        positions = write_many(data, positions, field, size)
    return _binary(data, ends)


def _varints(numbers: npt.NDArray[np.uint64], sizes: Places) -> pa.Array:
    ends = np.cumsum(sizes)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    write_many(data, ends - sizes, numbers, sizes)
    return _binary(data, ends)


def _binary(data: Bytes, ends: Places) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)


def _tails(headers: pa.Array) -> pa.Array | None:
    """Return count and headers of each record; None where no record has one."""
    entries = headers.flatten()
    if not len(entries):
        return None
    offsets = headers.offsets.to_numpy().astype(np.int64)
    counts = offsets[1:] - offsets[:-1]
    names, values = entries.field(0).cast(pa.binary()), entries.field(1)
    joined = pc.binary_join_element_wise(
        _varints(*_with_sizes(_lengths(names))),
        names,
        _varints(*_with_sizes(_lengths(values))),
        values,
        b"",
        null_handling="replace",
        null_replacement=b"",
    )
    # The headers of a record are neighbours: a column over the same bytes, wider elements.
    starts = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :]
    widened = np.ascontiguousarray(starts[offsets - offsets[0]])
    content = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(widened), joined.buffers()[2]]
    )
    return pc.binary_join_element_wise(_varints(*_with_sizes(counts)), content, b"")


def _with_sizes(lengths: Places) -> tuple[npt.NDArray[np.uint64], Places]:
    numbers = zigzag(lengths)
    return numbers, varint_sizes(numbers)


def _content(joined: pa.Array) -> pa.Buffer:
    """Return the bytes of all elements of a column that was made just now."""
    offsets = np.frombuffer(joined.buffers()[1], np.int32, len(joined) + 1)
    return joined.buffers()[2].slice(int(offsets[0]), int(offsets[-1]) - int(offsets[0]))
