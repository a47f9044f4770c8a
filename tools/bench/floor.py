"""What no program can avoid for a case, on this machine and in this run.

Each step is the library's own C function over the bytes of the case, and nothing else.  All
figures are CPU seconds of the thread that does it, the least of several times.
"""

from __future__ import annotations

import io
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import lz4.frame
import msgspec
import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from crc32c import crc32c
from isal import isal_zlib

from secor.core.model import TopicPartition
from secor.formats import make_format
from secor.wire import decode_chunks
from tools.bench.cases import Case
from tools.bench.fill import BATCH_MESSAGES, EncodedBatch, batches

MESSAGES = 100 * BATCH_MESSAGES
"""Messages of which the floor is taken: all that ``fill`` makes distinct."""

BATCH_HEAD = 61
"""Bytes before the records of a batch of format v2."""

REPEATS = 5
_BLOCK = 1 << 20
_CODECS = {"text": "gzip", "parquet": "zstd"}
"""The codec of a format whose case names none."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What a message costs at least, in microseconds: each step, and all together.

    ``goal`` is how many times as much the daemon may take.
    """

    steps: Mapping[str, float]
    goal: float

    @property
    def total(self) -> float:
        """The sum of the steps."""
        return sum(self.steps.values())


class OneField(msgspec.Struct):
    """What the fastest reader of one field reads."""

    timestamp: int


def floor_of(case: Case, directory: Path) -> Floor:
    """Measure the steps of a case; ``directory`` is for a file."""
    seconds = dict(_reading(case.headers))
    content, codec = _content(case), _codec(case)
    compressed = _compress(content, codec)
    if codec != "none":
        seconds[f"compress, {codec}"] = _least(lambda: _compress(content, codec))
    seconds["CRC32C of what is stored"] = _least(lambda: _checksum(compressed))
    seconds["write to disk"] = _least(lambda: _write_file(compressed, directory))
    seconds["send to the store"] = _transfer(compressed, sending=True)
    if case.kind != "backup":
        seconds["read JSON"] = _parse(_values(), everything=_format(case) == "parquet")
    steps = {name: taken / MESSAGES * 1e6 for name, taken in seconds.items()}
    return Floor(steps, _goal(case, codec))


def _goal(case: Case, codec: str) -> float:
    if case.kind != "backup":
        return 2.5
    return 3.0 if codec == "none" else 1.7


@cache
def _batches(headers: int) -> Sequence[EncodedBatch]:
    return list(batches(MESSAGES, headers))


@cache
def _reading(headers: int) -> Mapping[str, float]:
    """Return the seconds of what is the same for all cases over a topic."""
    encoded = [batch.data for batch in _batches(headers)]
    return {
        "receive": _transfer(b"".join(encoded), sending=False),
        "CRC32C": _least(lambda: [crc32c(batch) for batch in encoded]),
        "decompress": _least(
            lambda: [lz4.frame.decompress(memoryview(batch)[BATCH_HEAD:]) for batch in encoded]
        ),
    }


@cache
def _records(headers: int) -> Sequence[pa.RecordBatch]:
    encoded = [batch.data for batch in _batches(headers)]
    return [chunk.records for chunk in _decoded(encoded)]


def _decoded(encoded: Sequence[bytes]) -> Sequence[Any]:
    partition = TopicPartition("bench", 0)
    # The offsets of each batch begin with 0: only a broker would give them others.
    return [chunk for batch in encoded for chunk in decode_chunks(partition, [batch], 0)]


@cache
def _values() -> bytes:
    """Return the messages' values as lines."""
    lines = [value for records in _records(0) for value in records["value"].to_pylist()]
    return b"\n".join([*lines, b""])


def _content(case: Case) -> bytes:
    """Return what a case stores, in one object and not compressed."""
    if case.kind != "backup" and _format(case) == "parquet":
        rows = pj.read_json(io.BytesIO(_values()))
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="none")
        return sink.getvalue()
    target = _Memory()
    writer = make_format(_format(case), codec="none").create(target, b"bench")
    for records in _records(case.headers):
        writer.append(records)
    writer.close()
    return target.getvalue()


class _Memory(io.BytesIO):
    """A sink in memory."""

    def write(self, data: Any, /) -> int:
        """Take ``data``."""
        return super().write(memoryview(data).cast("B"))


def _format(case: Case) -> str:
    return str(case.output.get("format", "parquet"))  # of tables, which name none


def _codec(case: Case) -> str:
    return str(case.output.get("codec", _CODECS.get(_format(case), "none")))


def _compress(content: bytes, codec: str) -> bytes:
    if codec == "none":
        return content
    blocks = (content[at : at + _BLOCK] for at in range(0, len(content), _BLOCK))
    if codec == "gzip":
        stream = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
        return b"".join([*map(stream.compress, blocks), stream.flush()])
    library = pa.Codec(codec)
    return b"".join(library.compress(block, asbytes=True) for block in blocks)


def _parse(lines: bytes, *, everything: bool) -> float:
    """Return the seconds of the fastest reader of JSON: of whole objects, or of one field."""
    readers: list[Callable[[], object]] = [
        lambda: pj.read_json(io.BytesIO(lines), pj.ReadOptions(use_threads=False))
    ]
    kind = dict[str, Any] if everything else OneField
    decoder = msgspec.json.Decoder(kind)
    readers.append(partial(decoder.decode_lines, lines))
    return min(map(_least, readers))


def _checksum(content: bytes) -> None:
    crc32c(content)


def _write_file(content: bytes, directory: Path) -> None:
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for at in range(0, len(content), _BLOCK):
            file.write(memoryview(content)[at : at + _BLOCK])


def _transfer(content: bytes, *, sending: bool) -> float:
    """Return the seconds of one side of a TCP connection over which ``content`` goes."""

    def once() -> float:
        with socket.create_server(("127.0.0.1", 0)) as server:
            here = socket.create_connection(server.getsockname())
            there, _ = server.accept()
        with closing(here), closing(there):
            other = partial(_receive, there, len(content)) if sending else partial(_send, there)
            thread = threading.Thread(target=other, args=() if sending else (content,))
            thread.start()
            before = time.thread_time()
            if sending:
                _send(here, content)
            else:
                _receive(here, len(content))
            taken = time.thread_time() - before
            thread.join()
            return taken

    return min(once() for _ in range(REPEATS))


def _send(connection: socket.socket, content: bytes) -> None:
    connection.sendall(content)


def _receive(connection: socket.socket, size: int) -> None:
    room = memoryview(bytearray(_BLOCK))
    while size > 0:
        size -= connection.recv_into(room)


def _least(step: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        before = time.thread_time()
        step()
        seconds.append(time.thread_time() - before)
    return min(seconds)
