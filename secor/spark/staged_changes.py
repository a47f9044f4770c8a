"""Staged changes as Spark reads them, through Secor's own store, with the table's present columns.

A file has the columns of the table at its time.  Field ids link them to the present columns, so a
renamed column keeps its values, and an added column is null.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from secor.arrow.nested_arrays import is_list
from secor.core.ports import ObjectStore
from secor.spark.workers import spare_next_task
from secor.tables.catalog import FIELD_ID
from secor.tables.rows.staged_rows import KEPT, POSITION, ROW, kept_lists

OpenStore = Callable[[], ObjectStore]
"""Opens the group's store where a task runs; Spark sends it there."""

ROWS = 16_384
"""Rows of a batch."""


def read_changes(
    open_store: OpenStore,
    objects: Sequence[tuple[str, bytes | None]],
    table: pa.Schema,
    row_type: pa.StructType,
) -> Iterator[pa.RecordBatch]:
    """Give changes in ``objects`` to a task; see ``read_objects``.

    With each key is a bit for each change that is kept (``numpy.packbits``), None for all.
    """
    try:
        store = open_store()
        for key, bits in objects:
            batches = read_objects(store, [key], table, row_type)
            yield from batches if bits is None else _kept_rows(batches, bits)
    finally:
        spare_next_task()


def _kept_rows(batches: Iterator[pa.RecordBatch], bits: bytes) -> Iterator[pa.RecordBatch]:
    kept = np.unpackbits(np.frombuffer(bits, np.uint8)).astype(bool)
    for batch in batches:
        yield batch.filter(pa.array(kept[: batch.num_rows]))
        kept = kept[batch.num_rows :]


def read_objects(
    store: ObjectStore, keys: Sequence[str], table: pa.Schema, row_type: pa.StructType
) -> Iterator[pa.RecordBatch]:
    """Give the changes in the objects ``keys``.

    ``table`` is the table's present schema with field ids, ``row_type`` the same columns in the
    types that Spark wants.  Raises ``NotFound``, ``Unavailable``, ``AccessDenied``.
    """
    for key in keys:
        with store.open(key) as file:
            # Whole: staged files are small, and Parquet asks for pieces from its end on, a request
            # each.
            parquet = pq.ParquetFile(io.BytesIO(file.read()))
        yield from _present_batches(parquet.iter_batches(ROWS), table, row_type)


def present_changes(
    changes: Iterator[pa.RecordBatch], table: pa.Schema, row_type: pa.StructType
) -> Iterator[pa.RecordBatch]:
    """Give changes, as they would be staged, in the columns of ``read_changes``."""
    try:
        yield from _present_batches(changes, table, row_type)
    finally:
        spare_next_task()


def _present_batches(
    changes: Iterator[pa.RecordBatch], table: pa.Schema, row_type: pa.StructType
) -> Iterator[pa.RecordBatch]:
    for batch in changes:
        yield _present(batch, table, row_type)


def _present(batch: pa.RecordBatch, table: pa.Schema, row_type: pa.StructType) -> pa.RecordBatch:
    rows = batch.column(ROW)
    by_id = _by_id(rows)
    columns = [
        _column(by_id.get(_id(field)), field, target, len(rows))
        for field, target in zip(table, row_type.fields, strict=True)
    ]
    row = pa.StructArray.from_arrays(columns, fields=list(row_type.fields))
    position = [batch.column(field.name) for field in POSITION]
    schema = pa.schema([*POSITION, KEPT, pa.field(ROW, row.type)])
    return pa.RecordBatch.from_arrays([*position, _kept_columns(batch, table), row], schema=schema)


def _kept_columns(batch: pa.RecordBatch, table: pa.Schema) -> pa.Array:
    """Return the numbers of the columns that changes keep; those of lost columns are left out."""
    index = batch.schema.get_field_index(KEPT.name)
    # Files of earlier versions do not have the column, and mostly no change leaves anything out.
    if index < 0 or not len(ids := pc.list_flatten(batch.column(index))):
        return pa.nulls(batch.num_rows, KEPT.type)
    known = [_id(field) for field in table]
    masks = {
        known.index(number): pc.list_parent_indices(batch.column(index)).filter(
            pc.equal(ids, number)
        )
        for number in ids.unique().to_pylist()
        if number in known
    }
    return kept_lists(
        batch.num_rows,
        {index_of_column: _mask(batch, rows) for index_of_column, rows in masks.items()},
    )


def _mask(batch: pa.RecordBatch, rows: pa.Array) -> npt.NDArray[np.bool_]:
    mask = np.zeros(batch.num_rows, dtype=bool)
    mask[rows.to_numpy()] = True
    return mask


def _id(field: pa.Field) -> int | None:
    field_id = (field.metadata or {}).get(FIELD_ID)
    return None if field_id is None else int(field_id)


def _by_id(rows: pa.StructArray) -> dict[int | None, pa.Array]:
    return {_id(field): column for field, column in zip(rows.type, rows.flatten(), strict=True)}


def _column(column: pa.Array | None, field: pa.Field, target: pa.Field, count: int) -> pa.Array:
    """Return a column in the type that Spark wants; inner fields are found by their ids."""
    kind = target.type
    if column is None:
        return pa.nulls(count, kind)
    if pa.types.is_struct(kind):
        by_id = _by_id(column)
        inner = [
            _column(by_id.get(_id(each)), each, inner_target, len(column))
            for each, inner_target in zip(field.type, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=column.is_null())
    if is_list(kind):
        values = _column(
            column.flatten(), field.type.value_field, kind.value_field, len(column.flatten())
        )
        # Offsets anew: `flatten` leaves out what null lists hold, and so the column's own do not
        # fit.
        return pa.ListArray.from_arrays(_offsets(column), values, type=kind, mask=column.is_null())
    if pa.types.is_map(kind):
        return _map(column, field, kind)
    if isinstance(column.type, pa.UuidType) or isinstance(field.type, pa.UuidType):
        return _uuid_texts(column)
    return column.cast(kind)


def _offsets(column: pa.Array) -> pa.Array:
    """Return where lists begin in their flattened values; null ones are empty there."""
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return pa.concat_arrays(
        [pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())]
    )


def _map(column: pa.MapArray, field: pa.Field, kind: pa.MapType) -> pa.Array:
    entries = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    flat = entries.flatten()
    keys = _column(flat.field(0), field.type.key_field, kind.key_field, len(flat))
    items = _column(flat.field(1), field.type.item_field, kind.item_field, len(flat))
    return pa.MapArray.from_arrays(_offsets(entries), keys, items, mask=column.is_null())


def _uuid_texts(column: pa.Array) -> pa.Array:
    """Return UUIDs as Spark has them: as text."""
    # Row by row, for Arrow has no cast from UUIDs to text.
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    texts = [None if raw is None else _uuid(raw) for raw in storage.to_pylist()]
    return pa.array(texts, pa.string())


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
