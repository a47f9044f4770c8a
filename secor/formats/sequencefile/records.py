"""SequenceFile record mode: one record after the other, values compressed singly or not."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.formats.sequencefile.codecs import Codec
from secor.formats.sequencefile.columns import KeyReader, slices, writable_slices
from secor.formats.sequencefile.cursor import big_endian
from secor.formats.sequencefile.fields import Longs
from secor.formats.sequencefile.header import LARGEST
from secor.formats.sequencefile.messages import BadRow
from secor.formats.sequencefile.window import Window

_EXPANDED = 4 << 20
"""Bytes of expanded values that make a batch."""

_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class _Found:
    """Where records begin; where the walk stopped, and whether that is the split's end."""

    starts: list[int]
    stopped: int
    done: bool


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the keys and values of records are."""

    key_starts: Longs
    key_ends: Longs
    ends: Longs

    def slice(self, first: int, last: int) -> _Places:
        """Return the rows ``[first, last)``."""
        rows = slice(first, last)
        return _Places(self.key_starts[rows], self.key_ends[rows], self.ends[rows])


def read_records(
    window: Window, keys: KeyReader, codec: Codec | None, marker: bytes, end: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the records, up to the first sync marker at or after position ``end``."""
    while True:
        scan = _find_records(window, marker, end)
        if scan.starts:
            yield from _decode(window, scan.starts, keys, codec)
        window.drop(scan.stopped)
        if scan.done:
            return
        if not window.grow():
            if window.data:
                raise window.cut_short(0, "a record")
            return


def _find_records(window: Window, marker: bytes, end: int | None) -> _Found:
    """Walk over the whole records in the window.  Raises ``CorruptFile``."""
    data, length_at = window.data, _INT.unpack_from
    starts: list[int] = []
    at = 0
    size = len(data)
    while at + 4 <= size:
        length = length_at(data, at)[0]
        if length >= 0:
            after = at + 8 + length
            if after > size:
                if length > LARGEST:
                    raise window.corrupt(at, f"a record of {length} bytes; at most {LARGEST}")
                break
            starts.append(at)
            at = after
        elif length != -1:
            raise window.corrupt(at, f"a record of {length} bytes")
        elif end is not None and window.base + at >= end:
            return _Found(starts, at, True)
        elif at + len(marker) > size:
            break
        else:
            window.check_marker(at, marker)
            at += len(marker)
    return _Found(starts, at, False)


def _decode(
    window: Window, begins: list[int], keys: KeyReader, codec: Codec | None
) -> Iterator[pa.RecordBatch]:
    first = 0
    try:
        places = _places(window.data, np.array(begins, np.int64))
        while first < len(begins):
            values, last = _values(window.data, places, first, codec)
            part = places.slice(first, last)
            yield keys(window.data, part.key_starts, part.key_ends).with_values(values)
            first = last
    except BadRow as error:
        raise window.corrupt(begins[first + error.row], str(error)) from error


def _places(data: bytes, starts: Longs) -> _Places:
    ints = big_endian(data, 4)
    ends = starts + 8 + ints[starts]
    key_sizes = ints[starts + 4].astype(np.int64)
    bad = (key_sizes < 0) | (starts + 8 + key_sizes > ends)
    if bad.any():
        raise BadRow(int(bad.argmax()), "a key that does not fit into its record")
    return _Places(starts + 8, starts + 8 + key_sizes, ends)


def _values(data: bytes, places: _Places, first: int, codec: Codec | None) -> tuple[pa.Array, int]:
    """Return the values of the rows from ``first`` on, and the row after them."""
    if codec is None:
        rows = places.slice(first, len(places.ends))
        return slices(data, *writable_slices(data, rows.key_ends, rows.ends)), len(places.ends)
    parts: list[bytes] = []
    size = 0
    last = first
    while last < len(places.ends) and size < _EXPANDED:
        try:
            parts.append(codec.expand(data[places.key_ends[last] : places.ends[last]], LARGEST))
        except ValueError as error:
            raise BadRow(last - first, f"a value that is not as its codec says: {error}") from error
        size += len(parts[-1])
        last += 1
    ends = np.cumsum(np.array([len(part) for part in parts], np.int64))
    starts = np.concatenate([[0], ends[:-1]])
    joined = b"".join(parts)
    return slices(joined, *writable_slices(joined, starts, ends)), last
