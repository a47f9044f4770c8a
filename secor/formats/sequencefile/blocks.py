"""SequenceFile blocks: sync marker, record count, four compressed buffers each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.formats.sequencefile.codecs import Codec
from secor.formats.sequencefile.columns import KeyReader, slices, writable_slices
from secor.formats.sequencefile.fields import Longs
from secor.formats.sequencefile.header import LARGEST, NotEnough, decode_vint
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
    at = 0
    while True:
        if end is not None and window.base + at >= end:
            return
        try:
            block = _block_at(window, at, marker)
        except NotEnough:
            window.drop(at)
            at = 0
            if window.grow():
                continue
            if window.data:
                raise window.cut_short(0, "a block") from None
            return
        except ValueError as error:
            raise window.corrupt(at, f"a block with {error}") from error
        yield _decode_block(window, at, block, keys, codec)
        at = block.after


def _block_at(window: Window, at: int, marker: bytes) -> _Block:
    """Take a block apart.  Raises ``NotEnough``, ``ValueError``, ``CorruptFile``."""
    data = window.data
    if at + len(marker) > len(data):
        raise NotEnough
    window.check_marker(at, marker)
    count, at = decode_vint(data, at + len(marker))
    if not 0 < count <= _MOST_RECORDS:
        raise ValueError(f"{count} records; 1 to {_MOST_RECORDS} are expected")
    buffers = []
    for _ in range(4):
        size, at = decode_vint(data, at)
        if size > LARGEST:
            raise ValueError(f"a buffer of {size} bytes; at most {LARGEST}")
        if at + size > len(data):
            raise NotEnough
        buffers.append(data[at : at + size])
        at += size
    return _Block(count, buffers, at)


def _decode_block(
    window: Window, at: int, block: _Block, read_keys: KeyReader, codec: Codec
) -> pa.RecordBatch:
    try:
        key_ends, keys = _expand(block.buffers[0], block.buffers[1], block.count, codec)
        value_ends, values = _expand(block.buffers[2], block.buffers[3], block.count, codec)
        columns = read_keys(keys, _starts(key_ends), key_ends)
        bounds = writable_slices(values, _starts(value_ends), value_ends)
        return columns.with_values(slices(values, *bounds))
    except BadRow as error:
        raise window.corrupt(at, f"a block whose record {error.row} has {error}") from error
    except ValueError as error:
        raise window.corrupt(at, f"a block that cannot be read: {error}") from error


def _starts(ends: Longs) -> Longs:
    return np.concatenate([[0], ends[:-1]])


def _expand(sizes: bytes, data: bytes, count: int, codec: Codec) -> tuple[Longs, bytes]:
    """Return where each of ``count`` items ends, and all of them.  Raises ``ValueError``."""
    ends = np.cumsum(decode_vints(codec.expand(sizes, 5 * count), count))
    total = int(ends[-1])
    if total > LARGEST:
        raise ValueError(f"its items take {total} bytes; at most {LARGEST}")
    expanded = codec.expand(data, total)
    if len(expanded) != total:
        raise ValueError(f"its items should take {total} bytes and take {len(expanded)}")
    return ends, expanded


def decode_vints(data: bytes, count: int) -> Longs:
    """Return exactly ``count`` non-negative vints.  Raises ``ValueError``."""
    raw = np.frombuffer(data, np.uint8)
    if len(raw) == count and (raw <= 127).all():
        return raw.astype(np.int64)
    if len(raw) == 2 * count and (raw[0::2] == 0x8F).all():
        return raw[1::2].astype(np.int64)
    values = []
    at = 0
    try:
        while at < len(data):
            value, at = decode_vint(data, at)
            values.append(value)
    except NotEnough:
        raise ValueError("its sizes are cut short") from None
    if len(values) != count:
        raise ValueError(f"it has {len(values)} sizes for {count} records")
    return np.array(values, np.int64)
