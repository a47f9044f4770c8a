"""Layouts of SequenceFile keys: legacy (offset only) and MessagePack maps, from columns.

Layout ``messagepack``: a ``BytesWritable`` with a MessagePack map, fields in this order:

=== ============================= =========================================
id  meaning                       written
=== ============================= =========================================
1   offset                        always
3   timestamp, ms                 unless null
2   key, binary                   unless null
4   headers, [[name, value or     unless empty
    nil], ...]
5   true: the value is null       only for tombstones, whose value is empty
6   timestamp type                only when 1
=== ============================= =========================================

Fields 1 to 3 are byte for byte what Java Secor writes.  Layout ``legacy``: a ``LongWritable``
with the offset; everything but offset and value is lost, and a tombstone becomes empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from secor.formats.sequencefile.fields import (
    IntegerField,
    Ints,
    Longs,
    Mask,
    assemble,
    binaries,
    binary_sizes,
    content,
    fixed,
    flags,
    join,
    msgpack_arrays,
    msgpack_binaries,
    msgpack_integers,
    msgpack_strings,
    negate,
    total,
    valid_rows,
    without_nulls,
)
from secor.formats.sequencefile.header import BYTES_WRITABLE, LONG_WRITABLE

_SHORT = 255
"""Bytes of a value whose length takes one byte, the last before the value."""


def pack_headers(column: pa.Array) -> tuple[Ints, pa.Array | None]:
    """Return field 4 of every row (empty: no headers) and its sizes; None where no row has any.

    Each header is a row of fields, the first of a message with the head of its list in front:
    one after the other, the headers of a message are its field.
    """
    lengths = without_nulls(pc.list_value_length(column)).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    if not len(ends) or not ends[-1]:
        return 0, None
    headers = column.flatten()
    if (lengths == lengths[0]).all():
        alike = _pack_same_names(headers, int(lengths[0]))
        if alike is not None:
            return alike
    firsts = np.zeros(ends[-1], np.bool_)
    firsts[(ends - lengths)[lengths > 0]] = True
    counts = np.zeros(ends[-1], np.int64)
    counts[firsts] = lengths[lengths > 0]
    packed = _packed_headers(headers, firsts, counts)
    places, data = content(packed)
    offsets = np.zeros(len(column) + 1, np.int32)
    offsets[1:] = places[ends] - places[0]
    return np.diff(offsets).astype(np.int64), binaries(offsets, data[places[0] :])


def _packed_headers(headers: pa.StructArray, firsts: Mask, counts: Longs) -> pa.Array:
    """Return ``[name, value or nil]`` of each header, behind field and length in ``firsts``."""
    names, values = headers.field("key").cast(pa.binary()), headers.field("value")
    before = [flags(0x04, firsts), *msgpack_arrays(counts, firsts), fixed(0x92, 1)]
    before += msgpack_strings(binary_sizes(names))
    has_value = valid_rows(values)
    between = [flags(0xC0, negate(has_value))] if has_value is not True else []
    if has_value is not False:
        between += msgpack_binaries(binary_sizes(values), has_value)
    rows = len(headers)
    return join([assemble(before, rows), names, assemble(between, rows), values])


def _pack_same_names(headers: pa.StructArray, count: int) -> tuple[Ints, pa.Array] | None:
    """Return what ``pack_headers`` does, where all rows have the same ``count`` names.

    Then all bytes between the values are alike but for their lengths.  None where names
    differ, or values are null or long.
    """
    values = headers.field("value")
    if values.null_count or not _repeat(headers.field("key"), count):
        return None
    sizes = binary_sizes(values).reshape(-1, count)
    # Longer values have lengths of more bytes, so the bytes between them are not alike.
    if sizes.max() > _SHORT:
        return None
    between = _between_values(headers.slice(0, count))
    if (sizes == sizes[0]).all():
        return _pack_same_sizes(between, sizes, values)
    prefixes = np.tile(np.frombuffer(b"".join(between), np.uint8), (len(sizes), 1))
    ends = np.cumsum([len(part) for part in between])
    prefixes[:, ends - 1] = sizes
    offsets = np.zeros(len(values) + 1, np.int32)
    offsets[1:] = (np.arange(len(sizes))[:, np.newaxis] * ends[-1] + ends).reshape(-1)
    places, data = content(join([binaries(offsets, prefixes), values]))
    starts = places[::count]
    packed = binaries((starts - starts[0]).astype(np.int32), data[starts[0] :])
    return np.diff(starts), packed


def _pack_same_sizes(between: list[bytes], sizes: Longs, values: pa.Array) -> tuple[Ints, pa.Array]:
    """Fill a table with what is alike and the values, column by column."""
    rows, widths = len(sizes), sizes[0].tolist()
    places, data = content(values)
    stored = np.frombuffer(data, np.uint8)[places[0] : places[-1]].reshape(rows, sum(widths))
    width = sum(map(len, between)) + sum(widths)
    table = np.empty((rows, width), np.uint8)
    column = taken = 0
    for part, size in zip(between, widths, strict=True):
        table[:, column : column + len(part)] = np.frombuffer(part[:-1] + bytes([size]), np.uint8)
        column += len(part)
        table[:, column : column + size] = stored[:, taken : taken + size]
        column += size
        taken += size
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int64)
    return np.full(rows, width, np.int64), binaries(offsets.astype(np.int32), table)


def _between_values(headers: pa.StructArray) -> list[bytes]:
    """Return the bytes before each value of one message, as if it had none."""
    names = headers.field("key")
    empty = pa.array([b""] * len(names), pa.binary())
    alike = pa.StructArray.from_arrays([names, empty], names=["key", "value"])
    firsts = np.arange(len(names)) == 0
    packed = _packed_headers(alike, firsts, np.where(firsts, len(names), 0))
    return [bytes(part) for part in packed.to_pylist()]


def _repeat(names: pa.Array, count: int) -> bool:
    """Return whether the names are the first ``count`` ones over and over."""
    places, data = content(names)
    sizes = np.diff(places).reshape(-1, count)
    if (sizes != sizes[0]).any():
        return False
    width = int(sizes[0].sum())
    stored = np.frombuffer(data, np.uint8)[places[0] : places[-1]].reshape(len(sizes), width)
    return bool((stored == stored[0]).all())


@dataclass(frozen=True, slots=True)
class Keys:
    """The serialised keys of some rows: ``head`` + ``middle`` + ``tail`` of each; their sizes."""

    rows: int
    head: list[IntegerField]
    middle: list[pa.Array]
    tail: list[IntegerField]
    sizes: Longs

    def pieces(self, before: list[IntegerField], after: list[IntegerField]) -> list[pa.Array]:
        """Return what to join for each row: ``before``, the key, ``after``."""
        if not self.middle:
            return [assemble([*before, *self.head, *self.tail, *after], self.rows)]
        pieces = [assemble([*before, *self.head], self.rows), *self.middle]
        if self.tail or after:
            pieces.append(assemble([*self.tail, *after], self.rows))
        return pieces


@dataclass(frozen=True, slots=True)
class SequenceFileLayout:
    """A layout of keys: its name in the configuration, its Java class, its function."""

    name: str
    java_class: str
    keys: Callable[[pa.RecordBatch], Keys]


def legacy_keys(records: pa.RecordBatch) -> Keys:
    """Return the offsets, 8 bytes big-endian."""
    rows = records.num_rows
    offsets = records.column("offset").to_numpy()
    return Keys(rows, [fixed(offsets, 8)], [], [], np.full(rows, 8, np.int64))


def messagepack_keys(records: pa.RecordBatch) -> Keys:
    """Return the maps of the table above, each after its size in 4 bytes."""
    rows = records.num_rows
    timestamps, keys = records.column("timestamp"), records.column("key")
    has_timestamp, has_key = valid_rows(timestamps), valid_rows(keys)
    tombstone = negate(valid_rows(records.column("value")))
    appended = _ones(records.column("timestamp_type"))
    header_sizes, headers = pack_headers(records.column("headers"))
    count = _count(has_timestamp, has_key, headers is not None and header_sizes > 0)
    count = count + _count(tombstone, appended) + 1

    head = [fixed(0x80 + count, 1), fixed(0x01, 1)]
    head += msgpack_integers(records.column("offset").to_numpy())
    if has_timestamp is not False:
        values = without_nulls(timestamps).to_numpy()
        head += [flags(0x03, has_timestamp), *msgpack_integers(values, has_timestamp)]
    middle: list[pa.Array] = []
    size: Ints = header_sizes
    if has_key is not False:
        key_sizes = binary_sizes(keys)
        head += [flags(0x02, has_key), *msgpack_binaries(key_sizes, has_key)]
        middle.append(keys)
        size = size + key_sizes
    if headers is not None:
        middle.append(headers)
    tail = _tail(tombstone, appended)
    size = size + total(head) + total(tail)
    # Numbers that are the same for all rows stay single numbers until here.
    sizes = np.broadcast_to(np.asarray(size), (rows,)).astype(np.int64)
    return Keys(rows, [fixed(sizes, 4), *head], middle, tail, sizes + 4)


LAYOUTS = {
    "messagepack": SequenceFileLayout("messagepack", BYTES_WRITABLE, messagepack_keys),
    "legacy": SequenceFileLayout("legacy", LONG_WRITABLE, legacy_keys),
}
"""By the name in the configuration."""


def join_keys(keys: Keys) -> pa.Array:
    """Return the serialised keys alone."""
    return join(keys.pieces([], []))


def _tail(tombstone: Mask, appended: Mask) -> list[IntegerField]:
    tail: list[IntegerField] = []
    if tombstone is not False:
        tail += [flags(0x05, tombstone), flags(0xC3, tombstone)]
    if appended is not False:
        tail += [flags(0x06, appended), flags(0x01, appended)]
    return tail


def _ones(column: pa.Array) -> Mask:
    """Return which rows are 1; null counts as 0."""
    mask = without_nulls(column).to_numpy() == 1
    return bool(mask[0]) if mask.all() or not mask.any() else mask


def _count(*masks: Mask) -> Ints:
    result: Ints = 0
    for mask in masks:
        result = result + (int(mask) if isinstance(mask, bool) else mask.astype(np.int64))
    return result
