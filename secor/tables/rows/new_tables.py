"""The schema and properties of a new table: declared columns, or those of the first messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from secor.core.errors import ConfigurationError
from secor.schema.declarations import parse
from secor.schema.schema import RowSchema
from secor.tables.catalog import STAGED_WRITES, NewTable
from secor.tables.rows.column_names import is_uuid
from secor.tables.rows.routing import TableSettings
from secor.tables.rows.row_keys import check_key
from secor.tables.rows.schema_changes import changes_for, column_type, columns_of
from secor.tables.rows.table_rows import METADATA_TYPES

DEFAULT_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
"""Without the first three the metadata grows with every commit, and so does the time of one.

Java's library gives a table that it makes the last one, and compresses by gzip, which is several
times slower, where a table does not say it.
"""


def can_be_made(seen: pa.DataType) -> bool:
    """Return whether messages of this type give a new table a column."""
    return bool(pa.types.is_struct(seen)) and bool(changes_for(pa.struct([]), seen))


def new_table(
    settings: TableSettings,
    seen: pa.DataType | None,
    metadata_columns: Sequence[str] = (),
) -> NewTable | None:
    """Return the table to be made; None as long as neither file nor message gives its columns.

    ``seen`` is the type of the first messages.  Raises ``ConfigurationError``.
    """
    if settings.schema_file is not None:
        columns = _declared(settings, settings.schema_file)
    elif seen is None or not can_be_made(seen):
        return None
    else:
        columns = columns_of(seen)
    key = settings.changes.key
    own = [field for field in columns.fields if field.name not in metadata_columns]
    own = [field.with_nullable(field.name not in key and field.nullable) for field in own]
    origin = [
        pa.field(column, METADATA_TYPES[column], nullable=column not in key)
        for column in metadata_columns
    ]
    schema = pa.schema([*own, *origin])
    properties = {**DEFAULT_PROPERTIES, **settings.properties}
    if settings.changes.mode != "append":
        check_key(key, schema, "the new table")
        properties[STAGED_WRITES] = "true"
    return NewTable(
        schema=schema,
        partition_by=settings.partition_by,
        properties=properties,
        location=settings.location,
        key=key,
    )


def _declared(settings: TableSettings, path: str) -> pa.StructType:
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"schema_file {path}: cannot be read: {error}; secor schema writes such files"
        ) from error
    where, keep_required = f"schema_file {path}", not settings.optional_columns
    RowSchema.parse(text, where)  # looks at its defaults, too
    fields = parse(text, where, uuids="uuid" not in settings.text_types)
    as_text = [
        field.with_type(pa.string())
        if is_uuid(field.type) and field.name in settings.partition_columns
        else field
        for field in fields.fields
    ]
    return pa.struct([_as_column(field, keep_required=keep_required) for field in as_text])


def _as_column(field: pa.Field, *, keep_required: bool) -> pa.Field:
    kind = column_type(field.type, keep_required=keep_required)
    nullable = field.nullable or not keep_required
    return pa.field(field.name, field.type if kind is None else kind, nullable=nullable)
