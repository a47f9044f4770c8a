r"""Decoding of record headers: name and nullable value, order and repeats kept.

Names are strings, but the broker does not look: bytes that are not UTF-8 are written as
``\xNN`` (Python's ``backslashreplace``), because a producer's slip must not stop a partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.core.model import HEADERS_TYPE
from secor.wire.records import BadRecord, Fields, gather
from secor.wire.same_headers import same_names
from secor.wire.varints import VARINT, Bytes, Overlong, Places, read_many, read_one, windows

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
    """Where the reading of the headers of some records stands."""

    rows: Places
    at: Places
    left: Columns
    end: Places

    def only(self, which: npt.NDArray[np.bool_]) -> _Walk:
        return _Walk(self.rows[which], self.at[which], self.left[which], self.end[which])


def _headers(raw: bytes, data: Bytes, fields: Fields) -> Iterator[Columns]:
    counts = fields.header_count.astype(np.int64)
    everything = _Walk(
        np.arange(len(counts), dtype=np.int64), fields.headers_at, counts, fields.end
    )
    walk = everything.only(counts > 0)
    fours = windows(data)
    for number in range(FEW):
        columns, at = _one_of_each(data, fours, walk, number)
        yield columns
        left = walk.left - 1
        _check_ends(walk.rows, at == walk.end, left == 0)
        walk = _Walk(walk.rows, at, left, walk.end).only(left > 0)
        if not len(walk.rows):
            return
    for row, at_, left_, end in zip(walk.rows, walk.at, walk.left, walk.end, strict=True):
        yield _rest_of_one(raw, int(row), int(at_), int(left_), int(end))


def _one_of_each(
    data: Bytes, fours: npt.NDArray[np.uint32], walk: _Walk, number: int
) -> tuple[Columns, Places]:
    try:
        name_length, name_at = read_many(data, fours, walk.at, VARINT)
        at = name_at + np.maximum(name_length, 0)
        _inside(walk.rows, (name_length >= 0) & (at < walk.end), "a header's name")
        value_length, value_at = read_many(data, fours, at, VARINT)
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


def _rest_of_one(raw: bytes, row: int, at: int, left: int, end: int) -> Columns:
    places = np.empty((left, 6), np.int64)
    try:
        for index in range(left):
            name_length, name_at = read_one(raw, at)
            value_length, value_at = read_one(raw, name_at + max(name_length, 0))
            at = value_at + max(value_length, 0)
            if name_length < 0 or at > end:
                raise BadRecord(row, "a header leads out of the record")
            places[index] = (row, FEW + index, name_at, name_length, value_at, value_length)
    except (IndexError, Overlong):
        raise BadRecord(row, "a header leads out of the record") from None
    if at != end:
        raise BadRecord(row, "the record goes on behind its last header")
    return places
