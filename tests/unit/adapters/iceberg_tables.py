"""Tables in a SQLite catalog on a local directory, and data files as workers stage them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from secor.adapters.iceberg.catalog import open_catalog
from secor.adapters.iceberg.commits import IcebergCatalog
from secor.tables.catalog import NewTable, Table
from secor.tables.staging.manifest import DataFile, Statistics, TableFiles

EVENTS = "lake.events"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.date32())])


def sqlite_catalog(directory: Path, name: str = "secor") -> IcebergCatalog:
    """Open the catalog of a directory; two of one name see each other's commits."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{directory / 'catalog.db'}",
        "warehouse": f"file://{directory / 'warehouse'}",
    }
    return IcebergCatalog(open_catalog(name, properties))


def make_table(
    catalog: IcebergCatalog, partition_by: tuple[str, ...] = (), **properties: str
) -> Table:
    """Make the table of events; properties with underscores for dots."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return catalog.create_table(EVENTS, NewTable(SCHEMA, partition_by, named))


def stage(
    table: Table,
    ids: Sequence[int],
    *,
    day: int | None = 20_000,
    partition: tuple[object, ...] = (),
    spec_id: int | None = None,
) -> TableFiles:
    """Write a Parquet file beside the table's others and describe it."""
    location = f"{table.location}/data/{uuid.uuid4().hex}.parquet"
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    days = pa.array([day] * len(ids), pa.int32()).cast(pa.date32())
    rows = pa.table([pa.array(ids, pa.int64()), days], schema=table.schema)
    pq.write_table(rows, path)
    statistics = Statistics(
        column_sizes={1: 40},
        value_counts={1: len(ids)},
        null_value_counts={1: 0},
        lower_bounds={1: min(ids).to_bytes(8, "little", signed=True).hex()},
        upper_bounds={1: max(ids).to_bytes(8, "little", signed=True).hex()},
    )
    file = DataFile(
        location,
        "parquet",
        len(ids),
        path.stat().st_size,
        min(ids),
        max(ids),
        partition,
        statistics,
    )
    spec = table.spec_id if spec_id is None else spec_id
    return TableFiles(table.identifier, table.uuid, table.schema_id, spec, "append", (file,))


def ids_of(catalog: IcebergCatalog, branch: str = "main") -> list[int]:
    """Return the ids that a reader sees, sorted: as the library reads the table."""
    library_table = catalog.library.load_table(EVENTS)
    snapshot = library_table.snapshot_by_name(branch)
    if snapshot is None:
        return []
    read = library_table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    return sorted(read.column("id").to_pylist())
