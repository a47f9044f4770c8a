"""Framing of SequenceFiles by a compiled extension, where it was built.

It is a C file next to this one, compiled with that of ``secor.wire`` (see there).  ``records`` and
``blocks`` are None where numpy does its work; what was built from another version of the file
is never used.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from zlib import crc32

import pyarrow as pa

from secor.core.model import SCHEMA

SWITCH = "NO_SECOR_EXTENSION"
"""The environment variable that keeps extensions from being built, and from being used."""

SOURCE = Path(__file__).with_name("_framing.c")

Column = tuple[int, pa.Buffer | None, pa.Buffer, pa.Buffer | None]
"""The first row, validity, numbers or places, and bytes."""
Framed = tuple[bytes, int]
"""Records, and how many bytes came since the last sync marker."""
Ends = list[tuple[int, int, int, int, int]]
"""Rows, and bytes of each of the four columns, up to where a block ends, and in all."""
Blocks = tuple[bytes, bytes, bytes, bytes, Ends, int]
"""The columns, and how many bytes of keys and values came since the last block's end."""


def load() -> ModuleType | None:
    """Return the extension; None where it is not to be used."""
    if os.environ.get(SWITCH):
        return None
    try:
        loaded = import_module("secor.formats.sequencefile._framing")
    except ImportError:
        return None
    return loaded if crc32(SOURCE.read_bytes()) == loaded.SOURCE_CRC32 else None


extension = load()


def frame_records(
    records: pa.RecordBatch, *, legacy: bool, largest: int, interval: int, marker: bytes, since: int
) -> Framed | None:
    """Return rows as records; None where numpy has to, or one is above ``largest`` bytes.

    ``marker`` goes before a record when at least ``interval`` bytes came since the last one;
    ``since`` of them were there before.
    """
    columns = None if extension is None else _columns(records)
    if extension is None or columns is None:
        return None
    rows = records.num_rows
    framed: Framed | None = extension.records(
        columns, rows, legacy, largest, interval, marker, since
    )
    return framed


def frame_blocks(
    records: pa.RecordBatch, *, legacy: bool, largest: int, most: int, size: int
) -> Blocks | None:
    """Return rows as the columns of blocks; None where numpy has to, as for records.

    A block ends with the row whose key and value reach ``most`` bytes; ``size`` of them were
    there before.
    """
    columns = None if extension is None else _columns(records)
    if extension is None or columns is None:
        return None
    blocks: Blocks | None = extension.blocks(columns, records.num_rows, legacy, largest, most, size)
    return blocks


def _columns(records: pa.RecordBatch) -> tuple[Column, ...] | None:
    """Return the columns as the extension takes them; None for what it does not know."""
    if not records.schema.equals(SCHEMA):
        return None
    names = ("offset", "timestamp", "timestamp_type", "key", "value")
    columns = [_column(records.column(name)) for name in names]
    lists = records.column("headers")
    if records.column("offset").null_count or lists.null_count:
        return None
    # Not all of a column's headers need be of these rows.
    places = lists.offsets
    if places[-1] == places[0]:
        return tuple(columns)
    headers = lists.values
    if headers.null_count or headers.field("key").null_count:
        return None
    columns.append(_column(lists))
    columns += [_column(headers.field(name)) for name in ("key", "value")]
    return tuple(columns)


def _column(array: pa.Array) -> Column:
    valid, first, *rest = array.buffers()
    if first is None:
        first = _NO_PLACES
    second = rest[0] if rest and not pa.types.is_nested(array.type) else None
    return array.offset, valid if array.null_count else None, first, second


_NO_PLACES = pa.py_buffer(bytes(4))
"""Arrow may leave out the places of no rows."""
