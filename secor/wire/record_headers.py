r"""Decoding of record headers: name and nullable value, order and repeats kept.

Names are strings, but the broker does not look: bytes that are not UTF-8 are written as
``\xNN`` (Python's ``backslashreplace``), because a producer's slip must not stop a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE
from secor.wire.records import BadRecord, Fields, gather
from secor.wire.varints import (
    VARINT,
    Bytes,
    Numbers,
    Overlong,
    Places,
    read_many,
    read_one,
    windows,
)

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
    fours, positions = windows(data), fields.headers_at
    for _ in range(count):
        name = _name_of_all(raw, data, positions)
        if name is None:
            return None
        names.append(name)
        positions = positions + (1 + len(name))
        if (positions >= fields.end).any():
            return None
        try:
            length, place = read_many(data, fours, positions, VARINT)
        except Overlong:
            return None
        value_at.append(place)
        value_length.append(length)
        # A length of -1 is null, and has no bytes.
        positions = place + np.maximum(length, 0)
        if (positions > fields.end).any():
            return None
    if (positions != fields.end).any():
        return None
    return _column(names, _values(value_at, value_length, buffer))


def _name_of_all(raw: bytes, data: Bytes, positions: Places) -> bytes | None:
    """Return the name at these places, its length in front of it; None unless it is one."""
    first = int(positions[0])
    length = raw[first] >> 1
    if raw[first] & 0x81 or length > LONGEST_NAME or (data[positions] != raw[first]).any():
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
        words = eights[positions + (1 + start)]
        if len(part) < _EIGHT:
            # Of the last eight bytes only those of the name: what follows is the value's length.
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
    places = [int(positions[0] - begin[0]) for positions in value_at]
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


FEW = 32
"""Headers of a record that are read as vectors over the records; those behind, one by one."""

_NO_ENTRIES = pa.nulls(0, HEADERS_TYPE.value_type)

Columns = npt.NDArray[np.int64]
"""Headers as rows of: record, number in the record, name at and length, value at and length."""


def no_headers(rows: int) -> pa.Array:
    """Return a headers column of ``rows`` empty lists."""
    # pa.array would import pandas where that is installed: half a second, and 30 MB.
    offsets = pa.py_buffer(bytes(4 * (rows + 1)))
    return pa.ListArray.from_buffers(HEADERS_TYPE, rows, [None, offsets], children=[_NO_ENTRIES])


def read_headers(raw: bytes, data: Bytes, buffer: pa.Buffer, fields: Fields) -> pa.Array:
    """Return the headers column of all records of the buffer (in its three disguises).

    Raises ``BadRecord``.
    """
    if (column := same_names(raw, data, buffer, fields)) is not None:
        return column
    places = np.concatenate(list(_headers(raw, data, fields)))
    # The vectors have the first headers of all records, then the second ones: here they come record
    # by record.
    places = places[np.lexsort((places[:, 1], places[:, 0]))]
    names = gather(buffer, places[:, 2], places[:, 3])
    values = gather(buffer, places[:, 4], places[:, 5])
    offsets = np.zeros(len(fields.end) + 1, np.int32)
    np.cumsum(fields.header_count, out=offsets[1:])
    entries = pa.StructArray.from_arrays(
        [to_strings(names), values], fields=list(HEADERS_TYPE.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=HEADERS_TYPE)


def to_strings(names: pa.Array) -> pa.Array:
    """Return binary names as strings, what is no UTF-8 in them escaped."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [name.decode("utf-8", "backslashreplace") for name in names.to_pylist()]
        return pa.array(decoded, pa.string())


@dataclass(frozen=True, slots=True)
class _Walk:
    """The state of reading the headers of some records."""

    rows: Places
    positions: Places
    left: Columns
    end: Places

    def only(self, which: npt.NDArray[np.bool_]) -> _Walk:
        return _Walk(self.rows[which], self.positions[which], self.left[which], self.end[which])


def _headers(raw: bytes, data: Bytes, fields: Fields) -> Iterator[Columns]:
    counts = fields.header_count.astype(np.int64)
    everything = _Walk(
        np.arange(len(counts), dtype=np.int64), fields.headers_at, counts, fields.end
    )
    walk = everything.only(counts > 0)
    fours = windows(data)
    for number in range(FEW):
        columns, positions = _one_of_each(data, fours, walk, number)
        yield columns
        left = walk.left - 1
        _check_ends(walk.rows, positions == walk.end, left == 0)
        walk = _Walk(walk.rows, positions, left, walk.end).only(left > 0)
        if not len(walk.rows):
            return
    for row, position_, left_, end in zip(
        walk.rows, walk.positions, walk.left, walk.end, strict=True
    ):
        yield _rest_of_one(raw, int(row), int(position_), int(left_), int(end))


def _one_of_each(
    data: Bytes, fours: npt.NDArray[np.uint32], walk: _Walk, number: int
) -> tuple[Columns, Places]:
    try:
        name_length, name_at = read_many(data, fours, walk.positions, VARINT)
        positions = name_at + np.maximum(name_length, 0)
        _inside(walk.rows, (name_length >= 0) & (positions < walk.end), "a header's name")
        value_length, value_at = read_many(data, fours, positions, VARINT)
    except Overlong as error:
        raise BadRecord(int(walk.rows[error.place]), "a number has too many bytes") from None
    after = value_at + np.maximum(value_length, 0)
    _inside(walk.rows, after <= walk.end, "a header's value")
    numbers = np.full(len(walk.rows), number, np.int64)
    columns = [walk.rows, numbers, name_at, name_length, value_at, value_length]
    return np.stack(columns, axis=1).astype(np.int64, copy=False), after


def _inside(rows: Places, truths: npt.NDArray[np.bool_], what: str) -> None:
    if not truths.all():
        raise BadRecord(int(rows[np.flatnonzero(~truths)[0]]), f"{what} leads out of the record")


def _check_ends(rows: Places, at_end: npt.NDArray[np.bool_], last: npt.NDArray[np.bool_]) -> None:
    wrong = last & ~at_end
    if wrong.any():
        row = int(rows[np.flatnonzero(wrong)[0]])
        raise BadRecord(row, "the record goes on behind its last header")


def _rest_of_one(raw: bytes, row: int, position: int, left: int, end: int) -> Columns:
    places = np.empty((left, 6), np.int64)
    try:
        for index in range(left):
            name_length, name_at = read_one(raw, position)
            value_length, value_at = read_one(raw, name_at + max(name_length, 0))
            position = value_at + max(value_length, 0)
            if name_length < 0 or position > end:
                raise BadRecord(row, "a header leads out of the record")
            places[index] = (row, FEW + index, name_at, name_length, value_at, value_length)
    except (IndexError, Overlong):
        raise BadRecord(row, "a header leads out of the record") from None
    if position != end:
        raise BadRecord(row, "the record goes on behind its last header")
    return places
