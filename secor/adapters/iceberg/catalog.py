"""Tables of any catalog that the Iceberg library knows: load, list, create, change schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.catalog import Catalog as Library
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchNamespaceError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table as LibraryTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as LibrarySnapshot
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import PrimitiveType
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from secor.adapters.iceberg.failures import translated
from secor.adapters.iceberg.partition_terms import partition_spec
from secor.adapters.iceberg.store_files import STORE
from secor.adapters.iceberg.types import arrow_schema, iceberg_schema, iceberg_type
from secor.core.errors import ConfigurationError, Unavailable
from secor.core.ports import ObjectStore
from secor.core.text import mask_urls
from secor.tables.catalog import (
    NEWEST_FORMAT,
    NO_PROPERTIES,
    AddColumn,
    MakeOptional,
    NewTable,
    PartitionField,
    SchemaChange,
    Snapshot,
    Table,
    WidenColumn,
)

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog


TIMEOUT = (10.0, 60.0)
"""Seconds to connect to the server, and to wait for its answer."""


def limit_requests(catalog: RestCatalog, timeout: tuple[float, float] = TIMEOUT) -> None:
    """End requests of ``catalog`` that a silent server would hold for ever."""
    for scheme in ("http://", "https://"):
        catalog._session.mount(scheme, TimeLimit(timeout))


class TimeLimit(HTTPAdapter):
    """Requests with a limit, where the caller gives none of its own."""

    def __init__(self, timeout: tuple[float, float]) -> None:
        """Seconds to connect, and to wait for an answer."""
        super().__init__()
        self._timeout = timeout

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        """Send it; see ``HTTPAdapter``."""
        # requests waits for ever by default, and a silent server would hold the cycle of all
        # tables.
        options["timeout"] = options.get("timeout") or self._timeout
        return super().send(request, *args, **options)


def open_catalog(
    name: str, properties: Mapping[str, str], store: ObjectStore | None = None
) -> Library:
    """Return the library's catalog.  Raises ``ConfigurationError``, ``Unavailable``.

    With a ``store``, which takes whole URIs as keys, the files in Google's and Azure's stores are
    read and written through it.
    """
    files: dict[str, Any] = {"py-io-impl": ARROW}
    if store is not None:
        files = {"py-io-impl": STORE_FILES, STORE: store}
    library = _load(name, {**files, **properties})
    if type(library).__name__ == "RestCatalog":  # its module costs an import
        limit_requests(cast("RestCatalog", library))
    return library


def _load(name: str, properties: Mapping[str, Any]) -> Library:
    """Open a catalog; several processes that open a new SQL catalog each create some tables."""
    for _ in range(SQL_TABLES):
        try:
            return _load_once(name, properties)
        except Unavailable as error:
            if "already exists" not in str(error):
                raise  # else another process made a table between this one's look and CREATE
    return _load_once(name, properties)


def _load_once(name: str, properties: Mapping[str, Any]) -> Library:
    uri = properties.get("uri")
    where = f"catalog {name}" if uri is None else f"catalog {name} at {mask_urls(str(uri))}"
    with translated(where):
        return load_catalog(name, **properties)


SQL_TABLES = 2
"""Tables that a SQL catalog consists of."""

ARROW = "secor.adapters.iceberg.store_files.ArrowFiles"
STORE_FILES = "secor.adapters.iceberg.store_files.StoreFiles"
"""The property that names the class which reads and writes files."""


class IcebergTables:
    """The part of ``tables.catalog.Catalog`` that looks at tables and changes schemas."""

    def __init__(self, library: Library) -> None:
        """Take what ``open_catalog`` returned; used by several threads."""
        self.library = library

    def load_table(self, identifier: str) -> Table:
        """Return a table as it is now; see ``Catalog``."""
        with translated(f"table {identifier}"):
            return describe(identifier, self.library.load_table(identifier))

    def list_tables(self, namespace: str) -> Sequence[str]:
        """Return the identifiers in a namespace; see ``Catalog``."""
        with translated(f"namespace {namespace}"):
            try:
                identifiers = self.library.list_tables(namespace)
            except NoSuchNamespaceError:
                return []
        return sorted(".".join(parts) for parts in identifiers)

    def create_table(self, identifier: str, new: NewTable) -> Table:
        """Make a table; see ``Catalog``."""
        where = f"table {identifier}"
        with translated(where):
            schema = iceberg_schema(new.schema, where, new.key)
            spec = partition_spec(schema, new.partition_by, where)
        self._create_namespace(identifier)
        properties = {"format-version": str(NEWEST_FORMAT), **new.properties}
        with translated(f"{where} cannot be made", writes=True):
            library_table = self.library.create_table(
                identifier, schema, new.location, spec, properties=properties
            )
        return describe(identifier, library_table)

    def _create_namespace(self, identifier: str) -> None:
        namespace = Library.namespace_from(identifier)
        with translated(f"namespace {'.'.join(namespace)}"):
            try:
                if not self.library.namespace_exists(namespace):
                    self.library.create_namespace(namespace)
            except NamespaceAlreadyExistsError:
                pass  # somebody was faster

    def update_schema(
        self,
        table: Table,
        changes: Sequence[SchemaChange],
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Table:
        """Change a schema by one commit; see ``Catalog``."""
        where = f"table {table.identifier}: its schema"
        library_table = library_table_of(table)
        with translated(where), library_table.transaction() as transaction:
            update = transaction.update_schema()
            for change in changes:
                _apply(update, change, where)
            # Taken out of the library's transaction, so that the properties go into the same commit
            # and nothing is repeated.
            updates, requirements = update._commit()
        if not updates:
            return table
        if properties:
            updates = (*updates, SetPropertiesUpdate(updates=dict(properties)))
        same_table = AssertTableUUID(uuid=library_table.metadata.table_uuid)
        with translated(f"{where} cannot be changed", writes=True):
            self.library.commit_table(library_table, (same_table, *requirements), updates)
        return self.load_table(table.identifier)


def library_table_of(table: Table) -> LibraryTable:
    """Return the library's table of a description that ``describe`` made."""
    return cast(LibraryTable, table.handle)


def describe(identifier: str, table: LibraryTable) -> Table:
    """Return a plain description."""
    metadata = table.metadata
    schemas = {schema.schema_id: arrow_schema(schema, identifier) for schema in metadata.schemas}
    return Table(
        identifier=identifier,
        uuid=str(metadata.table_uuid),
        location=metadata.location.rstrip("/"),
        format_version=metadata.format_version,
        schema_id=metadata.current_schema_id,
        schemas=MappingProxyType(schemas),
        spec_id=metadata.default_spec_id,
        specs=MappingProxyType({spec.spec_id: _fields(spec) for spec in metadata.partition_specs}),
        properties=MappingProxyType(dict(metadata.properties)),
        refs=MappingProxyType({name: ref.snapshot_id for name, ref in metadata.refs.items()}),
        snapshots=MappingProxyType(_snapshots(metadata)),
        key=tuple(sorted(metadata.schema().identifier_field_names())),
        handle=table,
    )


def _fields(spec: PartitionSpec) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(field.source_id, field.field_id, str(field.transform), field.name)
        for field in spec.fields
    )


def _snapshots(metadata: TableMetadata) -> dict[int, Snapshot]:
    return {snapshot.snapshot_id: _snapshot(snapshot) for snapshot in metadata.snapshots}


def _snapshot(snapshot: LibrarySnapshot) -> Snapshot:
    summary = snapshot.summary
    return Snapshot(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        timestamp=snapshot.timestamp_ms,
        summary=MappingProxyType(summary.additional_properties if summary is not None else {}),
    )


def _apply(update: UpdateSchema, change: SchemaChange, where: str) -> None:
    match change:
        case AddColumn(path, kind):
            update.add_column(path, iceberg_type(kind, where))
        case WidenColumn(path, kind):
            wide = iceberg_type(kind, where)
            if not isinstance(wide, PrimitiveType):
                raise ConfigurationError(f"{where}: {'.'.join(path)} cannot become {wide}")
            update.update_column(path, field_type=wide)
        case MakeOptional(path):
            update.make_column_optional(path)
