"""Catalogs on real servers, and one way to make tables in any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.sandbox.catalogs import IcebergRestServer, PostgreSqlServer
from secor.sandbox.process import Server
from secor.sandbox.sandbox import quiet
from secor.sandbox.state import free_port
from secor.tables.catalog import NewTable, Table
from tests.unit.adapters.iceberg_tables import SCHEMA

KINDS = ("sqlite", "rest", "postgresql")


def catalog_server(kind: str, folder: Path) -> Server | None:
    """Start the server of a catalog; None for a file."""
    server: Server
    if kind == "rest":
        warehouse = {"warehouse": (folder / "warehouse").as_uri()}
        server = IcebergRestServer(
            folder=folder / kind,
            log=folder / "rest.log",
            port=free_port(),
            progress=quiet,
            properties=warehouse,
        )
    elif kind == "postgresql":
        server = PostgreSqlServer(
            folder=folder / kind, log=folder / "postgresql.log", port=free_port()
        )
    else:
        return None
    server.start()
    return server


def properties_of(kind: str, folder: Path, server: Server | None) -> dict[str, str]:
    """Return how the Iceberg library for Python reaches it."""
    if isinstance(server, IcebergRestServer):
        return {"type": "rest", "uri": server.uri}
    uri = f"sqlite:///{folder / 'catalog.db'}"
    if isinstance(server, PostgreSqlServer):
        uri = server.uri
    return {"type": "sql", "uri": uri, "warehouse": (folder / "warehouse").as_uri()}


@dataclass(frozen=True, slots=True)
class CatalogWorld:
    """One catalog and a namespace of its own in it; ``events`` is a table's name."""

    properties: Mapping[str, str]
    namespace: str

    @property
    def events(self) -> str:
        """The table that most tests use."""
        return f"{self.namespace}.events"

    def open(self) -> IcebergCatalog:
        """Connect as another process would."""
        return IcebergCatalog(open_catalog("secor", self.properties))

    def make(self, catalog: IcebergCatalog, *partition_by: str) -> Table:
        """Make the table."""
        return catalog.create_table(self.events, NewTable(SCHEMA, partition_by))

    def ids(self, branch: str = "main") -> list[int]:
        """Return what a reader with a connection of its own sees, sorted."""
        library_table = self.open().library.load_table(self.events)
        snapshot = library_table.snapshot_by_name(branch)
        if snapshot is None:
            return []
        rows = cast(pa.Table, library_table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
        return sorted(rows.column("id").to_pylist())
