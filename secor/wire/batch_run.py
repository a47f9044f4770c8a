"""The record batches of a fetch, where they lie: no object for each of them.

A topic of low traffic has a batch for each message, so what is done for a batch is done for all
of a fetch at once, compiled or by numpy.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from secor.wire import compiled
from secor.wire.batch_header import (
    CONTROL,
    CRC_FOLLOWS,
    FIELDS,
    HEADER,
    LENGTH_FOLLOWS,
    Buffer,
    Headers,
    count_right,
)

_LENGTH = struct.Struct(">i")
_LENGTH_AT, _MAGIC_AT = 8, 16

Int64s = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Record batches of format v2 in one buffer, in the order of the log.

    Batch *i* lies at ``begins[i]`` to ``ends[i]`` of ``data`` and has the header ``heads[i]``.
    The last ones may have no header, as they are too short for one.  Nothing is judged yet.
    """

    data: Buffer
    begins: Int64s
    ends: Int64s
    heads: Headers

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return int((self.ends - self.begins).sum())

    @property
    def nexts(self) -> Int64s:
        """The offset after each batch that has a header; it is wrong where that is wrong."""
        base = self.heads["base_offset"].astype(np.int64)
        return base + self.heads["last_offset_delta"] + np.int64(1)

    @property
    def control(self) -> Truths:
        """Return which hold transaction markers, not messages."""
        return self.heads["attributes"] & CONTROL != 0

    @property
    def right(self) -> int:
        """The number of headers at the beginning without a fault; see ``count_right``."""
        return count_right(self.heads, self.ends - self.begins)

    def batch(self, index: int) -> memoryview:
        """Return the bytes of one batch."""
        return memoryview(self.data)[self.begins[index] : self.ends[index]]

    def where(self, wanted: Truths) -> BatchRun:
        """Return the batches for which ``wanted`` is true; all of them must have headers."""
        if wanted.all():
            return self
        return BatchRun(self.data, self.begins[wanted], self.ends[wanted], self.heads[wanted])


def join_batches(batches: Sequence[Buffer]) -> BatchRun:
    """Return batches that lie apart as a run; each is as long as its buffer, not as it says."""
    sizes = np.array([len(batch) for batch in batches], np.int64)
    ends = np.cumsum(sizes)
    short = np.flatnonzero(sizes < HEADER.size)
    whole = int(short[0]) if len(short) else len(batches)
    heads = b"".join([memoryview(batch)[: HEADER.size] for batch in batches[:whole]])
    data = batches[0] if len(batches) == 1 else b"".join(batches)
    return BatchRun(data, ends - sizes, ends, np.frombuffer(heads, FIELDS))


def walk_batches(data: bytes) -> BatchRun | None:
    """Return the batches that are whole, their checksums checked.

    Bytes behind them are the begin of another one: fetches cut it off.  None where a batch is
    not of format v2, too short, or damaged: the caller has to look at one after the other.
    """
    extension = compiled.extension
    walked = _walk(data) if extension is None else extension.walk(data)
    if walked is None:
        return None
    begin_bytes, head_bytes, unchecked = walked
    begins = np.frombuffer(begin_bytes, np.int64)
    heads = np.frombuffer(head_bytes, FIELDS)
    run = BatchRun(data, begins, begins + heads["length"] + LENGTH_FOLLOWS, heads)
    view = memoryview(data)
    for index in np.flatnonzero(np.frombuffer(unchecked, np.bool_)).tolist():
        if crc32c(view[begins[index] + CRC_FOLLOWS : run.ends[index]]) != heads["crc"][index]:
            return None
    return run


def _walk(data: bytes) -> compiled.Walked | None:
    """Do what the extension does, without looking at checksums."""
    begins = []
    position = 0
    while len(data) - position >= LENGTH_FOLLOWS:
        (length,) = _LENGTH.unpack_from(data, position + _LENGTH_AT)
        end = position + LENGTH_FOLLOWS + length
        # Brokers cut answers at a number of bytes: what is left is the beginning of a batch, and
        # comes again with the next fetch.
        if end > len(data):
            break
        if end - position < HEADER.size or data[position + _MAGIC_AT] != 2:
            return None
        begins.append(position)
        position = end
    heads = b"".join([data[begin : begin + HEADER.size] for begin in begins])
    return np.array(begins, np.int64).tobytes(), heads, b"\1" * len(begins)
