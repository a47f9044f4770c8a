"""Files of other tools: compression by the first bytes, rows of Avro, Parquet, JSON."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from secor.core import foreign_avro as avro
from secor.core.text import load_json

UNREADABLE = (*avro.UNREADABLE, RuntimeError, pa.ArrowException)
"""What libraries raise over a file that is damaged, or not what it seems."""

LONGEST_LINE = 256 << 20
"""Bytes of a line of JSON: a few packed bytes may be gigabytes."""

LARGEST = 1 << 30
"""Bytes of an unpacked object that must be read as a whole."""

PARQUET_ROWS = 2000
"""Rows that are unpacked together: each may be a megabyte."""

_GZIP, _ZSTD, _PARQUET, _AVRO = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"Obj\x01"


def uncompressed(file: BinaryIO) -> BinaryIO:
    """Return the file's content, which may be compressed with gzip or zstd."""
    start = file.read(4)
    file.seek(0)
    if start.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if start == _ZSTD:
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
    return file


def rows_of(file: BinaryIO, *, array: bool = False) -> Iterator[Any]:
    """Give the rows of Avro, Parquet, or JSON lines.

    With ``array`` JSON may also be one array of rows.  Raises ``UNREADABLE``.
    """
    start = file.read(4)
    file.seek(0)
    if start == _AVRO:
        yield from avro.rows_of_file(file)
    elif start == _PARQUET:
        for batch in pq.ParquetFile(file).iter_batches(PARQUET_ROWS):
            yield from batch.to_pylist()
    else:
        yield from _json_rows(uncompressed(file), array=array)


def is_text(file: BinaryIO) -> bool:
    """Return whether a file is JSON: what was bytes is something else there."""
    start = file.read(4)
    file.seek(0)
    return start not in {_AVRO, _PARQUET}


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Give the lines.  Raises ``ValueError`` for one above ``LONGEST_LINE``."""
    number = 1
    # One byte more than is allowed, so that a line of exactly that length differs from a longer
    # one.
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number:,} has more than {LONGEST_LINE:,} bytes")
        yield line
        number += 1


def read_whole(file: BinaryIO) -> bytes:
    """Return the content, unpacked.  Raises ``ValueError`` beyond ``LARGEST``."""
    content = uncompressed(file).read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST:,} bytes when it is unpacked")
    return content


def _joined(first: bytes, lines: Iterator[bytes]) -> bytes:
    """Return all lines as one text.  Raises ``ValueError`` beyond ``LARGEST``."""
    joined, size = [first], len(first)
    for line in lines:
        joined.append(line)
        size += len(line)
        if size > LARGEST:
            raise ValueError(f"an array of more than {LARGEST:,} bytes")
    return b"".join(joined)


def _json_rows(file: BinaryIO, *, array: bool) -> Iterator[Any]:
    lines = (line for line in lines_of(file) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    if array and first.lstrip().startswith(b"["):
        yield from load_json(_joined(first, lines))
        return
    yield load_json(first)
    for line in lines:
        yield load_json(line)
