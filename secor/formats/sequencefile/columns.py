"""SequenceFile records read back: serialised keys and values as columns of messages.

Places are indexes into one buffer (``data``), increasing.  What the vectors below do not
understand (fields in another order, more than 15 headers) is unpacked row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.core.model import HEADERS_TYPE, SCHEMA
from secor.formats.sequencefile.cursor import Bools, Cursor, big_endian
from secor.formats.sequencefile.fields import Longs, binaries
from secor.formats.sequencefile.header import BYTES_WRITABLE, LONG_WRITABLE
from secor.formats.sequencefile.messages import BadRow, KeyFields, unpack_key

_PAIR = 2


@dataclass(frozen=True, slots=True)
class HeaderPlaces:
    """The places of headers: ``counts`` of each row, and of each row's first, second, ... header
    the bounds of name and value, and whether the value is nil.
    """

    counts: Longs
    steps: list[tuple[Longs, Longs, Longs, Longs, Bools]]

    def sizes(self, rows: Bools) -> Longs:
        """Return how many headers each row has; none where ``rows`` is False."""
        return np.where(rows, self.counts, np.int64(0))

    def keys(self, rows: Bools) -> tuple[Longs, Longs]:
        """Return the bounds of the names of these rows' headers, row after row."""
        return self._flat(rows, 0), self._flat(rows, 1)

    def values(self, rows: Bools) -> tuple[Longs, Longs]:
        """Return the bounds of the values of these rows' headers, row after row."""
        return self._flat(rows, 2), self._flat(rows, 3)

    def nils(self, rows: Bools) -> Bools:
        """Return which of these rows' headers have no value."""
        return self._flat(rows, 4) != 0

    def _flat(self, rows: Bools, which: int) -> Longs:
        if not self.steps:
            return np.empty(0, np.int64)
        table = np.stack([step[which] for step in self.steps], axis=1)
        return table[np.arange(len(self.steps)) < self.sizes(rows)[:, np.newaxis]].astype(np.int64)


def take_headers(cursor: Cursor, present: Bools) -> HeaderPlaces:
    """Take an array of pairs of a name and a value or nil, where present."""
    counts = cursor.array_head(present)
    steps = []
    for index in range(int(counts.max(initial=0))):
        here = counts > index
        pair = cursor.array_head(here) == _PAIR
        key_starts, key_ends = cursor.text(here)
        nil = cursor.nil(here)
        value_starts, value_ends = cursor.binary(here & ~nil)
        cursor.demand(pair | ~here)
        steps.append((key_starts, key_ends, value_starts, value_ends, nil))
    return HeaderPlaces(counts, steps)


def header_column(sizes: Longs, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Return the headers of all rows; each row takes the next ``sizes`` ones."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    items = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), items, type=HEADERS_TYPE)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The content of keys: the columns but ``value``, and which values are null."""

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


def slices(data: bytes, starts: Longs, ends: Longs) -> pa.Array:
    """Return ``data[start:end]`` of each row as binaries, in a buffer of their own."""
    if not len(starts):
        return pa.array([], pa.binary())
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
    cursor = Cursor(data, starts, ends)
    count = cursor.map_head()
    has_offset = cursor.field(1)
    offset = cursor.integer(has_offset)
    has_timestamp = cursor.field(3)
    timestamp = cursor.integer(has_timestamp)
    has_key = cursor.field(2)
    key_starts, key_ends = cursor.binary(has_key)
    has_headers = cursor.field(4)
    places = take_headers(cursor, has_headers)
    tombstone = cursor.true(cursor.field(5))
    appended = cursor.field(6)
    kind = cursor.integer(appended)
    fields = 1 + has_timestamp.astype(np.int64) + has_key + has_headers + tombstone + appended
    plain = cursor.finished() & has_offset & (count == fields) & ((kind == 0) | (kind == 1))
    names = _names(data, places, plain)
    if names is None:
        plain &= ~has_headers  # one by one it shows which is no text
        names = pa.array([], pa.string())
    key = slices(data, key_starts, key_ends)
    if not has_key.all():
        key = pc.if_else(pa.array(has_key), key, pa.scalar(None, pa.binary()))
    # Whatever the vectors cannot read is read one by one: other order of fields, other widths, as
    # other writers have them. What is wrong there is named with its row.
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
        headers=_headers(data, names, places, plain, messages),
        tombstone=tombstone,
    )


def _names(data: bytes, places: HeaderPlaces, plain: Bools) -> pa.Array | None:
    """Return the names of the plain rows' headers; None when one of them is not UTF-8."""
    try:
        return slices(data, *places.keys(plain)).cast(pa.string())
    except pa.ArrowInvalid:
        return None


def _headers(
    data: bytes, names: pa.Array, places: HeaderPlaces, plain: Bools, messages: list[KeyFields]
) -> pa.Array:
    """Return the headers of all rows; ``messages`` are the rows that are not plain."""
    values = slices(data, *places.values(plain))
    nils = places.nils(plain)
    if nils.any():
        values = pc.if_else(pa.array(nils), pa.scalar(None, pa.binary()), values)
    headers = header_column(places.sizes(plain), names, values)
    if not any(message.headers for message in messages):
        return headers
    given = [header for message in messages for header in message.headers]
    others = header_column(
        np.array([len(message.headers) for message in messages], np.int64),
        pa.array([header.key for header in given], pa.string()),
        pa.array([header.value for header in given], pa.binary()),
    )
    # Back into the order of rows: the others are behind the plain ones.
    chosen = np.arange(len(plain))
    chosen[~plain] = len(plain) + np.arange(len(messages))
    return pa.concat_arrays([headers, others]).take(pa.array(chosen))


KeyReader = Callable[[bytes, Longs, Longs], KeyColumns]
"""Reads the keys ``data[start:end]``.  Raises ``BadRow``."""

KEY_READERS: dict[str, KeyReader] = {
    BYTES_WRITABLE: messagepack_columns,
    LONG_WRITABLE: legacy_columns,
}
"""By the key's Java class."""


def _demand(good: Bools, what: str) -> None:
    if not good.all():
        raise BadRow(int(np.argmin(good)), what)
