"""One version of a table for which rows are written: its schema and partition spec by id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from secor.arrow.time_limits import timestamp_limits
from secor.core.errors import ConfigurationError
from secor.core.ports import LogFormat
from secor.formats.typed.orc import refused_times
from secor.tables.catalog import (
    FIELD_ID,
    NEWEST_FORMAT,
    NEWEST_MERGED_FORMAT,
    SchemaChange,
    Table,
    require_format,
)
from secor.tables.library import Partitioning, TableLibrary
from secor.tables.rows.column_names import is_uuid
from secor.tables.rows.routing import TableSettings
from secor.tables.rows.row_changes import DELETED, ChangeSettings
from secor.tables.rows.row_keys import check_key
from secor.tables.rows.staged_rows import staged_schema
from secor.tables.rows.table_rows import TableRows
from secor.tables.rows.unavailable_values import Placeholder
from secor.tables.staging.files.avro import AvroDataFormat
from secor.tables.staging.files.orc import OrcDataFormat
from secor.tables.staging.files.parquet import ParquetDataFormat
from secor.tables.staging.manifest import Statistics
from secor.tables.staging.uri_store import SCHEME, SCHEMES

FORMAT_PROPERTY = "write.format.default"


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The settings of the rows of all tables of a group."""

    extra_fields: Literal["drop", "quarantine"] = "drop"
    case_sensitive: bool = True
    any_text: bool = True
    metadata_columns: tuple[str, ...] = ()
    row_group_rows: int = 50_000
    stripe_rows: int = 50_000
    block_rows: int = 5_000
    changes_root: str = "_changes"
    """Directory in the group's store where changes of rows are staged."""
    group: str = ""
    """The group's name, under which a table records where its columns come from."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The parts needed to stage changes: the identifier columns, and rows of nothing but them."""

    settings: ChangeSettings
    key: tuple[str, ...]
    key_ids: tuple[int, ...]
    key_rows: TableRows

    @property
    def placeholder(self) -> Placeholder | None:
        """The value by which messages leave a column as it is."""
        return self.settings.placeholder

    @property
    def may_keep_values(self) -> bool:
        """Whether staged changes may leave columns as they are."""
        return self.placeholder is not None or self.settings.keep_deletes

    @property
    def identity(self) -> str:
        """All that changes the staged rows besides the table's columns."""
        return f":changes-1:{self.settings.identity}:{self.key}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The parts needed to make data files of rows; ``root`` is the URI of their directory.

    With ``changes`` the files are those of changes, and ``root`` is a key of the store.

    ``declined`` are changes of the schema that the catalog did not take: they are not asked for
    again for a while.
    """

    table: Table
    schema_id: int
    spec_id: int
    settings: TableSettings
    rows: TableRows
    partitioning: Partitioning
    data_format: LogFormat
    root: str
    declined: frozenset[SchemaChange] = frozenset()
    changes: RowChanges | None = None

    @property
    def identity(self) -> str:
        """All that changes the files, the table itself included."""
        changes = "" if self.changes is None else self.changes.identity
        return (
            f"{self.table.identifier}={self.table.uuid}:{self.schema_id}:{self.spec_id}"
            f":{self.settings.evolve}:{self.rows.identity}:{self.data_format.identity}:{self.root}"
            # What the catalog declined decides which rows are bad, so it is part of the
            # fingerprint.
            f":{sorted(map(str, self.declined))}{changes}"
        )

    def refused(self, rows: pa.StructArray) -> Mapping[int, str]:
        """Return why rows cannot be in the table so that all readers find them.

        Columns that ``rows`` lack have no faults.
        """
        refused = self.partitioning.refused(rows)
        if isinstance(self.data_format, OrcDataFormat):
            refused = {**refused, **refused_times(rows)}
        return refused


def open_version(
    table: Table,
    settings: TableSettings,
    row_settings: RowSettings,
    library: TableLibrary,
    *,
    schema_id: int | None = None,
    spec_id: int | None = None,
    declined: frozenset[SchemaChange] = frozenset(),
) -> TableVersion:
    """Prepare a version of a table, the present one without ids.

    Raises ``ConfigurationError`` for what cannot be written.
    """
    appends = settings.changes.mode == "append"
    require_format(table, NEWEST_FORMAT if appends else NEWEST_MERGED_FORMAT)
    changes = _row_changes(table, settings, row_settings)
    root = library.data_location(table)
    if changes is not None:
        root = f"{row_settings.changes_root}/{table.identifier}"
    # Before a message is read: a table elsewhere would fail with the first file.
    elif root.partition(SCHEME)[0] not in SCHEMES:
        raise ConfigurationError(
            f"table {table.identifier}: its files would be in {root}; they can be in S3"
            " (s3://bucket/...), in Google's and Azure's stores (gs://..., abfss://...) and in"
            " directories (file:///...)"
        )
    schema_id = table.schema_id if schema_id is None else schema_id
    spec_id = table.spec_id if spec_id is None else spec_id
    columns = table.schemas[schema_id]
    if appends:
        _check_partition_columns(table, columns, spec_id)
    if changes is not None:
        keeping = changes.may_keep_values
        file_format: LogFormat = _changes_format(columns, row_settings, library, keeping=keeping)
    else:
        file_format = _data_format(table, schema_id, row_settings, library)
    rows = TableRows(
        table.schemas[schema_id],
        table.properties,
        where=f"table {table.identifier}",
        metadata_columns=row_settings.metadata_columns,
        extra_fields=row_settings.extra_fields,
        case_sensitive=row_settings.case_sensitive,
        evolve=settings.evolve,
        any_text=row_settings.any_text,
        units=settings.units,
        timestamps=timestamp_limits(table.properties.get(FORMAT_PROPERTY, "").lower()),
        text_types=settings.text_types,
        encodings=settings.encodings,
    )
    return TableVersion(
        table=table,
        schema_id=schema_id,
        spec_id=spec_id,
        settings=settings,
        rows=rows,
        partitioning=library.partitioning(table, schema_id, spec_id),
        data_format=file_format,
        root=root,
        declined=declined,
        changes=changes,
    )


def _check_partition_columns(table: Table, columns: pa.Schema, spec_id: int) -> None:
    """Raise ``ConfigurationError`` for partitions by floating-point numbers and by plain UUIDs.

    The library writes them so that readers do not find their rows by a filter.  Spark, which
    appends to tables whose rows change, writes them right.
    """
    refused = {int(field.metadata[FIELD_ID]): field for field in _hard_to_find(columns)}
    for field in table.specs[spec_id]:
        column = refused.get(field.source_id)
        if column is None or field.transform == "void":
            continue
        if pa.types.is_floating(column.type) or field.transform == "identity":
            raise ConfigurationError(
                f"table {table.identifier}: it is partitioned by {field.name}, and {column.name} is"
                f" {column.type}: readers would not find rows by such a partition. Partition it by"
                f" another column (in Spark: ALTER TABLE {table.identifier} DROP PARTITION FIELD"
                f" {field.name})"
            )


def _hard_to_find(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    for field in fields:
        if pa.types.is_floating(field.type) or is_uuid(field.type):
            yield field
        elif pa.types.is_struct(field.type):
            yield from _hard_to_find(field.type)


def _row_changes(
    table: Table, settings: TableSettings, row_settings: RowSettings
) -> RowChanges | None:
    """Return what stages changes of rows, under the table's present schema."""
    if settings.changes.mode == "append":
        return None
    where = f"table {table.identifier}"
    key = settings.changes.key or table.key
    check_key(key, table.schema, where)
    if settings.changes.keep_deletes and not settings.evolve and DELETED not in table.schema.names:
        raise ConfigurationError(
            f"{where}: it has no column {DELETED}, which keep_deletes needs: add it (boolean), or"
            " set evolve = true in [[tables]]"
        )
    columns = [table.schema.field(name) for name in key]
    fields = pa.schema([column.with_nullable(True) for column in columns])
    key_rows = TableRows(
        fields,
        table.properties,
        where=where,
        case_sensitive=row_settings.case_sensitive,
        any_text=row_settings.any_text,
        encodings=settings.encodings,
        units=settings.units,
    )
    ids = tuple(int(column.metadata[FIELD_ID]) for column in columns)
    return RowChanges(settings.changes, key, ids, key_rows)


def _changes_format(
    columns: pa.Schema, settings: RowSettings, library: TableLibrary, *, keeping: bool
) -> ParquetDataFormat:
    options = library.parquet_options({})
    schema = staged_schema(columns, keeping=keeping)
    return ParquetDataFormat(schema, options, lambda *_: Statistics(), settings.row_group_rows)


def _data_format(
    table: Table, schema_id: int, settings: RowSettings, library: TableLibrary
) -> LogFormat:
    name = table.properties.get(FORMAT_PROPERTY, "parquet").lower()
    columns = table.schemas[schema_id]
    if name == "parquet":
        options = library.parquet_options(table.properties)
        statistics = library.parquet_statistics(table, schema_id)
        return ParquetDataFormat(columns, options, statistics, settings.row_group_rows)
    if name == "orc":
        return OrcDataFormat.of(columns, table.properties, settings.stripe_rows)
    if name == "avro":
        return AvroDataFormat.of(columns, table.properties, settings.block_rows)
    raise ConfigurationError(
        f"table {table.identifier}: {FORMAT_PROPERTY} is {name}; use parquet, orc or avro"
    )


def identity_of(versions: Mapping[str, TableVersion | None]) -> str:
    """Return what a fingerprint says of tables, None for those that do not exist."""
    return ";".join(
        f"{name} is missing" if version is None else version.identity
        for name, version in sorted(versions.items())
    )
