"""Which batches are decoded together: small ones are put together until a pass is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secor.core.model import TopicPartition
from secor.wire import compiled
from secor.wire.batch_header import CODEC, HEADER, Buffer, Headers, corrupt
from secor.wire.batch_run import BatchRun, Int64s
from secor.wire.codecs import LZ4, InvalidPayload, decompress
from secor.wire.varints import PADDING

PASS_BYTES = 2 << 20
"""A pass ends with the batch that reaches this: about what a core's cache holds."""
PARSED_PASS_BYTES = 4 << 20
"""The same where messages are parsed: they are divided by output partition, and each piece
costs the same however few rows it has."""
SMALL_FRAME = 4 << 10
"""A larger LZ4 frame, compressed, is faster by the library: its call costs less than it saves."""
FEW_FRAMES = 16
"""Fewer small ones in a fetch are faster by the library, too."""
LARGEST_BUFFER = (1 << 31) - 1 - PARSED_PASS_BYTES - len(PADDING)


@dataclass(frozen=True, slots=True)
class Pass:
    """Batches to be decoded together, up to number ``last`` of their run.

    ``spans`` has a row for each: which of ``buffers`` has its records, where they begin there
    and where they end.
    """

    buffers: Sequence[Buffer]
    spans: Int64s
    heads: Headers
    last: int


class Passes:
    """The passes over the ``wanted`` batches of a run, which are decompressed where they are."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        run: BatchRun,
        wanted: npt.NDArray[np.intp],
        max_uncompressed: int,
        pass_bytes: int,
    ) -> None:
        """``max_uncompressed`` is in bytes of one batch."""
        self._topic_partition = topic_partition
        self._run, self._wanted = run, wanted
        self._most, self._pass_bytes = max_uncompressed, pass_bytes
        begins, ends = run.begins[wanted] + HEADER.size, run.ends[wanted]
        self._spans = np.column_stack([np.zeros(len(wanted), np.int64), begins, ends])
        codecs = run.heads["attributes"][wanted] & CODEC
        most, sizes = min(max_uncompressed, pass_bytes), ends - begins
        single = (codecs != 0) | (sizes > most)
        self._frames = np.flatnonzero((codecs == LZ4) & (sizes <= SMALL_FRAME))
        """The compressed ones among those that are taken many at a time."""
        if len(self._frames) < FEW_FRAMES:
            self._frames = self._frames[:0]
        else:
            frame_sizes = compiled.lz4_sizes(run.data, self._spans[self._frames, 1:], most)
            readable = frame_sizes >= 0
            self._frames = self._frames[readable]
            sizes[self._frames], single[self._frames] = frame_sizes[readable], False
        self._sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        """Bytes of the records before each batch; of those that are taken alone, in the log."""
        columns = (np.flatnonzero(single), codecs[single], begins[single], ends[single])
        self._singles = zip(*(column.tolist() for column in columns), strict=True)
        """Large batches, and what is decompressed by a library."""
        self._first = self._size = 0
        self._unpacked: list[int] = []
        self._buffers: list[Buffer] = [run.data]

    def __iter__(self) -> Iterator[Pass]:
        """Yield the passes, once.  Raises ``CorruptBatch`` after those of what comes before it."""
        view, batch = memoryview(self._run.data), 0
        for single, codec, begin, end in self._singles:
            if batch < single:
                yield from self._take_many(batch, single)
            try:
                records = decompress(codec, view[begin:end], self._most)
            except InvalidPayload as error:
                if single > self._first:
                    yield self._end(single)
                base = int(self._run.heads["base_offset"][self._wanted[single]])
                raise corrupt(self._topic_partition, base, str(error)) from error
            if self._size + len(records) > LARGEST_BUFFER:
                yield self._end(single)
            self._unpacked.append(single)
            self._buffers.append(records)
            self._size += len(records)
            batch = single + 1
            if self._size >= self._pass_bytes:
                yield self._end(batch)
        yield from self._take_many(batch, len(self._wanted))
        if self._first < len(self._wanted):
            yield self._end(len(self._wanted))

    def _take_many(self, batch: int, after: int) -> Iterator[Pass]:
        """Take the batches up to ``after``, which are small and not for a library."""
        while batch < after:
            full = self._sums.searchsorted(self._sums[batch] + self._pass_bytes - self._size)
            until = min(after, int(full))
            self._size += int(self._sums[until] - self._sums[batch])
            batch = until
            if self._size >= self._pass_bytes:
                yield self._end(batch)

    def _end(self, after: int) -> Pass:
        """Return what waits, up to the batch before ``after``."""
        count = len(self._unpacked)
        if count:
            self._spans[self._unpacked, 0] = np.arange(1, count + 1)
            self._spans[self._unpacked, 1] = 0
            self._spans[self._unpacked, 2] = [len(buffer) for buffer in self._buffers[1:]]
        if len(self._frames):
            self._decompress_frames(after)
        indexes = self._wanted[self._first : after]
        first, last = int(indexes[0]), int(indexes[-1])
        # Mostly nothing lies between them, and a slice is no copy.
        together = last - first == len(indexes) - 1
        heads = self._run.heads[first : last + 1] if together else self._run.heads[indexes]
        ended = Pass(self._buffers, self._spans[self._first : after], heads, last)
        self._first, self._size = after, 0
        self._unpacked, self._buffers = [], [self._run.data]
        return ended

    def _decompress_frames(self, after: int) -> None:
        """Put the small frames among what waits into one more buffer."""
        first, last = self._frames.searchsorted([self._first, after])
        frames = self._frames[first:last]
        if not len(frames):
            return
        sizes = self._sums[frames + 1] - self._sums[frames]
        ends = np.cumsum(sizes)
        records = compiled.lz4_decompress(self._run.data, self._spans[frames, 1:], int(ends[-1]))
        self._spans[frames, 0] = len(self._buffers)
        self._spans[frames, 1] = ends - sizes
        self._spans[frames, 2] = ends
        self._buffers.append(records)
