"""The compiled decoder, where it was built; ``extension`` is None where numpy works.

It is two C files next to this one, compiled at installation if there is a compiler.  What was
built from another version of these files is never used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE, SCHEMA
from secor.wire.batch_header import Buffer, Headers
from secor.wire.codecs import CODECS
from secor.wire.record_headers import no_headers, to_strings

SWITCH = "NO_SECOR_EXTENSION"
"""The environment variable that keeps the extension from being built, and from being used."""

SOURCES = [Path(__file__).with_name(name) for name in ("_compiled.c", "_small_frames.c")]
BUILD = "'pip install -e .' in a checkout builds it, or pip with a C compiler on the PATH"

Buffers = tuple[bytes | None, bytes, bytes]
"""A binary column: its validity, offsets and data."""
HeaderBuffers = tuple[bytes, int, Buffers, Buffers, bool]
"""Offsets of the lists, the number of headers, names, values, and whether names are ASCII."""
Result = tuple[
    int, bytes, bytes, bytes | None, bytes, Buffers, Buffers, HeaderBuffers | None
]  # see decode_doc in the C file
Walked = tuple[bytes, bytes, bytes]  # see walk_doc

Int64s = npt.NDArray[np.int64]

_BINARY, _STRING = pa.binary(), pa.string()
_ENTRY = list(HEADERS_TYPE.value_type)


class Extension(Protocol):
    """The compiled functions; the C files describe them."""

    SOURCE_CRC32: int
    SMALL_CODECS: tuple[int, ...]
    """Kafka's numbers of the codecs that ``decompress_frames`` knows on this machine."""

    def walk(self, data: bytes, /) -> Walked | None:
        """Find the batches of a fetch."""

    def decode(
        self, buffers: Sequence[Buffer], spans: memoryview, heads: memoryview, /
    ) -> Result | None:
        """Decode the records of batches."""

    def decompress_frames(
        self, codec: int, data: Buffer, spans: memoryview, most: int, room: int, /
    ) -> tuple[bytearray, bytes]:
        """Decompress small frames."""


def load() -> tuple[Extension | None, str]:
    """Return the extension and its name; without it None, and why numpy is used."""
    if os.environ.get(SWITCH):
        return None, f"numpy, because {SWITCH} is set"
    try:
        loaded = cast("Extension", import_module("secor.wire._compiled"))
    except ImportError as error:
        return None, f"numpy, because the compiled extension is not there ({error}); {BUILD}"
    # A checkout that was updated keeps the old build, which may decode in another way than its
    # sources say.
    if crc32(b"".join(source.read_bytes() for source in SOURCES)) != loaded.SOURCE_CRC32:
        return None, f"numpy, because the compiled extension is of another version; {BUILD}"
    absent = [CODECS[codec] for codec in range(1, 5) if codec not in loaded.SMALL_CODECS]
    slow = (
        f"; small batches by {' and '.join(absent)} are slow without its library" if absent else ""
    )
    return loaded, f"compiled{slow}"


extension, DECODER = load()
"""``DECODER`` says for people which is in use, and why it is not the compiled one."""


def decompress_frames(
    codec: int, data: Buffer, spans: Int64s, most: int, room: int
) -> tuple[Buffer, Int64s]:
    """Decompress many small frames in one call: their records, one behind the other, and sizes.

    ``spans`` has a row for each frame: its begin and end in ``data``. ``most`` is in bytes of one
    frame decompressed, ``room`` of all. A size is -1 where the codec's library has to look at the
    frame: it is not right, of a rare kind, or has no room; or nothing is compiled for this codec.
    """
    if extension is None or codec not in extension.SMALL_CODECS:
        return b"", np.full(len(spans), -1, np.int64)
    records, sizes = extension.decompress_frames(
        codec, data, memoryview(spans.tobytes()), most, room
    )
    return records, np.frombuffer(sizes, np.int64)


def decode_records(
    buffers: Sequence[Buffer], spans: Int64s, heads: Headers
) -> pa.RecordBatch | None:
    """Return the records of batches in ``SCHEMA``.

    ``spans`` has a row for each batch: the buffer, where its records begin there and end.
    None where there is no extension, and where a record is wrong: numpy says how.
    """
    if extension is None:
        return None
    result = extension.decode(buffers, memoryview(spans.tobytes()), memoryview(heads.tobytes()))
    if result is None:
        return None
    rows, offsets, timestamps, timed, types, keys, values, headers = result
    columns = [
        _fixed(pa.int64(), rows, None, offsets),
        _fixed(pa.int64(), rows, timed, timestamps),
        _fixed(pa.int8(), rows, None, types),
        _binary(rows, keys),
        _binary(rows, values),
        no_headers(rows) if headers is None else _headers(rows, headers),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _fixed(kind: pa.DataType, rows: int, valid: bytes | None, values: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [_buffer(valid), pa.py_buffer(values)])


def _binary(rows: int, column: Buffers, kind: pa.DataType = _BINARY) -> pa.Array:
    valid, offsets, data = column
    buffers = [_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, -1 if valid else 0)


def _buffer(valid: bytes | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(valid)


def _headers(rows: int, headers: HeaderBuffers) -> pa.Array:
    lists, count, names, values, ascii_names = headers
    keys = _binary(count, names, _STRING) if ascii_names else to_strings(_binary(count, names))
    entries = pa.StructArray.from_arrays([keys, _binary(count, values)], fields=_ENTRY)
    offsets = _fixed(pa.int32(), rows + 1, None, lists)
    return pa.ListArray.from_arrays(offsets, entries, type=HEADERS_TYPE)
