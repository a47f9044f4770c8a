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

from secor.formats.sequencefile.fields import (
    Field,
    Ints,
    Longs,
    Mask,
    assemble,
    binary_sizes,
    fixed,
    flags,
    join,
    msgpack_binaries,
    msgpack_integers,
    negate,
    total,
    valid_rows,
    without_nulls,
)
from secor.formats.sequencefile.header import BYTES_WRITABLE, LONG_WRITABLE
from secor.formats.sequencefile.header_field import pack_headers


@dataclass(frozen=True, slots=True)
class Keys:
    """The serialised keys of some rows: ``head`` + ``middle`` + ``tail`` of each; their sizes."""

    rows: int
    head: list[Field]
    middle: list[pa.Array]
    tail: list[Field]
    sizes: Longs

    def pieces(self, before: list[Field], after: list[Field]) -> list[pa.Array]:
        """Return what to join for each row: ``before``, the key, ``after``."""
        if not self.middle:
            return [assemble([*before, *self.head, *self.tail, *after], self.rows)]
        pieces = [assemble([*before, *self.head], self.rows), *self.middle]
        if self.tail or after:
            pieces.append(assemble([*self.tail, *after], self.rows))
        return pieces


@dataclass(frozen=True, slots=True)
class Layout:
    """How keys are made: its name in the configuration, its Java class, its function."""

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
    sizes = np.broadcast_to(np.asarray(size), (rows,)).astype(np.int64)
    return Keys(rows, [fixed(sizes, 4), *head], middle, tail, sizes + 4)


LAYOUTS = {
    "messagepack": Layout("messagepack", BYTES_WRITABLE, messagepack_keys),
    "legacy": Layout("legacy", LONG_WRITABLE, legacy_keys),
}
"""By the name in the configuration."""


def join_keys(keys: Keys) -> pa.Array:
    """Return the serialised keys alone."""
    return join(keys.pieces([], []))


def _tail(tombstone: Mask, appended: Mask) -> list[Field]:
    tail: list[Field] = []
    if tombstone is not False:
        tail += [flags(0x05, tombstone), flags(0xC3, tombstone)]
    if appended is not False:
        tail += [flags(0x06, appended), flags(0x01, appended)]
    return tail


def _ones(column: pa.Array) -> Mask:
    """Tell which rows are 1; null counts as 0."""
    mask = without_nulls(column).to_numpy() == 1
    return bool(mask[0]) if mask.all() or not mask.any() else mask


def _count(*masks: Mask) -> Ints:
    result: Ints = 0
    for mask in masks:
        result = result + (int(mask) if isinstance(mask, bool) else mask.astype(np.int64))
    return result
