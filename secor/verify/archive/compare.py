"""Whole columns against whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from secor.core.model import SCHEMA


@dataclass(frozen=True, slots=True)
class ObjectRecords:
    """Records of one object with non-decreasing offsets.

    Of an offset in rows of several generations those of the greatest count; ``offsets_only``
    says that nothing else of them can be compared.
    """

    records: pa.RecordBatch
    generation: int
    values_only: bool
    key: str
    offsets_only: bool = False


@dataclass(frozen=True, slots=True)
class CombinedRecords:
    """Records of a window, each offset once; ``twice`` and ``superseded`` were left out."""

    records: pa.RecordBatch
    offsets: np.ndarray
    values_only: np.ndarray
    offsets_only: np.ndarray
    twice: np.ndarray
    superseded: int


def combine(rows: Sequence[ObjectRecords]) -> CombinedRecords:
    """Sort a window's records by offset; the greatest generation counts."""
    none = np.empty(0, np.int64)
    if not rows:
        empty = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        return CombinedRecords(empty, none, np.empty(0, bool), np.empty(0, bool), none, 0)
    records = rows[0].records if len(rows) == 1 else pa.concat_batches([r.records for r in rows])
    offsets = offsets_of(records)
    sizes = [r.records.num_rows for r in rows]
    lossy = np.repeat([r.values_only for r in rows], sizes)
    bare = np.repeat([r.offsets_only for r in rows], sizes)
    if (offsets[1:] > offsets[:-1]).all():
        return CombinedRecords(records, offsets, lossy, bare, none, 0)
    generations = np.repeat([r.generation for r in rows], sizes)
    order = np.lexsort((-generations, offsets))
    offsets, generations = offsets[order], generations[order]
    first = np.concatenate(([True], offsets[1:] != offsets[:-1]))
    greatest = generations[first][np.cumsum(first) - 1]
    again = ~first & (generations == greatest)
    kept = order[first]
    return CombinedRecords(
        records.take(pa.array(kept)),
        offsets[first],
        lossy[kept],
        bare[kept],
        offsets[again],
        int((~first & ~again).sum()),
    )


def offsets_of(records: pa.RecordBatch) -> np.ndarray:
    """Return the offset column, which has no nulls, as int64."""
    return records.column("offset").to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def differing(log: pa.RecordBatch, stored: pa.RecordBatch, values_only: np.ndarray) -> np.ndarray:
    """Return the rows in which two batches of the same offsets are not the same message.

    Where only payloads were recorded, a null payload and an empty one are alike.
    """
    if values_only.all():
        return _different_in(log, stored, ("value",), lossy=True)
    if not values_only.any():
        return _different_in(log, stored, SCHEMA.names, lossy=False)
    differences = []
    for lossy in (False, True):
        rows = np.flatnonzero(values_only == lossy)
        taken = pa.array(rows)
        names = ("value",) if lossy else tuple(SCHEMA.names)
        differences.append(
            rows[_different_in(log.take(taken), stored.take(taken), names, lossy=lossy)]
        )
    return np.sort(np.concatenate(differences))


def _different_in(
    log: pa.RecordBatch, stored: pa.RecordBatch, names: Sequence[str], *, lossy: bool
) -> np.ndarray:
    wrong = np.zeros(log.num_rows, bool)
    for name in names:
        log_values, stored_values = log.column(name), stored.column(name)
        if name == "timestamp_type":  # messages so old that they have none read back as 0
            log_values, stored_values = log_values.fill_null(0), stored_values.fill_null(0)
        if log_values.equals(stored_values) or (
            name == "headers" and _no_headers(log_values, stored_values)
        ):
            continue
        # Row by row only in a window that is known to differ, or holds lossy rows.
        pairs = zip(log_values.to_pylist(), stored_values.to_pylist(), strict=True)
        if lossy or name == "headers":
            wrong |= np.fromiter(((a or None) != (b or None) for a, b in pairs), bool, len(wrong))
        else:
            wrong |= np.fromiter((a != b for a, b in pairs), bool, len(wrong))
    return np.flatnonzero(wrong)


def _no_headers(log_headers: pa.Array, stored_headers: pa.Array) -> bool:
    return not len(log_headers.flatten()) and not len(stored_headers.flatten())
