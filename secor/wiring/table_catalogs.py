"""The catalog of a group's tables, for Secor and for Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.tables.commit.merging import BranchPublisher, MergeEngine
from secor.tables.rows.routing import Route
from secor.tables.spark_catalog import SparkCatalog, spark_catalog
from secor.wiring.clients import clear, make_store
from secor.wiring.table_storage import store_of_tables

if TYPE_CHECKING:
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.library import IcebergLibrary
    from secor.verify.engine_filters import TableReader


def open_tables(config: Config) -> tuple[IcebergCatalog, IcebergLibrary]:
    """Return the catalog and the library.

    Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``.
    """
    # Not before it is needed: the library takes half a second.
    from secor.adapters.iceberg.catalog import open_catalog
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.library import IcebergLibrary

    if config.table_format == "hudi":
        from secor.wiring.hudi import open_hudi_tables

        return open_hudi_tables(config), IcebergLibrary()
    # What the file says of the catalog wins: its files may need other credentials.
    properties = {**_s3_properties(config), **config.catalog.properties}
    store = None
    if config.store.kind in ("gcs", "azure"):
        store = store_of_tables(config, make_store(config.store, connections=4))
    library = open_catalog(config.catalog.name, properties, store)
    return IcebergCatalog(library), IcebergLibrary()


def open_duckdb() -> AbstractContextManager[TableReader]:
    """Open DuckDB to read tables.  Raises ``ConfigurationError`` where it is not installed."""
    from secor.adapters.duckdb_tables import duckdb_tables

    return duckdb_tables()


def check_catalog(config: Config) -> None:
    """Raise ``ConfigurationError`` for properties that open no catalog; asks no server."""
    from secor.adapters.iceberg.catalog_checks import check_properties

    if config.table_format == "iceberg":
        new_tables = any(table.auto_create and table.location is None for table in config.tables)
        check_properties(config.catalog.name, config.catalog.properties, new_tables=new_tables)


def check_writable(catalog: IcebergCatalog) -> None:
    """Raise ``AccessDenied``, ``Unavailable`` where a database lets nobody write."""
    from secor.adapters.iceberg import catalog_checks

    catalog_checks.check_writable(catalog.library)


def place_of_new_table(
    config: Config, catalog: IcebergCatalog, name: str, route: Route
) -> str | None:
    """Return the URI at which a table would be made; None where the catalog's server decides.

    Raises ``ConfigurationError`` where there is none.
    """
    from secor.adapters.iceberg import catalog_checks

    if route.settings.location is not None:
        return route.settings.location
    if config.table_format == "hudi":
        return config.hudi.location_of(name)
    return catalog_checks.place_of_new_table(catalog.library, name)


class PublishingEngine(MergeEngine, BranchPublisher, Protocol):
    """An engine that also commits to tables which the library for Python cannot commit to."""


def merging_catalog(catalog: IcebergCatalog, engine: PublishingEngine) -> IcebergCatalog:
    """Return a catalog that also commits changes of rows."""
    from secor.adapters.iceberg.merges import MergingCatalog

    return MergingCatalog(catalog, engine, engine)


def spark_catalog_of(config: Config) -> SparkCatalog:
    """Return how Spark reaches the catalog and the files of its tables.

    Raises ``ConfigurationError`` for a catalog or a store that Spark is not given.
    """
    if config.store.kind in ("gcs", "azure"):
        raise ConfigurationError(
            f'store.kind = "{config.store.kind}": Secor starts Spark without the libraries of this'
            " store; use a Spark of your own, as docs/stores.md says"
        )
    s3 = config.store.s3
    more = {
        "client.assume-role.external-id": s3.external_id,
        "s3.sse.type": {"AES256": "s3", "aws:kms": "kms"}.get(s3.sse or ""),
        "s3.sse.key": s3.kms_key,
    }
    given = {key: value for key, value in more.items() if value is not None}
    if config.store.kind != "s3":
        given = {}
    return spark_catalog(
        config.catalog.name, {**given, **_s3_properties(config), **config.catalog.properties}
    )


def _s3_properties(config: Config) -> dict[str, str]:
    """Return ``[store.s3]`` in the library's words: metadata is written as data files are."""
    if config.store.kind != "s3":
        return {}
    s3 = config.store.s3
    given = {
        "s3.endpoint": s3.endpoint_url,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": clear(s3.secret_key),
        "s3.session-token": clear(s3.session_token),
        "s3.role-arn": s3.role_arn,
    }
    return {name: value for name, value in given.items() if value is not None}
