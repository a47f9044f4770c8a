"""Serialised keys and values back to columns of messages, a batch at a time.

Places are indexes into one buffer (``data``), increasing.  What the vectors below do not
understand (headers, fields in another order) is unpacked row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.formats.sequencefile.fields import Longs, binaries
from secor.formats.sequencefile.header import BYTES_WRITABLE, LONG_WRITABLE
from secor.formats.sequencefile.messages import BadRow, Message, unpack_key
from secor.model import HEADERS_TYPE, SCHEMA

Bools = npt.NDArray[np.bool_]

# Bytes that follow a MessagePack integer's or binary's first byte; -1: it is none.
_INTEGER_BYTES = np.full(256, -1, np.int64)
_INTEGER_BYTES[:0x80] = _INTEGER_BYTES[0xE0:] = 0
_INTEGER_BYTES[[0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3]] = [1, 2, 4, 8] * 2
_BINARY_BYTES = np.full(256, -1, np.int64)
_BINARY_BYTES[[0xC4, 0xC5, 0xC6]] = [1, 2, 4]
_PADDING = b"\0" * 16


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """What keys say: the columns but ``value``, and which values are null."""

    offset: pa.Array
    timestamp: pa.Array
    timestamp_type: pa.Array
    key: pa.Array
    headers: pa.Array
    tombstone: Bools

    def with_values(self, values: pa.Array) -> pa.RecordBatch:
        """Return the rows in ``SCHEMA``.  Raises ``BadRow`` for a tombstone with a value."""
        if self.tombstone.any():
            sizes = pc.binary_length(values).to_numpy()
            _demand(~self.tombstone | (sizes == 0), "a null value of more than 0 bytes")
            values = pc.if_else(pa.array(self.tombstone), pa.scalar(None, pa.binary()), values)
        columns = [self.offset, self.timestamp, self.timestamp_type, self.key, values, self.headers]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def big_endian(data: bytes, width: int) -> npt.NDArray[np.integer]:
    """Return a view of the integers (4 bytes signed, 8 unsigned) that begin at each byte."""
    kind = {4: ">i4", 8: ">u8"}[width]
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), kind, data, 0, (1,))


def slices(data: bytes, starts: Longs, ends: Longs) -> pa.Array:
    """Return ``data[start:end]`` of each row as binaries, in a buffer of their own."""
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    # Wanted slices and what lies between them make one array: taking every other one copies.
    return binaries(bounds, data).take(pa.array(np.arange(0, len(bounds), 2)))


def writable_slices(data: bytes, starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """Return where the contents of ``BytesWritable`` are.  Raises ``BadRow``."""
    _demand(ends - starts >= 4, "a BytesWritable of less than 4 bytes")
    sizes = big_endian(data, 4)[starts].astype(np.int64)
    _demand(sizes == ends - starts - 4, "a BytesWritable whose length is not that of its record")
    return starts + 4, ends


def legacy_columns(data: bytes, starts: Longs, ends: Longs) -> KeyColumns:
    """Read ``LongWritable`` keys.  Raises ``BadRow``."""
    _demand(ends - starts == 8, "a LongWritable that has not 8 bytes")
    rows = len(starts)
    return KeyColumns(
        offset=pa.array(big_endian(data, 8)[starts].astype(np.int64)),
        timestamp=pa.nulls(rows, pa.int64()),
        timestamp_type=pa.nulls(rows, pa.int8()),
        key=pa.nulls(rows, pa.binary()),
        headers=pa.nulls(rows, HEADERS_TYPE),
        tombstone=np.zeros(rows, np.bool_),
    )


def messagepack_columns(data: bytes, starts: Longs, ends: Longs) -> KeyColumns:
    """Read ``BytesWritable`` keys with the maps of ``layouts``.  Raises ``BadRow``."""
    starts, ends = writable_slices(data, starts, ends)
    cursor = _Cursor(data, starts, ends)
    count = cursor.map_head()
    has_offset = cursor.field(1)
    offset = cursor.integer(has_offset)
    has_timestamp = cursor.field(3)
    timestamp = cursor.integer(has_timestamp)
    has_key = cursor.field(2)
    key_starts, key_ends = cursor.binary(has_key)
    tombstone = cursor.true(cursor.field(5))
    appended = cursor.field(6)
    kind = cursor.integer(appended)
    fields = 1 + has_timestamp.astype(np.int64) + has_key + tombstone + appended
    plain = cursor.finished() & has_offset & (count == fields) & ((kind == 0) | (kind == 1))
    key = slices(data, key_starts, key_ends)
    if not has_key.all():
        key = pc.if_else(pa.array(has_key), key, pa.scalar(None, pa.binary()))
    rows = np.flatnonzero(~plain)
    messages = [unpack_key(data[starts[row] : ends[row]], int(row)) for row in rows]
    if messages:
        offset[rows] = [message.offset for message in messages]
        timestamp[rows] = [message.timestamp or 0 for message in messages]
        has_timestamp[rows] = [message.timestamp is not None for message in messages]
        kind[rows] = [message.timestamp_type for message in messages]
        tombstone[rows] = [message.tombstone for message in messages]
        replacements = pa.array([message.key for message in messages], pa.binary())
        key = pc.replace_with_mask(key, pa.array(~plain), replacements)
    return KeyColumns(
        offset=pa.array(offset),
        timestamp=pa.array(timestamp, mask=~has_timestamp),
        timestamp_type=pa.array(kind.astype(np.int8)),
        key=key,
        headers=_header_column(len(starts), rows, messages),
        tombstone=tombstone,
    )


KeyReader = Callable[[bytes, Longs, Longs], KeyColumns]
"""Reads the keys ``data[start:end]``.  Raises ``BadRow``."""

KEY_READERS: dict[str, KeyReader] = {
    BYTES_WRITABLE: messagepack_columns,
    LONG_WRITABLE: legacy_columns,
}
"""By the key's Java class."""


class _Cursor:
    """Walks all keys of a batch at once; a row that is not as expected is no longer ``good``."""

    def __init__(self, data: bytes, starts: Longs, ends: Longs) -> None:
        # Reading ahead of a short key stays inside; where values follow, it does anyway.
        padded = data if ends[-1] + len(_PADDING) <= len(data) else data + _PADDING
        self._bytes = np.frombuffer(padded, np.uint8)
        self._longs = big_endian(padded, 8)
        self._at = starts.copy()
        self._ends = ends
        self._good = np.ones(len(starts), np.bool_)

    def map_head(self) -> Longs:
        """Take the map's first byte; return its number of fields."""
        first = self._bytes[self._at].astype(np.int64)
        self._good &= (first & 0xF0) == 0x80
        self._at += 1
        return first & 0x0F

    def field(self, number: int) -> Bools:
        """Take a field's number where it is the next; tell where."""
        here = self._good & (self._at < self._ends) & (self._bytes[self._at] == number)
        self._at += here
        return here

    def integer(self, present: Bools) -> Longs:
        """Take an integer where present, else 0."""
        first = self._bytes[self._at].astype(np.int64)
        width = np.where(present, _INTEGER_BYTES[first], 0)
        bits = np.minimum(64 - 8 * np.maximum(width, 0), 63).astype(np.uint64)
        payload = self._longs[self._at + 1].astype(np.uint64)
        unsigned = (payload >> bits).view(np.int64)
        signed = payload.view(np.int64) >> bits.view(np.int64)
        small = np.where(first < 0x80, first, first - 0x100)
        values = np.where(first >= 0xD0, signed, unsigned)
        values = np.where(present, np.where(width == 0, small, values), 0)
        self._good &= (width >= 0) & ~(present & (first == 0xCF) & (values < 0))
        self._advance(np.where(present, 1 + width, 0))
        return values

    def binary(self, present: Bools) -> tuple[Longs, Longs]:
        """Take a binary where present; return where each begins and ends."""
        first = self._bytes[self._at]
        width = np.where(present, _BINARY_BYTES[first], 0)
        bits = np.minimum(64 - 8 * np.maximum(width, 0), 63).astype(np.uint64)
        payload = self._longs[self._at + 1].astype(np.uint64)
        size = np.where(width > 0, (payload >> bits).astype(np.int64), 0)
        self._good &= width >= 0
        self._advance(np.where(present, 1 + width, 0))
        starts = self._at.copy()
        self._advance(size)
        return starts, self._at.copy()

    def true(self, present: Bools) -> Bools:
        """Take ``true`` where present."""
        self._good &= ~present | (self._bytes[self._at] == 0xC3)
        self._advance(present.astype(np.int64))
        return present & self._good

    def finished(self) -> Bools:
        """Tell which keys were read to their ends as expected."""
        done: Bools = self._good & (self._at == self._ends)
        return done

    def _advance(self, by: Longs) -> None:
        after = self._at + by
        self._good &= after <= self._ends
        self._at = np.where(self._good, after, np.minimum(self._at, self._ends))


def _header_column(rows: int, given: Longs, messages: list[Message]) -> pa.Array:
    """Return the headers of all rows: ``messages`` are those of the rows ``given``, else none."""
    sizes = np.zeros(rows, np.int64)
    sizes[given] = [len(message.headers) for message in messages]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    headers = [header for message in messages for header in message.headers]
    items = pa.StructArray.from_arrays(
        [
            pa.array([header.key for header in headers], pa.string()),
            pa.array([header.value for header in headers], pa.binary()),
        ],
        fields=list(HEADERS_TYPE.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=HEADERS_TYPE)


def _demand(good: Bools, what: str) -> None:
    if not good.all():
        raise BadRow(int(np.argmin(good)), what)
