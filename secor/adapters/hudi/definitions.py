"""Definitions of Hudi tables, kept in the group's store for processes that have no Spark.

Workers fit messages to columns, and let columns grow, before any row is in the table.  So the
columns of a table, with their ids, are objects below the group's prefix.  Each version of a
definition is one object, put if absent: of two processes that change it, one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog as Library
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Identifier

from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes, read_bytes

DIRECTORY = "_hudi"
"""Below the group's prefix, with a directory for each table; no topic's directory."""

_DEFINITION = re.compile(r"definition-(\d{8})\.json")


class Definitions(NoopCatalog):
    """The part of the Iceberg library's catalog that ``adapters.iceberg`` uses.

    A definition is written as the library writes a table's metadata.  It has no snapshots.
    """

    def __init__(self, store: ObjectStore, prefix: str, locate: Callable[[str], str]) -> None:
        """``locate`` returns the base path of a new table."""
        super().__init__("hudi")
        self._store = store
        self._locate = locate
        self._root = directory_of(prefix, "")
        self._known: dict[str, TableMetadata] = {}

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return the newest version.  Raises ``NoSuchTableError``."""
        name = _name(identifier)
        key = self._newest(name)
        if key is None:
            raise NoSuchTableError(f"{self._root}{name}/ has no definition of a table")
        return self._table(name, self._read(key), key)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables of a namespace that have a definition."""
        names = {
            stored.key[len(self._root) :].partition("/")[0]
            for stored in self._store.list(f"{self._root}{_name(namespace)}.")
        }
        return [Library.identifier_to_tuple(name) for name in sorted(names)]

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """A namespace is nothing but a part of names."""
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
        """Put the first version.  Raises ``TableAlreadyExistsError``."""
        name = _name(identifier)
        place = self.location_of(name, location)
        metadata = new_table_metadata(schema, partition_spec, sort_order, place, properties or {})
        key = self._key(name, 0)
        # The listing for a table with later versions; the put, if absent, for one that is made at
        # the same time.
        if self._newest(name) is not None or not self._put(key, metadata):
            raise TableAlreadyExistsError(f"{name} has a definition already")
        return self._table(name, metadata, key)

    def location_of(self, name: str, location: str | None = None) -> str:
        """Return the base path of a new table, which may be given."""
        return (location or self._locate(name)).rstrip("/")

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Put the next version.  Raises ``CommitFailedException`` where somebody was faster."""
        name = _name(table.name())
        present = self.load_table(name)
        for requirement in requirements:
            requirement.validate(present.metadata)
        metadata = update_table_metadata(present.metadata, updates)
        # The number behind the one that the requirements were checked with: the first one to put it
        # wins.
        key = self._key(name, _number(present.metadata_location) + 1)
        if not self._put(key, metadata):
            raise CommitFailedException(f"{key} was put by somebody else")
        return CommitTableResponse(metadata=metadata, metadata_location=key)

    def _newest(self, name: str) -> str | None:
        before = f"{self._root}{name}/definition-"
        keys = [stored.key for stored in self._store.list(before) if _DEFINITION.search(stored.key)]
        return max(keys, default=None)

    def _key(self, name: str, number: int) -> str:
        return f"{self._root}{name}/definition-{number:08}.json"

    def _put(self, key: str, metadata: TableMetadata) -> bool:
        return put_bytes(self._store, key, metadata.model_dump_json().encode())

    def _read(self, key: str) -> TableMetadata:
        if key not in self._known:
            body = read_bytes(self._store, key)
            if body is None:
                raise NoSuchTableError(f"{key} has gone")
            # A version never changes, so it is read once.
            self._known[key] = TableMetadataUtil.parse_raw(body.decode())
        return self._known[key]

    def _table(self, name: str, metadata: TableMetadata, key: str) -> Table:
        return Table(Library.identifier_to_tuple(name), metadata, key, PyArrowFileIO(), self)


def directory_of(prefix: str, identifier: str) -> str:
    """Return where the objects of a table are kept; ends with a slash."""
    parts = [part for part in prefix.split("/") if part]
    return "/".join([*parts, DIRECTORY, *([identifier] if identifier else [])]) + "/"


def _name(identifier: str | Identifier) -> str:
    return identifier if isinstance(identifier, str) else ".".join(identifier)


def _number(key: str) -> int:
    matched = _DEFINITION.search(key)
    assert matched is not None, "only such keys are read"
    return int(matched[1])
