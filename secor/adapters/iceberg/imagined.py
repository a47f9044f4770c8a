"""A catalog as it would become: tables are loaded from it, and made and changed in memory alone.

The Iceberg library's own code makes and changes the metadata, as for a real catalog: it refuses
what that would refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog as Library
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier


class ImaginedTables(NoopCatalog):
    """The part of the Iceberg library's catalog that ``adapters.iceberg`` uses."""

    def __init__(self, real: Library | None, locate: Callable[[str], str]) -> None:
        """Take the tables of ``real`` if there is one; ``locate`` gives the place of a new one."""
        super().__init__("imagined")
        self._real = real
        self._locate = locate
        self._loaded: dict[str, Table] = {}
        self._imagined: dict[str, TableMetadata] = {}

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table as it would be; the real one is loaded once.

        Raises ``NoSuchTableError`` and what the real catalog raises.
        """
        name = _name(identifier)
        if name in self._imagined:
            return self._table(name, self._imagined[name])
        if name not in self._loaded:
            if self._real is None:
                raise NoSuchTableError(f"no catalog was asked for {name}")
            self._loaded[name] = self._real.load_table(identifier)
        return self._table(name, self._loaded[name].metadata)

    def real_table(self, identifier: str) -> Table | None:
        """Return a table as it is; None for one that does not exist, or was not asked for."""
        return self._loaded.get(identifier)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace, imagined ones included."""
        real = [] if self._real is None else self._real.list_tables(namespace)
        before = f"{_name(namespace)}."
        own = [
            Library.identifier_to_tuple(name) for name in self._imagined if name.startswith(before)
        ]
        return sorted({*real, *own})

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """A namespace is made with its first table."""
        return True

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: dict[str, str] | None = None,
    ) -> Table:
        """Imagine a table.  Raises ``TableAlreadyExistsError``."""
        name = _name(identifier)
        if name in self._imagined or name in self._loaded:
            raise TableAlreadyExistsError(f"{name} exists")
        place = location or self._locate(name)
        metadata = new_table_metadata(schema, partition_spec, sort_order, place, properties or {})
        self._imagined[name] = metadata
        return self._table(name, metadata)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Imagine a change.  Raises ``CommitFailedException`` where a requirement is not met."""
        name = _name(table.name())
        present = self.load_table(name)
        for requirement in requirements:
            # As a real catalog does: what a daemon would be refused is refused here, too.
            requirement.validate(present.metadata)
        metadata = update_table_metadata(present.metadata, updates)
        self._imagined[name] = metadata
        location = present.metadata_location
        return CommitTableResponse(metadata=metadata, metadata_location=location)

    def _table(self, name: str, metadata: TableMetadata) -> Table:
        location = f"{metadata.location}/metadata/00000-imagined.metadata.json"
        return Table(Library.identifier_to_tuple(name), metadata, location, PyArrowFileIO(), self)


def _name(identifier: str | Identifier) -> str:
    return identifier if isinstance(identifier, str) else ".".join(identifier)
