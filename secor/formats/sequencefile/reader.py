"""The SequenceFile reader: whole files and splits, as columns of messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from secor.core.model import rows_in_blocks
from secor.formats.sequencefile.codecs import Codec, codec_of_class
from secor.formats.sequencefile.columns import KEY_READERS, KeyReader, slices, writable_slices
from secor.formats.sequencefile.cursor import big_endian
from secor.formats.sequencefile.fields import Longs
from secor.formats.sequencefile.header import (
    BYTES_WRITABLE,
    ESCAPE,
    LARGEST,
    FileHeader,
    NotEnough,
    decode_header,
    decode_vint,
)
from secor.formats.sequencefile.messages import BadRow
from secor.formats.sequencefile.window import Window

_MOST_RECORDS = 1 << 24  # in a block


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's count of records, its four compressed buffers, the place after it."""

    count: int
    buffers: list[bytes]
    after: int


def read_blocks(
    window: Window, keys: KeyReader, codec: Codec, marker: bytes, end: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the blocks' records, up to the first block at or after position ``end``."""
    position = 0
    while True:
        if end is not None and window.base + position >= end:
            return
        try:
            block = _block_at(window, position, marker)
        except NotEnough:
            window.drop(position)
            position = 0
            if window.grow():
                continue
            if window.data:
                raise window.cut_short(0, "a block") from None
            return
        except ValueError as error:
            raise window.corrupt(position, f"a block with {error}") from error
        yield _decode_block(window, position, block, keys, codec)
        position = block.after


def _block_at(window: Window, position: int, marker: bytes) -> _Block:
    """Take a block apart.  Raises ``NotEnough``, ``ValueError``, ``CorruptFile``."""
    data = window.data
    if position + len(marker) > len(data):
        raise NotEnough
    window.check_marker(position, marker)
    count, position = decode_vint(data, position + len(marker))
    # Checked before anything is made of it: damaged bytes can name any count and any size, and
    # memory is taken for them.
    if not 0 < count <= _MOST_RECORDS:
        raise ValueError(f"{count} records; 1 to {_MOST_RECORDS} are expected")
    buffers = []
    for _ in range(4):
        size, position = decode_vint(data, position)
        if size > LARGEST:
            raise ValueError(f"a buffer of {size} bytes; at most {LARGEST}")
        if position + size > len(data):
            raise NotEnough
        buffers.append(data[position : position + size])
        position += size
    return _Block(count, buffers, position)


def _decode_block(
    window: Window, position: int, block: _Block, read_keys: KeyReader, codec: Codec
) -> pa.RecordBatch:
    try:
        key_ends, keys = _expand(block.buffers[0], block.buffers[1], block.count, codec)
        value_ends, values = _expand(block.buffers[2], block.buffers[3], block.count, codec)
        columns = read_keys(keys, _starts(key_ends), key_ends)
        bounds = writable_slices(values, _starts(value_ends), value_ends)
        return columns.with_values(slices(values, *bounds))
    except BadRow as error:
        raise window.corrupt(position, f"a block where record {error.row} has {error}") from error
    except ValueError as error:
        raise window.corrupt(position, f"a block that cannot be read: {error}") from error


def _starts(ends: Longs) -> Longs:
    return np.concatenate([[0], ends[:-1]])


def _expand(sizes: bytes, data: bytes, count: int, codec: Codec) -> tuple[Longs, bytes]:
    """Return where each of ``count`` items ends, and all of them.  Raises ``ValueError``."""
    ends = np.cumsum(decode_vints(codec.expand(sizes, 5 * count), count))
    total = int(ends[-1])
    if total > LARGEST:
        raise ValueError(f"its items take {total} bytes; at most {LARGEST}")
    expanded = codec.expand(data, total)
    # Too few or too many bytes: the sizes and the data are not of one block.
    if len(expanded) != total:
        raise ValueError(f"its items should take {total} bytes and take {len(expanded)}")
    return ends, expanded


def decode_vints(data: bytes, count: int) -> Longs:
    """Return exactly ``count`` non-negative vints.  Raises ``ValueError``."""
    raw = np.frombuffer(data, np.uint8)
    # Sizes of one byte, or of two with the same head, are nearly all that there is: numpy reads
    # them at once.
    if len(raw) == count and (raw <= 127).all():
        return raw.astype(np.int64)
    if len(raw) == 2 * count and (raw[0::2] == 0x8F).all():
        return raw[1::2].astype(np.int64)
    values = []
    position = 0
    try:
        while position < len(data):
            value, position = decode_vint(data, position)
            values.append(value)
    except NotEnough:
        raise ValueError("its sizes are cut short") from None
    if len(values) != count:
        raise ValueError(f"it has {len(values)} sizes for {count} records")
    return np.array(values, np.int64)


_EXPANDED = 4 << 20
"""Bytes of expanded values that make a batch."""

_INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class _Found:
    """The beginnings of records; the place where the walk stopped, and whether that is the split's
    end.
    """

    starts: list[int]
    stopped: int
    done: bool


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of the keys and values of records."""

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
    position = 0
    size = len(data)
    while position + 4 <= size:
        length = length_at(data, position)[0]
        if length >= 0:
            after = position + 8 + length
            if after > size:
                # A damaged length: without this the rest of the file would be read to find such a
                # record.
                if length > LARGEST:
                    raise window.corrupt(position, f"a record of {length} bytes; at most {LARGEST}")
                break
            starts.append(position)
            position = after
        # -1 is Hadoop's mark for a sync marker; lengths below it are damage.
        elif length != -1:
            raise window.corrupt(position, f"a record of {length} bytes")
        elif end is not None and window.base + position >= end:
            return _Found(starts, position, True)
        elif position + len(marker) > size:
            break
        else:
            window.check_marker(position, marker)
            position += len(marker)
    return _Found(starts, position, False)


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


ROWS = 10_000
"""Rows of a batch, at most."""

_FIRST_READ = 64 * 1024
_MOST_HEADER = 1 << 20


@dataclass(frozen=True, slots=True)
class _Kind:
    """The kind of a file, by its header; ``block`` files have a codec."""

    keys: KeyReader
    codec: Codec | None
    block: bool
    marker: bytes


def read_file(file: BinaryIO, name: str) -> Iterator[pa.RecordBatch]:
    """Yield all records of ``file``, positioned at its beginning."""
    window = Window(file, name)
    kind = _take_header(window)
    yield from _read(window, kind, None)


def read_split(file: BinaryIO, start: int, end: int, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the records after the sync markers that begin in ``[start, end)``."""
    file.seek(0)
    window = Window(file, name)
    kind = _take_header(window)
    if start > window.base:
        file.seek(start)
        # A new window, from the split's start on: it may be in the midst of a record.
        window = Window(file, name, start)
        if not _find_marker(window, kind.marker):
            return
    if window.base < end:
        yield from _read(window, kind, end)


def header_of(file: BinaryIO, name: str) -> FileHeader:
    """Return the header of a file of messages, positioned at its beginning.

    Raises ``CorruptFile``.
    """
    window = Window(file, name)
    return _checked_header(window)[0]


def _take_header(window: Window) -> _Kind:
    """Read the header and drop it.  Raises ``CorruptFile``."""
    header, size, codec = _checked_header(window)
    window.drop(size)
    return _Kind(KEY_READERS[header.key_class], codec, header.block, ESCAPE + header.sync)


def _checked_header(window: Window) -> tuple[FileHeader, int, Codec | None]:
    try:
        header, size = _header(window)
        if header.value_class != BYTES_WRITABLE:
            raise ValueError(f"values are {header.value_class}, not {BYTES_WRITABLE}")
        if header.key_class not in KEY_READERS:
            raise ValueError(f"keys are {header.key_class}, not one of {', '.join(KEY_READERS)}")
        codec = codec_of_class(header.codec) if header.codec is not None else None
    except ValueError as error:
        raise window.corrupt(0, f"no SequenceFile of messages: {error}") from error
    return header, size, codec


def _header(window: Window) -> tuple[FileHeader, int]:
    while window.grow(_FIRST_READ):
        try:
            return decode_header(window.data)
        except NotEnough:
            if len(window.data) > _MOST_HEADER:
                raise ValueError(f"a header of more than {_MOST_HEADER} bytes") from None
    raise window.cut_short(0, "the header")


def _find_marker(window: Window, marker: bytes) -> bool:
    """Move to the first sync marker; False where there is none."""
    while window.grow():
        position = window.data.find(marker)
        if position >= 0:
            window.drop(position)
            return True
        # The beginning of a marker may be at the end of what was read.
        window.drop(max(0, len(window.data) - len(marker) + 1))
    return False


def _read(window: Window, kind: _Kind, end: int | None) -> Iterator[pa.RecordBatch]:
    if kind.block and kind.codec is not None:
        batches = read_blocks(window, kind.keys, kind.codec, kind.marker, end)
    else:
        batches = read_records(window, kind.keys, kind.codec, kind.marker, end)
    for batch in batches:
        yield from rows_in_blocks(batch, ROWS)
