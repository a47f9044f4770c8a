"""The writer behind the columnar typed formats: rows to row groups of one final schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from secor.arrow.nested_arrays import children
from secor.core.errors import RecordRefused
from secor.formats.row_groups import RowGroups
from secor.formats.typed import metadata
from secor.formats.typed.metadata import ROW
from secor.schema.schema import RowSchema

Leaf = Callable[[pa.Array], pa.Array]


class RowGroupFile(Protocol):
    """A file of some format that takes whole groups."""

    def write(self, group: pa.RecordBatch) -> None:
        """Write one row group, stripe or block."""

    def close(self) -> None:
        """Write the footer; the sink stays open."""

    def discard(self) -> None:
        """Let nothing more reach the sink."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a typed file; ``leaf`` turns columns into what the format stores."""

    schema: RowSchema
    metadata_columns: tuple[str, ...]
    group_rows: int
    leaf: Leaf

    @property
    def identity(self) -> str:
        """Everything that changes the bytes."""
        return f"{self.group_rows}:{self.schema.identity}:{','.join(self.metadata_columns)}"


class TypedWriter:
    """One typed file in the making: every full group goes to the file.

    A writer that was given no rows writes nothing.
    """

    def __init__(self, shape: Shape, begin: Callable[[pa.Schema], RowGroupFile]) -> None:
        assert shape.schema.declared, "columns need a schema"
        self._shape = shape
        self._begin = begin
        self._file: RowGroupFile | None = None
        self._groups = RowGroups(shape.group_rows)

    def append(self, records: pa.RecordBatch) -> None:
        """Add rows: columns of messages and ``row``.

        Raises ``RecordRefused`` for a row that is not of the declared schema (use
        ``RowSchema.fit`` before), ``LocalFilesExhausted``.
        """
        if not records.num_rows:
            return
        names = [*self._shape.metadata_columns, ROW]
        row = fit_or_refuse(self._shape.schema, records.column(ROW), records.column("offset"))
        columns = [*metadata.columns_of(records, names[:-1]), row]
        # The fields' metadata say which text is JSON: a batch of bare names would lose it.
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        for group in self._groups.add(
            pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        ):
            self._write(group)

    def buffered(self) -> int:
        """Return the bytes of the group that is not full yet."""
        return self._groups.buffered

    def close(self) -> None:
        """Write the rest and the footer."""
        if len(self._groups):
            self._write(self._groups.rest())
        if self._file is not None:
            self._file.close()
            # What the library holds is freed now: thousands of files are closed in a row.
            self._file = None

    @property
    def losses(self) -> Mapping[str, int]:
        """None: everything is in the file."""
        return {}

    def discard(self) -> None:
        """Let nothing more reach the sink."""
        if self._file is not None:
            self._file.discard()

    def _write(self, group: pa.RecordBatch) -> None:
        group = flattened(group, self._shape.leaf)
        if self._file is None:
            # Begun with the first group: a writer without rows leaves no file with nothing but a
            # footer.
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
    own = children(row)
    all_columns = [*group.columns[:-1], *(column for _, column in own)]
    columns = [metadata.to_stored(column, leaf) for column in all_columns]
    fields = metadata.fields_with_metadata(names, [field for field, _ in own])
    named = [field.with_type(column.type) for field, column in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(named))
