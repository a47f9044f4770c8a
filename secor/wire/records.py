"""Decoding of records inside a decompressed batch: places of keys, values, headers as vectors.

A record is: length, attributes (a byte, unused), timestamp delta, offset delta, key length,
key, value length, value, count of headers, headers.  Lengths, deltas and counts are zigzag
varints; a negative length is a null.  Source: Kafka's ``DefaultRecord``.

One short Python loop finds where the records begin.  After it every field is a vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.wire.varints import (
    VARINT,
    VARLONG,
    Bytes,
    Numbers,
    Overlong,
    Places,
    read_many,
    read_one,
    windows,
)

SHORTEST = 7
"""Bytes of a record without key, value and headers."""

Truths = npt.NDArray[np.bool_]


class BadRecord(Exception):
    """Record number ``row`` of the buffer cannot be decoded; says what is wrong with it."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row
        self.what = what


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of the records of one buffer; one element a record, places in bytes.

    ``key_length`` and ``value_length`` are negative for null.
    """

    timestamp_delta: Numbers
    offset_delta: Numbers
    key_at: Places
    key_length: Numbers
    value_at: Places
    value_length: Numbers
    headers_at: Places
    header_count: Numbers
    end: Places


def record_ends(data: bytes, position: int, end: int, count: int) -> list[int]:
    """Return the places behind each of ``count`` records; the first begins at ``position``.

    Nothing is judged here but what would stop the walk: ``read_fields`` compares each
    record's length with these places.  Raises ``BadRecord``, its row counted from here.
    """
    if count * SHORTEST > end - position:
        raise BadRecord(0, f"the batch says it has {count} records in {end - position} bytes")
    ends = [0] * count
    row = 0
    try:
        for row in range(count):
            low = data[position]
            if low < 0x80:
                position += 1 + (low >> 1)
            elif (high := data[position + 1]) < 0x80:
                position += (low >> 1) + (high << 6) - 62
            else:
                length, position = read_one(data, position)
                position += length
            ends[row] = position
    except (IndexError, Overlong):
        raise BadRecord(row, "a record's length leads out of the batch") from None
    if position != end:
        raise BadRecord(row, f"the records end {end - position} bytes off the batch")
    return ends


def read_fields(data: Bytes, starts: Places, ends: Places) -> Fields:
    """Read the bytes between ``starts`` (at the length) and ``ends`` of each record.

    ``data`` has ``PADDING`` behind the last end.  Every place in the answer is inside its
    record.  Raises ``BadRecord``.
    """
    fours = windows(data)

    def varint(positions: Places, most: int = VARINT) -> tuple[Numbers, Places]:
        try:
            return read_many(data, fours, positions, most)
        except Overlong as error:
            raise BadRecord(error.place, "a number has too many bytes") from None

    length, body = varint(starts)
    _must(body + length == ends, "the record's length leads elsewhere than the one before")
    # A short record is read into the next one, or the padding, and refused by what follows.
    timestamp_delta, positions = varint(body + 1, VARLONG)
    offset_delta, positions = varint(positions)
    key_length, key_at = varint(positions)
    positions = key_at + np.maximum(key_length, 0)
    _must(positions < ends, "the key is longer than the record")
    value_length, value_at = varint(positions)
    positions = value_at + np.maximum(value_length, 0)
    _must(positions < ends, "the value is longer than the record")
    header_count, headers_at = varint(positions)
    _must(
        (headers_at == ends) if not header_count.any() else _room(header_count, headers_at, ends),
        "the headers do not fit the record",
    )
    return Fields(
        timestamp_delta,
        offset_delta,
        key_at,
        key_length,
        value_at,
        value_length,
        headers_at,
        header_count,
        ends,
    )


def _room(count: Numbers, positions: Places, ends: Places) -> Truths:
    room = ends - positions
    return np.where(count == 0, room == 0, (count > 0) & (count.astype(np.int64) * 2 <= room))


def _must(truths: Truths, what: str) -> None:
    if not truths.all():
        _bad(int(np.flatnonzero(~truths)[0]), what)


def _bad(row: int, what: str) -> NoReturn:
    raise BadRecord(row, what)


def gather(data: pa.Buffer, positions: Places, length: Numbers) -> pa.Array:
    """Copy slices of ``data``, in rising order and apart, into a binary column.

    A negative length gives a null.  Below 2 GiB of ``data``.
    """
    rows = len(positions)
    null = length < 0
    if null.all():
        return pa.nulls(rows, pa.binary())
    # Every second element of a binary array; the other elements are what lies between:
    # one pass in C++, without an index per byte.
    bounds = np.empty(2 * rows, np.int32)
    bounds[0::2] = positions
    np.add(positions, np.maximum(length, 0), out=bounds[1::2], casting="same_kind")
    slices = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), data])
    every_second = np.arange(0, 2 * rows, 2, dtype=np.int32)
    return slices.take(pa.array(every_second, mask=null if null.any() else None))
