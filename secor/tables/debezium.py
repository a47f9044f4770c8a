"""Debezium's envelopes as changes of rows: ``op``, ``before`` and ``after``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.parsing.fields import field_at, texts
from secor.tables.row_changes import DELETE, MOST_SHOWN, UPSERT, ReadChanges, Truths, among

UPSERTS = ("c", "r", "u")
DELETES = ("d",)


def read_envelopes(
    rows: npt.NDArray[np.int64], fields: pa.StructArray, changed_rows: ReadChanges
) -> list[npt.NDArray[np.int64]]:
    """Read Debezium's envelopes; return the rows of deletions that only their key tells."""
    if not len(rows):
        return []
    envelopes = unwrap(fields)
    values = texts(field_at(envelopes, "op"))
    before, after = field_at(envelopes, "before"), field_at(envelopes, "after")
    sides = {UPSERT: after, DELETE: before}
    deletes = among(values, DELETES)
    by_key = deletes & ~_present(before)
    upserts = among(values, UPSERTS) & _present(after)
    operations = np.where(upserts, UPSERT, np.where(deletes & ~by_key, DELETE, -1))
    for at in np.flatnonzero((operations < 0) & ~by_key).tolist():
        changed_rows.bad[int(rows[at])] = _why_no_envelope(values.at(at))
    for operation, side in sides.items():
        if pa.types.is_struct(side.type):
            changed_rows.add(rows, np.where(operations == operation, operation, -1), side)
        else:
            wrong = rows[operations == operation].tolist()
            changed_rows.bad |= dict.fromkeys(wrong, "no Debezium envelope: its row is no object")
    return [rows[by_key]]


def _present(column: pa.Array) -> Truths:
    present: Truths = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _why_no_envelope(operation: str | None) -> str:
    if operation is None:
        return "no Debezium envelope: it has no op; name the operation_field of flat messages"
    if operation == "t":
        return "truncates the table: delete the rows yourself, and drop this message"
    if operation in UPSERTS:
        return f"Debezium's {operation!r} without after"
    return f"op is {operation[:MOST_SHOWN]!r}: no known operation"


def unwrap(fields: pa.StructArray) -> pa.StructArray:
    """Return envelopes without the schema that the JSON converter puts around them."""
    payload = field_at(fields, "payload")
    if not pa.types.is_struct(payload.type) or not payload.is_valid().true_count:
        return fields
    names = ("op", "before", "after")
    outer = {name: field_at(fields, name) for name in names}
    inner = {name: field_at(payload, name) for name in names}
    if not any(column.is_valid().true_count for column in outer.values()):
        return payload
    # Some are wrapped and some are not: each message is read by what it has itself.
    wrapped = payload.is_valid().to_numpy(zero_copy_only=False)
    pieces = []
    for name in names:
        first, second = inner[name], outer[name]
        if first.type != second.type:
            pieces.append(_merge_by_text(wrapped, first, second))
        else:
            pieces.append(pc.if_else(pa.array(wrapped), first, second))
    return pa.StructArray.from_arrays(pieces, list(names))


def _merge_by_text(wrapped: Truths, first: pa.Array, second: pa.Array) -> pa.Array:
    merged = [
        a if inner else b
        for inner, a, b in zip(wrapped, first.to_pylist(), second.to_pylist(), strict=True)
    ]
    return pa.array(merged)
