"""What the columnar formats share: from rows to groups of one final schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from secor.errors import RecordRefused
from secor.formats.typed import metadata
from secor.formats.typed.groups import (
    RowGroups,
    Scratch,
    Spool,
    concatenated,
    inferred,
    with_row,
)
from secor.formats.typed.inference import final, promoted, widened
from secor.formats.typed.metadata import ROW
from secor.formats.typed.schema import RowSchema
from secor.formats.typed.trees import children, is_json

Leaf = Callable[[pa.Array], pa.Array]


class GroupFile(Protocol):
    """A file of some format that takes whole groups."""

    def write(self, group: pa.RecordBatch) -> None:
        """Write one row group, stripe or block."""

    def close(self) -> None:
        """Write the footer; the sink stays open."""

    def discard(self) -> None:
        """Let nothing more reach the sink."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a typed file is made of; ``leaf`` turns columns into what the format stores."""

    schema: RowSchema
    metadata_columns: tuple[str, ...]
    group_rows: int
    spool: Callable[[], Scratch]
    leaf: Leaf

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        return f"{self.group_rows}:{self.schema.identity}:{','.join(self.metadata_columns)}"


class TypedWriter:
    """One typed file in the making.

    With a declared schema every full group goes to the file.  With an inferred one the
    groups wait in the spool until ``close`` knows the types that hold all of them.  A
    writer that was given no rows writes nothing.
    """

    def __init__(self, shape: Shape, begin: Callable[[pa.Schema], GroupFile]) -> None:
        self._shape = shape
        self._begin = begin
        self._file: GroupFile | None = None
        self._spool = Spool(shape.spool)
        self._kind: pa.DataType = pa.struct([])
        merge = concatenated if shape.schema.declared else inferred
        self._groups = RowGroups(shape.group_rows, merge)

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows: columns of messages and ``row``.

        Raises ``RecordRefused`` for a row that is not of the declared schema (use
        ``RowSchema.fit`` before), ``DiskFull``.
        """
        if not records.num_rows:
            return
        names = [*self._shape.metadata_columns, ROW]
        row = records.column(ROW)
        if self._shape.schema.declared:
            row = fit_or_refuse(self._shape.schema, row, records.column("offset"))
        columns = [*metadata.columns_of(records, names[:-1]), row]
        # The fields' metadata tell which text is JSON: a batch of bare names would lose it.
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        for group in self._groups.add(
            pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        ):
            self._take(group)

    def buffered(self) -> int:
        """Return the bytes of the group that is not full yet."""
        return self._groups.buffered

    def spooled(self) -> int:
        """Return the bytes that wait on disk outside the sink."""
        return self._spool.size

    def close(self) -> None:
        """Write the rest and the footer."""
        if len(self._groups):
            group = self._groups.rest()
            if len(self._spool):
                self._take(group)
            else:
                self._write(group)
        if len(self._spool):
            for group in self._spool.read():
                self._write(group)
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Give the room on disk back, and let nothing more reach the sink."""
        self._spool.delete()
        if self._file is not None:
            self._file.discard()

    def _take(self, group: pa.RecordBatch) -> None:
        if self._shape.schema.declared:
            self._write(group)
        else:
            self._kind = widened(self._kind, group.column(ROW).type)
            self._spool.write(group)

    def _write(self, group: pa.RecordBatch) -> None:
        row = group.column(ROW)
        if not self._shape.schema.declared:
            row = promoted(row, final(widened(self._kind, row.type)))
        group = flattened(with_row(group, row), self._shape.leaf)
        if self._file is None:
            self._file = self._begin(group.schema)
        self._file.write(group)


def fit_or_refuse(schema: RowSchema, row: pa.StructArray, offsets: pa.Array) -> pa.StructArray:
    """Return the rows in the declared type.  Raises ``RecordRefused`` for the first misfit."""
    row, bad = schema.fit(row)
    for number, reason in bad.items():
        raise RecordRefused(
            f"offset {offsets[number].as_py()}: {reason}; quarantine such messages or change"
            " the schema"
        )
    return row


def flattened(group: pa.RecordBatch, leaf: Leaf) -> pa.RecordBatch:
    """Return metadata columns and the row's fields side by side, as the format stores them."""
    row = group.column(ROW)
    names = group.schema.names[:-1]
    # Rows without a single field are one column of empty objects.
    own = [(pa.field(ROW, row.type), row)] if is_json(row.type) else children(row)
    columns = [*group.columns[:-1], *(metadata.stored(column, leaf) for _, column in own)]
    fields = metadata.fields_beside(names, [field for field, _ in own])
    named = [field.with_type(column.type) for field, column in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(named))
