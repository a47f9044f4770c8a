"""The compiled decoder, where it was built; ``decode`` and ``walk`` are None where numpy works.

It is a C file beside this one, compiled at installation where there is a compiler.  What was
built from another version of that file is never used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE, SCHEMA
from secor.wire.batch_header import Buffer, Headers
from secor.wire.record_headers import no_headers, to_strings

SWITCH = "NO_SECOR_EXTENSION"
"""The environment variable that keeps the extension from being built, and from being used."""

SOURCE = Path(__file__).with_name("_compiled.c")
BUILD = "'pip install -e .' in a checkout builds it, or pip with a C compiler on the PATH"

Buffers = tuple[bytes | None, bytes, bytes]
"""A binary column: its validity, offsets and data."""
HeaderBuffers = tuple[bytes, int, Buffers, Buffers, bool]
"""Offsets of the lists, the number of headers, names, values, and whether names are ASCII."""
Result = tuple[
    int, bytes, bytes, bytes | None, bytes, Buffers, Buffers, HeaderBuffers | None
]  # see decode_doc in the C file
Decode = Callable[[Sequence[Buffer], memoryview, memoryview], Result | None]
Walked = tuple[bytes, bytes, bytes]  # see walk_doc
Walk = Callable[[bytes], Walked | None]

Int64s = npt.NDArray[np.int64]

_BINARY, _STRING = pa.binary(), pa.string()
_ENTRY = list(HEADERS_TYPE.value_type)


def load() -> tuple[Decode | None, Walk | None, str]:
    """Return the compiled functions and their name; without them None, and why numpy is used."""
    if os.environ.get(SWITCH):
        return None, None, f"numpy, because {SWITCH} is set"
    try:
        extension = import_module("secor.wire._compiled")
    except ImportError as error:
        return None, None, f"numpy, because the compiled extension is not there ({error}); {BUILD}"
    if crc32(SOURCE.read_bytes()) != extension.SOURCE_CRC32:
        return None, None, f"numpy, because the compiled extension is of another version; {BUILD}"
    return extension.decode, extension.walk, "compiled"


decode, walk, DECODER = load()
"""``DECODER`` says for people which is in use, and why it is not the compiled one."""


def decode_records(
    buffers: Sequence[Buffer], spans: Int64s, heads: Headers
) -> pa.RecordBatch | None:
    """Return the records of batches in ``SCHEMA``.

    ``spans`` has a row for each batch: the buffer, where its records begin there and end.
    None where there is no extension, and where a record is wrong: numpy says how.
    """
    if decode is None:
        return None
    result = decode(buffers, memoryview(spans.tobytes()), memoryview(heads.tobytes()))
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
