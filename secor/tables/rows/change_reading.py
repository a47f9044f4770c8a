"""Messages as changes of rows: which operation each one is, and the row or key it is about.

A message is an upsert of a whole row, or a deletion by key.  Nothing here looks at the table's
rows: an engine merges what is staged (``tables.merging``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secor.arrow.nested_arrays import children, struct_of
from secor.core.model import Chunk
from secor.parsing.decoders.keys import KeyReader
from secor.parsing.fields import field_at, texts
from secor.tables.rows.debezium import envelopes_of, objects_of, read_envelopes
from secor.tables.rows.row_changes import (
    DELETE,
    DELETED,
    MOST_SHOWN,
    UPSERT,
    Changes,
    ChangeSettings,
    ReadChanges,
    among,
)
from secor.tables.rows.row_keys import read_keys
from secor.tables.rows.unavailable_values import without_placeholders


def read_changes(
    settings: ChangeSettings,
    key: Sequence[str],
    rows: npt.NDArray[np.int64],
    decoded: pa.StructArray,
    chunk: Chunk,
    reader: KeyReader | None = None,
) -> ReadChanges:
    """Return what the messages ``rows`` do; ``decoded`` and ``chunk`` have all of the work.

    ``reader`` reads the keys of deletions, where that is configured.
    """
    changed_rows = ReadChanges()
    values = chunk.records.column("value").is_valid().to_numpy(zero_copy_only=False)
    by_key = [rows[~values[rows]]]
    present = rows[values[rows]]
    fields = decoded.take(pa.array(present))
    if settings.reads_envelopes:
        by_key += read_envelopes(present, fields, changed_rows)
    elif settings.operation_field is not None:
        _read_flat(settings, present, fields, changed_rows)
    elif len(present):
        changed_rows.changes.append(Changes(UPSERT, present, fields))
    # In the order of the log again: tombstones and deletions that have only their key were found
    # apart.
    deleted = np.sort(np.concatenate(by_key))
    if settings.mode == "insert":
        changed_rows.bad |= dict.fromkeys(deleted.tolist(), "has no value, and rows are inserted")
    elif len(deleted):
        read_keys(key, deleted, chunk, changed_rows, reader)
    return changed_rows


def sources_of(settings: ChangeSettings, decoded: pa.StructArray) -> list[pa.StructArray]:
    """Return the rows as a new table would have them: the content of envelopes.

    Rows of one type each are together; there is at least one group.
    """
    if settings.reads_envelopes:
        objects = [
            after for _, alike in envelopes_of(decoded) for _, after in objects_of(alike, "after")
        ]
        sources = objects or [pa.array([{}] * len(decoded), pa.struct([]))]
    elif settings.operation_field is not None:
        sources = [_without(decoded, settings.operation_field)]
    else:
        sources = [decoded]
    if settings.keep_deletes:
        sources = [marked(rows, deleted=False) for rows in sources]
    placeholder = settings.placeholder
    return sources if placeholder is None else without_placeholders(sources, placeholder)


def _read_flat(
    settings: ChangeSettings,
    rows: npt.NDArray[np.int64],
    fields: pa.StructArray,
    changed_rows: ReadChanges,
) -> None:
    """Read messages in which a field names the operation."""
    assert settings.operation_field is not None
    values = texts(field_at(fields, settings.operation_field))
    upserts = settings.upserts if settings.mode == "cdc" else values.distinct
    operations = np.where(among(values, upserts, settings.mode == "upsert"), UPSERT, -1)
    # After the upserts: in mode upsert every value is one, unless it is among the deletions.
    operations[among(values, settings.deletes)] = DELETE
    for index in np.flatnonzero(operations < 0).tolist():
        value = values.at(index)
        problem = "is missing" if value is None else f"is {value[:MOST_SHOWN]!r}"
        changed_rows.bad[int(rows[index])] = (
            f"{settings.operation_field} {problem}: no known operation"
        )
    changed_rows.add(rows, operations, _without(fields, settings.operation_field))


def marked(rows: pa.StructArray, *, deleted: bool) -> pa.StructArray:
    """Return rows with a column that says whether they are deleted."""
    kept = [(field, column) for field, column in children(rows) if field.name != DELETED]
    columns = [*(column for _, column in kept), pa.repeat(deleted, len(rows))]
    return struct_of(columns, [*(field for field, _ in kept), pa.field(DELETED, pa.bool_())], rows)


def _without(fields: pa.StructArray, name: str) -> pa.StructArray:
    """Return the fields without ``name``: the operation does not become a column."""
    kept = [(field, column) for field, column in children(fields) if field.name != name]
    return struct_of([column for _, column in kept], [field for field, _ in kept], fields)
