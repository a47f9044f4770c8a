"""Record headers of which all records have the same names in the same order.

That is how tracing and routing write them.  Then names are compared, not decoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE
from secor.wire.records import Fields, gather
from secor.wire.varints import VARINT, Bytes, Numbers, Overlong, Places, read_many, windows

MOST = 32
"""More headers of a record are rare."""

LONGEST_NAME = 48
"""Bytes of a name: its length is one byte on the wire, and what is read of it before it is known
to end in the record ends in the buffer's padding.
"""

_EIGHT = 8


def same_names(raw: bytes, data: Bytes, buffer: pa.Buffer, fields: Fields) -> pa.Array | None:
    """Return the headers column of all records; None where names differ or something is wrong.

    ``data`` and ``buffer`` are ``raw``, which ends with ``varints.PADDING``.
    """
    count = int(fields.header_count[0])
    if not 0 < count <= MOST or (fields.header_count != count).any():
        return None
    names: list[bytes] = []
    value_at: list[Places] = []
    value_length: list[Numbers] = []
    fours, at = windows(data), fields.headers_at
    for _ in range(count):
        name = _name_of_all(raw, data, at)
        if name is None:
            return None
        names.append(name)
        at = at + (1 + len(name))
        if (at >= fields.end).any():
            return None
        try:
            length, place = read_many(data, fours, at, VARINT)
        except Overlong:
            return None
        value_at.append(place)
        value_length.append(length)
        at = place + np.maximum(length, 0)
        if (at > fields.end).any():
            return None
    if (at != fields.end).any():
        return None
    return _column(names, _values(value_at, value_length, buffer))


def _name_of_all(raw: bytes, data: Bytes, at: Places) -> bytes | None:
    """Return the name at these places, its length in front of it; None unless it is one."""
    first = int(at[0])
    length = raw[first] >> 1
    if raw[first] & 0x81 or length > LONGEST_NAME or (data[at] != raw[first]).any():
        return None
    name = raw[first + 1 : first + 1 + length]
    try:
        name.decode()
    except UnicodeDecodeError:
        return None
    eights: npt.NDArray[np.uint64] = np.ndarray(
        (len(data) - _EIGHT + 1,), np.dtype("<u8"), data, strides=(1,)
    )
    for start in range(0, length, _EIGHT):
        part = name[start : start + _EIGHT]
        wanted = np.uint64(int.from_bytes(part, "little"))
        words = eights[at + (1 + start)]
        if len(part) < _EIGHT:
            words &= np.uint64((1 << 8 * len(part)) - 1)
        if (words != wanted).any():
            return None
    return name


def _values(
    value_at: Sequence[Places], value_length: Sequence[Numbers], buffer: pa.Buffer
) -> pa.Array:
    """Return the values row after row."""
    widths = [int(length[0]) for length in value_length]
    same = all(bool((length == length[0]).all()) for length in value_length)
    if same and len(widths) > 1 and min(widths) >= 0 and max(widths) > 0:
        return _same_sizes(value_at, widths, buffer)
    return gather(buffer, _interleave(value_at), _interleave(value_length))


def _same_sizes(value_at: Sequence[Places], widths: Sequence[int], buffer: pa.Buffer) -> pa.Array:
    """Copy all of a record's headers at once, then take the values out of the table."""
    begin, rows = value_at[0], len(value_at[0])
    places = [int(at[0] - begin[0]) for at in value_at]
    whole = places[-1] + widths[-1]
    copied = gather(buffer, begin, np.full(rows, whole))
    table = np.frombuffer(copied.buffers()[2], np.uint8, rows * whole).reshape(rows, whole)
    ends = np.cumsum(widths)
    values = np.empty((rows, int(ends[-1])), np.uint8)
    for place, width, end in zip(places, widths, ends.tolist(), strict=True):
        values[:, end - width : end] = table[:, place : place + width]
    offsets = pa.py_buffer(_offsets(ends, rows))
    length = rows * len(widths)
    return pa.BinaryArray.from_buffers(pa.binary(), length, [None, offsets, pa.py_buffer(values)])


def _offsets(ends: Places, rows: int) -> npt.NDArray[np.int32]:
    """Return the offsets of ``rows`` rows of elements that end at ``ends`` in each."""
    offsets = np.zeros(rows * len(ends) + 1, np.int32)
    offsets[1:] = (np.arange(rows)[:, np.newaxis] * ends[-1] + ends).reshape(-1)
    return offsets


def _interleave(columns: Sequence[Numbers]) -> Numbers:
    """Return the columns' numbers row after row."""
    return np.stack(columns, axis=1).reshape(-1)


def _column(names: Sequence[bytes], values: pa.Array) -> pa.Array:
    rows = len(values) // len(names)
    ends = np.cumsum([len(name) for name in names])
    places = _offsets(ends, rows)
    text = pa.py_buffer(b"".join(names) * rows)
    keys = pa.StringArray.from_buffers(len(values), pa.py_buffer(places), text)
    entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    offsets = np.arange(0, len(values) + 1, len(names), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=HEADERS_TYPE)
