"""The tables of a group, read by libraries that are not the product's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import StringType

from secor.sandbox import Sandbox
from tests.soak.changed_tables import newest_files

NAMESPACE = "lake"
HUDI = "hudi-tables"
"""The key below which Hudi tables are."""


def catalog_properties(sandbox: Sandbox, warehouse: str) -> dict[str, str]:
    """Return a catalog in the words of the Iceberg library for Python."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{sandbox.directory / f'{warehouse}.db'}",
        "warehouse": f"s3://{sandbox.s3.bucket}/{warehouse}",
    }


def read_iceberg(sandbox: Sandbox, warehouse: str, name: str) -> pa.Table | None:
    """Return the rows as the Iceberg library has them; None if there is no table."""
    catalog = _catalog(sandbox, warehouse)
    if not catalog.table_exists(f"{NAMESPACE}.{name}"):
        return None
    return catalog.load_table(f"{NAMESPACE}.{name}").scan().to_arrow()


def make_text_of(sandbox: Sandbox, warehouse: str, name: str, column: str, former: str) -> None:
    """Rename a column of a table and add one of text, as a person does by the Iceberg library."""
    _update_schema(sandbox, warehouse, name, lambda update: update.rename_column(column, former))
    _update_schema(sandbox, warehouse, name, lambda update: update.add_column(column, StringType()))


def delete_rows(sandbox: Sandbox, warehouse: str, name: str) -> None:
    """Delete all rows of a table, as a person does by the Iceberg library."""
    _change_table(sandbox, warehouse, name, lambda table: table.delete())


def _update_schema(
    sandbox: Sandbox, warehouse: str, name: str, change: Callable[[UpdateSchema], object]
) -> None:
    def update(table: Table) -> None:
        with table.update_schema() as schema:
            change(schema)

    _change_table(sandbox, warehouse, name, update)


def _change_table(
    sandbox: Sandbox, warehouse: str, name: str, change: Callable[[Table], None]
) -> None:
    # Again where a commit of the group came between: the library does not look anew by itself.
    for _ in range(20):
        try:
            change(_catalog(sandbox, warehouse).load_table(f"{NAMESPACE}.{name}"))
        except CommitFailedException:
            continue
        return
    raise RuntimeError(f"{name}: each change of the table met another commit")


def _catalog(sandbox: Sandbox, warehouse: str) -> Catalog:
    s3 = sandbox.s3
    store = {
        "s3.endpoint": s3.endpoint_url,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
    }
    return load_catalog("secor", **catalog_properties(sandbox, warehouse), **store)


def read_hudi(sandbox: Sandbox, name: str) -> pa.Table | None:
    """Return the rows of a copy-on-write table: the newest file of each file group."""
    s3 = sandbox.s3
    files: Any = S3FileSystem(
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        endpoint_override=s3.endpoint_url,
        region=s3.region,
    )
    path = f"{s3.bucket}/{HUDI}/{NAMESPACE}/{name}"

    def paths(folder: str) -> dict[str, str]:
        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        entries = files.get_file_info(selector)
        return {entry.base_name: entry.path for entry in entries if entry.type is FileType.File}

    found = paths(path)  # those of partitions, too; no two files have one name
    timeline = [name for name, place in found.items() if "/.hoodie/timeline/" in place]
    data = {name: place for name, place in found.items() if "/.hoodie/" not in place}
    newest = newest_files(timeline, list(data))
    # Not as a data set: the folders' names are no columns.
    parts = [pq.ParquetFile(data[file], filesystem=files).read() for file in newest]
    return pa.concat_tables(parts, promote_options="default") if parts else None
