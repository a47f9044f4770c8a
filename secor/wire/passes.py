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
from secor.wire.codecs import CODECS, GZIP, InvalidPayload, decompress
from secor.wire.varints import PADDING

PASS_BYTES = 2 << 20
"""A pass ends with the batch that reaches this: about what a core's cache holds."""
PARSED_PASS_BYTES = 4 << 20
"""The same where messages are parsed: they are divided by output partition, and each piece
costs the same however few rows it has."""
SMALL_FRAME = 4 << 10
"""A larger frame, compressed, is as fast by the library: its call costs less than it saves."""
SMALL_MEMBER = 512
"""The same of gzip, whose library is faster than the machine's zlib."""
FEW_FRAMES = 16
"""Fewer small ones of a codec in a fetch are as fast by the library, too."""
FRAMES_ROOM = 16 << 20
"""Bytes that small frames of one codec in a fetch may have decompressed; the library takes the
others one by one, so that a fetch of bombs does not take the memory."""
FRAMES_RATIO = 7
"""Times their compressed bytes that they may have: for a fetch of 1 MiB that is a block of the
heap (``service/malloc.py``), where a larger one would be given by the system, page by page.
Where more came out, a call for each costs little in comparison."""
Bools = npt.NDArray[np.bool_]
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
        self._shared: list[Buffer] = [run.data]
        """The buffers that every pass may refer to: the fetch, and its small frames by codec."""
        for codec in range(1, len(CODECS)):
            largest = SMALL_MEMBER if codec == GZIP else SMALL_FRAME
            frames = np.flatnonzero((codecs == codec) & (sizes <= largest))
            if len(frames) >= FEW_FRAMES:
                self._decompress_frames(codec, frames, most, sizes, single)
        self._sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        """Bytes of the records before each batch; of those that are taken alone, in the log."""
        columns = (np.flatnonzero(single), codecs[single], begins[single], ends[single])
        self._singles = zip(*(column.tolist() for column in columns), strict=True)
        """Large batches, and what is decompressed by a library."""
        self._first = self._size = 0
        self._unpacked: list[int] = []
        self._buffers: list[Buffer] = []

    def __iter__(self) -> Iterator[Pass]:
        """Yield the passes, once.  Raises ``CorruptBatch`` after those of what comes before it."""
        view, batch = memoryview(self._run.data), 0
        for single, codec, begin, end in self._singles:
            if batch < single:
                yield from self._take_many(batch, single)
            try:
                records = decompress(codec, view[begin:end], self._most)
            except InvalidPayload as error:
                # What comes before the damaged batch is good, and is given before the error is
                # raised.
                if single > self._first:
                    yield self._end(single)
                base = int(self._run.heads["base_offset"][self._wanted[single]])
                raise corrupt(self._topic_partition, base, str(error)) from error
            # Offsets of Arrow's columns have 32 bits.
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
        count, shared = len(self._unpacked), len(self._shared)
        if count:
            self._spans[self._unpacked, 0] = np.arange(shared, shared + count)
            self._spans[self._unpacked, 1] = 0
            self._spans[self._unpacked, 2] = [len(buffer) for buffer in self._buffers]
        indexes = self._wanted[self._first : after]
        first, last = int(indexes[0]), int(indexes[-1])
        # Mostly nothing lies between them, and a slice is no copy.
        together = last - first == len(indexes) - 1
        heads = self._run.heads[first : last + 1] if together else self._run.heads[indexes]
        buffers = [*self._shared, *self._buffers]
        ended = Pass(buffers, self._spans[self._first : after], heads, last)
        self._first, self._size = after, 0
        self._unpacked, self._buffers = [], []
        return ended

    def _decompress_frames(
        self, codec: int, frames: npt.NDArray[np.intp], most: int, sizes: Int64s, single: Bools
    ) -> None:
        """Decompress small frames into one buffer; those that are left to the library stay single.

        ``sizes`` and ``single`` have an element for each batch, and are changed.
        """
        room = min(FRAMES_ROOM, FRAMES_RATIO * int(sizes[frames].sum()))
        records, frame_sizes = compiled.decompress_frames(
            codec, self._run.data, self._spans[frames, 1:], most, room
        )
        # A frame that the extension does not read is left to the library, which also says what is
        # wrong with it.
        readable = frame_sizes >= 0
        frames, frame_sizes = frames[readable], frame_sizes[readable]
        ends = np.cumsum(frame_sizes)
        self._spans[frames, 0] = len(self._shared)
        self._spans[frames, 1] = ends - frame_sizes
        self._spans[frames, 2] = ends
        sizes[frames], single[frames] = frame_sizes, False
        self._shared.append(records)
