"""Serialising of MessagePack keys: rows of big-endian fields, built column by column.

A field is a column of integers.  Each row keeps the last ``kept`` bytes of its own (none: the
row does not have the field).  Where all rows keep as many, the field has a fixed width;
where all fields have, the rows are one table and nothing is moved twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Ints = int | Longs
"""One number for all rows, or one for each."""
Mask = bool | npt.NDArray[np.bool_]

_WIDTHS = (1, 2, 4, 8)

# MessagePack's integers, by the least value of each class: first byte and bytes that follow.
_LEAST = np.array([-(1 << 31), -(1 << 15), -(1 << 7), -32, 128, 1 << 8, 1 << 16, 1 << 32])
_FIRST = np.array([0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF])
_BYTES = np.array([8, 4, 2, 1, 0, 1, 2, 4, 8])
_FIXED = 4

_VINT_LEAST = np.array([128, 1 << 8, 1 << 16, 1 << 24])
_STRING_LEAST = np.array([32, 1 << 8, 1 << 16])
_STRING_BYTES = np.array([0, 1, 2, 4])
_ARRAY_LEAST = np.array([16, 1 << 16])
_BINARY_LEAST = np.array([1 << 8, 1 << 16])


@dataclass(frozen=True, slots=True)
class IntegerField:
    """``values`` in ``width`` bytes (1, 2, 4, 8), each row keeps the last ``kept``."""

    values: Ints
    width: int
    kept: Ints


def fixed(values: Ints, width: int) -> IntegerField:
    """Return a field that every row has, whole."""
    return IntegerField(values, width, width)


def total(fields: Sequence[IntegerField]) -> Ints:
    """Return the bytes that each row's fields take."""
    result: Ints = 0
    for field in fields:
        result = result + field.kept
    return result


def msgpack_integers(values: Longs, present: Mask = True) -> list[IntegerField]:
    """Return MessagePack integers in their shortest form, for the rows that are present."""
    classes = _classes(_LEAST, values)
    first = np.where(classes == _FIXED, values & 0xFF, _FIRST[classes])
    return [
        IntegerField(first, 1, _where(present, 1)),
        IntegerField(values, 8, _where(present, _BYTES[classes])),
    ]


def msgpack_binaries(sizes: Longs, present: Mask = True) -> list[IntegerField]:
    """Return the heads of MessagePack binaries of these sizes, for the rows that are present."""
    classes = _classes(_BINARY_LEAST, sizes)
    return [
        IntegerField(0xC4 + classes, 1, _where(present, 1)),
        IntegerField(sizes, 4, _where(present, 1 << classes)),
    ]


def msgpack_strings(sizes: Longs) -> list[IntegerField]:
    """Return the heads of MessagePack strings of these sizes in bytes."""
    classes = _classes(_STRING_LEAST, sizes)
    first = np.where(classes == 0, 0xA0 + sizes, 0xD8 + classes)
    return [IntegerField(first, 1, 1), IntegerField(sizes, 4, _STRING_BYTES[classes])]


def msgpack_arrays(counts: Longs, present: Mask = True) -> list[IntegerField]:
    """Return the heads of MessagePack arrays of so many items, for the rows that are present."""
    classes = _classes(_ARRAY_LEAST, counts)
    first = np.where(classes == 0, 0x90 + counts, 0xDB + classes)
    return [
        IntegerField(first, 1, _where(present, 1)),
        IntegerField(counts, 4, _where(present, 2 * classes)),
    ]


def vints(values: Longs) -> list[IntegerField]:
    """Return non-negative 31-bit integers as ``WritableUtils.writeVInt`` does."""
    classes = _classes(_VINT_LEAST, values)
    return [
        IntegerField(np.where(classes == 0, values, 0x90 - classes), 1, 1),
        IntegerField(values, 4, classes),
    ]


def flags(byte: int, present: Mask) -> IntegerField:
    """Return one constant byte in the rows that are present."""
    return IntegerField(byte, 1, _where(present, 1))


def assemble(fields: Sequence[IntegerField], rows: int) -> pa.Array:
    """Return one binary per row: its fields, one after the other."""
    narrow = [slim for slim in map(_narrow, fields) if not _is_nothing(slim)]
    width = sum(field.width for field in narrow)
    table = np.empty((rows, width), np.uint8)
    keep: npt.NDArray[np.bool_] | None = None
    column = 0
    for field in narrow:
        # A strided view of big-endian integers: one pass, whatever the row's width.
        np.ndarray((rows,), f">u{field.width}", table, column, (width,))[:] = field.values
        if not isinstance(field.kept, int):
            keep = np.ones((rows, width), np.bool_) if keep is None else keep
            for byte in range(field.width):
                keep[:, column + byte] = field.kept >= field.width - byte
        column += field.width
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.broadcast_to(np.asarray(total(narrow)), (rows,)), out=offsets[1:])
    return binaries(offsets, table if keep is None else table[keep])


def binaries(offsets: npt.NDArray[np.int32], data: object, valid: Mask = True) -> pa.Array:
    """Return a binary array over ``data``, without a copy."""
    rows = len(offsets) - 1
    bitmap = None
    if valid is not True:
        bits = np.broadcast_to(np.asarray(valid), (rows,))
        bitmap = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), rows, buffers)


def join(pieces: Sequence[pa.Array]) -> pa.Array:
    """Return the pieces of each row in one binary, contiguous over all rows; null is empty."""
    if len(pieces) == 1:
        return pieces[0]
    return pc.binary_join_element_wise(
        *pieces, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def content(array: pa.Array) -> tuple[Longs, memoryview]:
    """Return the offsets of an array of ``join`` (rows + 1 of them) and its bytes."""
    buffers = array.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = memoryview(buffers[2]) if buffers[2] is not None else memoryview(b"")
    return offsets.astype(np.int64), data.cast("B")


def binary_sizes(column: pa.Array) -> Longs:
    """Return the bytes of each binary, 0 for nulls."""
    sizes: Longs = without_nulls(pc.binary_length(column)).to_numpy().astype(np.int64)
    return sizes


def without_nulls(column: pa.Array) -> pa.Array:
    """Return numbers with 0 for nulls."""
    return pc.fill_null(column, 0) if column.null_count else column


def valid_rows(column: pa.Array) -> Mask:
    """Return which rows are not null."""
    if column.null_count == 0:
        return True
    if column.null_count == len(column):
        return False
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def negate(mask: Mask) -> Mask:
    """Return the other rows."""
    return not mask if isinstance(mask, bool) else ~mask


def _classes(least: Longs, values: Longs) -> Longs:
    """Return how many of ``least`` each value reaches; cheap when all reach as many."""
    low, high = np.searchsorted(least, [values.min(), values.max()], "right")
    if low == high:
        return np.full(1, low, np.int64)  # one value for all rows: it broadcasts
    return np.searchsorted(least, values, "right").astype(np.int64, copy=False)


def _where(present: Mask, kept: Ints) -> Ints:
    if present is True:
        return kept
    return np.where(present, kept, 0)


def _narrow(field: IntegerField) -> IntegerField:
    """Make ``kept`` one number, and the field no wider than that, where possible."""
    low, high = int(np.min(field.kept)), int(np.max(field.kept))
    if high == 0:
        return IntegerField(field.values, 1, 0)
    width = next(width for width in _WIDTHS if width >= high)
    return IntegerField(field.values, width, high if low == high == width else _each(field.kept))


def _each(kept: Ints) -> Longs:
    return np.asarray(kept, np.int64)


def _is_nothing(field: IntegerField) -> bool:
    return isinstance(field.kept, int) and field.kept == 0
