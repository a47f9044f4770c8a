"""Debezium's envelopes as changes of rows: ``op``, ``before`` and ``after``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from secor.arrow.nested_arrays import text_of
from secor.core.variant_json import is_mixed
from secor.parsing.decoders.columns import build_apart
from secor.parsing.fields import field_at, parse_mixed, texts
from secor.tables.rows.row_changes import DELETE, MOST_SHOWN, UPSERT, ReadChanges, Truths, among

UPSERTS = ("c", "r", "u")
DELETES = ("d",)

TRUNCATES = (
    "truncates the table: delete the rows yourself, and drop this message; truncate in [[tables]]"
    " leaves such messages out or stops at them"
)

Rows = npt.NDArray[np.int64]


def read_envelopes(rows: Rows, fields: pa.StructArray, changed_rows: ReadChanges) -> list[Rows]:
    """Read Debezium's envelopes; return the rows of deletions that have only their key."""
    return [_read(rows[chosen], alike, changed_rows) for chosen, alike in envelopes_of(fields)]


def _read(rows: Rows, envelopes: pa.StructArray, changed_rows: ReadChanges) -> Rows:
    values = texts(field_at(envelopes, "op"))
    deletes = among(values, DELETES)
    # PostgreSQL gives no "before" under some replica identities: such a deletion has its key alone,
    # which is in the message's key.
    by_key = deletes & ~has_field(envelopes, "before")
    upserts = among(values, UPSERTS) & has_field(envelopes, "after")
    operations = np.where(upserts, UPSERT, np.where(deletes & ~by_key, DELETE, -1))
    for index in np.flatnonzero((operations < 0) & ~by_key).tolist():
        changed_rows.bad[int(rows[index])] = _why_no_envelope(values.at(index))
    for operation, side in ((UPSERT, "after"), (DELETE, "before")):
        unread = operations == operation
        for chosen, objects in objects_of(envelopes, side):
            unread_operations = np.where(unread[chosen], operation, -1)
            changed_rows.add(rows[chosen], unread_operations, objects)
            if side == "before":
                # An update that changes the key leaves a row under the old one, which only "before"
                # names.
                changed_rows.add_before(rows[chosen], operations[chosen] == UPSERT, objects)
            unread[chosen] = False
        wrong = rows[unread].tolist()
        changed_rows.bad |= dict.fromkeys(wrong, "no Debezium envelope: its row is no object")
    return rows[by_key]


def has_field(envelopes: pa.StructArray, name: str) -> Truths:
    """Return which envelopes have a value in a field."""
    present: Truths = field_at(envelopes, name).is_valid().to_numpy(zero_copy_only=False)
    return present


def _why_no_envelope(operation: str | None) -> str:
    if operation is None:
        return "no Debezium envelope: it has no op; name the operation_field of flat messages"
    if operation == "t":
        return TRUNCATES
    if operation in UPSERTS:
        return f"Debezium's {operation!r} without after"
    return f"op is {operation[:MOST_SHOWN]!r}: no known operation"


def envelopes_of(fields: pa.StructArray) -> list[tuple[Rows, pa.StructArray]]:
    """Return envelopes without the schema that the JSON converter puts around some of them.

    Those that are read alike are together, with the numbers of their rows.
    """
    wrapped = objects_of(fields, "payload")
    outer = np.ones(len(fields), dtype=bool)
    for places, _ in wrapped:
        outer[places] = False
    rest = np.flatnonzero(outer)
    if not len(rest):
        return wrapped
    return [*wrapped, (rest, fields.take(pa.array(rest)) if wrapped else fields)]


def objects_of(rows: pa.StructArray, name: str) -> list[tuple[Rows, pa.StructArray]]:
    """Return the objects in the column ``name``, and the numbers of the rows that have one.

    Where some rows have a value of another kind there, the column is text for all of them:
    the objects are read again, so that no row depends on what its neighbours have.
    """
    index = rows.type.get_field_index(name)
    if index < 0:
        return []
    column = pc.struct_field(rows, [index])
    if is_mixed(rows.type.field(index)):
        return _objects_in_text(column)
    if not pa.types.is_struct(column.type):
        return []
    valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(valid):
        return []
    return [(valid, column if len(valid) == len(column) else column.take(pa.array(valid)))]


def _objects_in_text(column: pa.Array) -> list[tuple[Rows, pa.StructArray]]:
    values = parse_mixed(column)
    chosen = np.array(
        [index for index, value in enumerate(values) if isinstance(value, dict)], np.int64
    )
    if not len(chosen):
        return []
    objects = [values[index] for index in chosen]
    sizes = text_of(column).take(pa.array(chosen)).cast(pa.binary())
    messages = pa.RecordBatch.from_arrays([sizes], ["value"])
    alike = []
    for indices, decoded in build_apart(objects, {}, messages):
        good = np.delete(np.arange(len(indices)), list(decoded.bad))
        alike.append((chosen[indices][good], decoded.rows.take(pa.array(good))))
    return alike
