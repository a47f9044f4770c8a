"""Checks of a catalog before its use: its properties, its rights, where tables go."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from pyiceberg.catalog import (
    LOCATION,
    PY_CATALOG_IMPL,
    TYPE,
    URI,
    WAREHOUSE_LOCATION,
    Catalog,
    CatalogType,
    MetastoreCatalog,
    infer_catalog_type,
)
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.utils.config import Config, merge_config

from secor.adapters.iceberg.failures import translated
from secor.core.errors import ConfigurationError
from secor.core.text import mask_urls
from secor.tables.staging.uri_store import SCHEME, SCHEMES

_URI_SCHEMES: Mapping[CatalogType | None, tuple[str, ...]] = MappingProxyType(
    {
        CatalogType.REST: ("http://", "https://"),
        CatalogType.HIVE: ("thrift://",),
        CatalogType.SQL: (),
    }
)
"""How the URIs begin of catalogs that need one."""

_NO_URI = (
    'write type and uri of the catalog, such as type = "rest", uri = "https://..."; or'
    ' type = "sql", uri = "sqlite:////var/lib/secor/catalog.db", warehouse = "s3://bucket/path"'
)
_NO_PLACE = (
    "there is no place for new tables: write warehouse, such as s3://bucket/path, or location in"
    " [[tables]]"
)


def check_properties(name: str, properties: Mapping[str, Any], *, new_tables: bool) -> None:
    """Raise ``ConfigurationError`` for properties that open no catalog; asks no server.

    The library's own files and variables count, too.  With ``new_tables``, a place for them must
    be known.
    """
    merged = _merged(name, properties)
    if implementation := merged.get(PY_CATALOG_IMPL):
        _import_class(implementation)
        return
    kind, uri = merged.get(TYPE), merged.get(URI) or ""
    try:
        catalog_type = CatalogType(kind.lower()) if kind else infer_catalog_type(name, merged)
    except ValueError as error:
        raise ConfigurationError(_NO_URI) from error
    schemes = _URI_SCHEMES.get(catalog_type)
    if schemes is not None and not uri:
        raise ConfigurationError(_NO_URI)
    if schemes and not uri.startswith(schemes):
        raise ConfigurationError(f"uri {mask_urls(uri)!r}: write {' or '.join(schemes)}host...")
    if catalog_type is CatalogType.SQL:
        _load_driver(uri)
    warehouse = merged.get(WAREHOUSE_LOCATION) or ""
    if new_tables and not warehouse and catalog_type is CatalogType.SQL:
        raise ConfigurationError(_NO_PLACE)
    if warehouse and catalog_type is not CatalogType.REST:  # to which it is a name
        _check_warehouse(warehouse)


def _import_class(path: str) -> None:
    module, _, name = path.rpartition(".")
    try:
        getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{PY_CATALOG_IMPL} {path}: cannot be imported: {error}"
        ) from error


def _load_driver(uri: str) -> None:
    """Load the client of a database, as far as it is installed."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise ConfigurationError(
            f"uri {mask_urls(uri)!r}: {error}; write it as SQLAlchemy does, such as"
            " postgresql+psycopg2://user:password@host/db, and install the driver"
        ) from error


def _check_warehouse(warehouse: str) -> None:
    if warehouse.partition(SCHEME)[0] not in SCHEMES:
        known = ", ".join(f"{scheme}{SCHEME}" for scheme in SCHEMES)
        raise ConfigurationError(f"warehouse {warehouse!r}: write a URI that begins with {known}")


def _merged(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    own = Config().get_catalog_config(name) or {}
    return cast("dict[str, Any]", merge_config(own, dict(properties)))


def check_writable(library: Catalog) -> None:
    """Raise ``AccessDenied``, ``Unavailable`` where a database lets nobody write; changes nothing.

    Only catalogs in a database can be asked without a change.
    """
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import false, update

    if not isinstance(library, SqlCatalog):
        return
    # An update of no row: the database checks the right to write, and changes nothing.
    nothing = update(IcebergTables).where(false()).values(metadata_location="")
    with translated("its database"), library.engine.begin() as connection:
        connection.execute(nothing)


UNPREPARED = {"init_catalog_tables": "false"}
"""Properties with which a catalog in a database does not make its own tables."""


def is_absent(name: str, properties: Mapping[str, Any]) -> bool:
    """Return whether a catalog would be a new file: to open it would make that."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    merged = _merged(name, properties)
    try:
        url = make_url(merged.get(URI) or "")
    except SQLAlchemyError:
        return False  # of another kind
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").exists()


def is_prepared(library: Catalog) -> bool:
    """Return whether a catalog's database has the catalog's own tables; changes nothing.

    The first process that opens such a catalog makes them.
    """
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import inspect

    if not isinstance(library, SqlCatalog):
        return True
    with translated("its database"):
        return inspect(library.engine).has_table(IcebergTables.__tablename__)


def place_of_new_table(library: Catalog, identifier: str) -> str | None:
    """Return the URI at which a table would be made; None where the catalog's server decides.

    Raises ``ConfigurationError`` where there is none.
    """
    if not isinstance(library, MetastoreCatalog):
        return None
    *parts, name = identifier.split(".")
    namespace = ".".join(parts)
    warehouse = library.properties.get(WAREHOUSE_LOCATION)
    with translated(f"namespace {namespace}"):
        try:
            place = library.load_namespace_properties(namespace).get(LOCATION)
        except NoSuchNamespaceError:
            place = None  # it is made with the table
    if place is None and warehouse is None:
        raise ConfigurationError(_NO_PLACE)
    return f"{place or f'{warehouse}/{namespace}'}/{name}"
