"""The pieces of the path alone, in this process, one after the other."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from crc32c import crc32c

from secor.core.errors import Unavailable
from secor.core.model import Chunk, TopicPartition
from secor.core.ports import Assigned, Fetched, LogFormat, MessageSource, ObjectStore, ReadFailure
from secor.formats import make_format
from secor.wire import decode_chunks, walk_batches
from tools.bench.fill import COMPRESSORS, encode_batch, values

LOOKED_AT = 32 << 20
"""Bytes of fetched batches that are looked at: some 80 MB when decoded."""
SMALL_FETCH = 1 << 20
BATCH_SIZES = (1, 10, 500)
DISTINCT_MESSAGES = 1000
REPEATS = 3
WITHIN = 120.0
_SMALL = TopicPartition("bench", 0)

FORMATS = (
    ("frame as sequencefile", "sequencefile", "none"),
    ("frame and compress, sequencefile gzip", "sequencefile", "gzip"),
    ("frame as text", "text", "none"),
    ("frame and compress, text gzip", "text", "gzip"),
    ("frame and compress, parquet zstd", "parquet", "zstd"),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step costs: CPU microseconds a message, the least of several runs."""

    name: str
    cpu_us: float


class _FileSink:
    """Counts what a format writes, and keeps it in a file when there is one."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = path.open("wb") if path else None
        self.crc32c = 0

    def write(self, data: bytes | bytearray | memoryview | pa.Buffer, /) -> None:
        if self._file is not None:
            self.crc32c = crc32c(memoryview(data).cast("B"), self.crc32c)
            self._file.write(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def measure(
    source: MessageSource, store: ObjectStore, *, prefix: str, directory: Path, size: int
) -> Iterator[Piece]:
    """Fetch, decode, frame, compress and put the first ``size`` bytes of the source's topic.

    Closes ``source``.  ``directory`` is for a file to put, ``prefix`` for its keys.
    """
    with closing(source):
        before = time.process_time()
        fetched = _fetch(source, size)
        fetching = time.process_time() - before
        # Before the end of the source, which forgets what it has delivered; it may fetch
        # meanwhile, in threads that do not count.
        chunks = [chunk for event in fetched for chunk in event.chunks()]
        decoding = _least(partial(_decode, fetched), time.thread_time)
    messages = sum(chunk.records.num_rows for chunk in chunks)

    def micros(seconds: float) -> float:
        return seconds / messages * 1e6

    yield Piece("fetch", micros(fetching))
    yield Piece("decode", micros(decoding))
    yield from measure_small_batches()
    for name, kind, codec in FORMATS:
        log_format = make_format(kind, codec=codec)
        seconds = _least(partial(_write, log_format, chunks, _FileSink()))
        yield Piece(name, micros(seconds))
    yield Piece("put, sequencefile", micros(_put(store, prefix, chunks, directory / "object")))


def measure_small_batches(size: int = SMALL_FETCH) -> Iterator[Piece]:
    """Take apart and decode fetches of ``size`` bytes, with few and many messages a batch."""
    for codec in COMPRESSORS:
        for count in BATCH_SIZES:
            data, messages = fetch_of(count, size, codec=codec)
            seconds = _least(partial(_take_apart, data), time.thread_time)
            name = f"take apart and decode, {count} messages a batch, {codec}"
            yield Piece(name, seconds / messages * 1e6)


def fetch_of(count: int, size: int, *, codec: str = "none") -> tuple[bytes, int]:
    """Return a fetch of batches of ``count`` messages, by a codec, and all its messages."""
    distinct = [
        encode_batch(values(count, seed=seed), codec=codec).data
        for seed in range(max(4, DISTINCT_MESSAGES // count))
    ]
    data, messages = bytearray(), 0
    while len(data) < size:
        at = len(data)
        data += distinct[messages // count % len(distinct)]
        # The base offset stands first, and is not in the checksum.
        struct.pack_into(">q", data, at, messages)
        messages += count
    return bytes(data), messages


def _take_apart(data: bytes) -> None:
    run = walk_batches(data)
    if run is None:
        raise ValueError("a batch that was made here is damaged")
    for _ in decode_chunks(_SMALL, run, 0, check_crc=False):
        pass


def _fetch(source: MessageSource, size: int) -> Sequence[Fetched]:
    batches: list[Fetched] = []
    deadline = time.monotonic() + WITHIN
    while (reached := sum(event.size for event in batches)) < size:
        if time.monotonic() > deadline:
            raise Unavailable(f"the source gave {reached} of {size} bytes in {WITHIN:.0f} s")
        for event in source.poll(0.5):
            match event:
                case Assigned(partitions):
                    for topic_partition in partitions:
                        source.start(topic_partition, 0)
                case Fetched():
                    batches.append(event)
                case ReadFailure(error=error):
                    raise error
                case _:
                    pass
    return batches


def _decode(fetched: Sequence[Fetched]) -> None:
    for event in fetched:
        for _ in event.chunks():
            pass


def _write(log_format: LogFormat, chunks: Sequence[Chunk], sink: _FileSink) -> None:
    writer = log_format.create(sink, b"bench")
    for chunk in chunks:
        writer.append(chunk.records)
    writer.close()


def _put(store: ObjectStore, prefix: str, chunks: Sequence[Chunk], path: Path) -> float:
    sink = _FileSink(path)
    with closing(sink):
        _write(make_format("sequencefile", codec="none"), chunks, sink)
    keys = iter(range(REPEATS))

    def put() -> None:
        key = f"{prefix}/piece/{next(keys)}"
        store.put(key, path, sink.crc32c, {})

    return _least(put)


def _least(step: Callable[[], None], clock: Callable[[], float] = time.process_time) -> float:
    seconds = []
    for _ in range(REPEATS):
        before = clock()
        step()
        seconds.append(clock() - before)
    return min(seconds)
