"""Where the tables of a group are: the catalog, for Secor and for Spark; the stores of files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.tables.merging import MergeEngine
from secor.tables.spark_catalog import SparkCatalog, spark_catalog
from secor.tables.uri_store import SCHEMES, UriStore
from secor.wiring.clients import clear, s3_store

if TYPE_CHECKING:
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.library import IcebergLibrary


def open_tables(config: Config) -> tuple[IcebergCatalog, IcebergLibrary]:
    """Return the catalog, and the library beside it.

    Raises ``ConfigurationError``, ``Unavailable``, ``AccessDenied``.
    """
    # Not before it is needed: the library takes half a second.
    from secor.adapters.iceberg.catalog import open_catalog
    from secor.adapters.iceberg.commits import IcebergCatalog
    from secor.adapters.iceberg.library import IcebergLibrary

    if config.table_format == "hudi":
        from secor.wiring.hudi import open_hudi_tables

        return open_hudi_tables(config), IcebergLibrary()
    properties = {**_s3_properties(config), **config.catalog.properties}
    return IcebergCatalog(open_catalog(config.catalog.name, properties)), IcebergLibrary()


def merging_catalog(catalog: IcebergCatalog, engine: MergeEngine) -> IcebergCatalog:
    """Return a catalog whose commits may have changes of rows, too."""
    from secor.adapters.iceberg.merges import MergingCatalog

    return MergingCatalog(catalog, engine)


def open_own_store(config: Config) -> Callable[[], ObjectStore]:
    """Return what opens the group's store in another process, to read what is staged."""
    if config.store.kind == "s3":
        return partial(s3_store, config.store.s3, 4)
    from secor.adapters.local import LocalStore

    directory = config.store.local.directory
    assert directory is not None, "a configuration with a local store names its directory"
    return partial(LocalStore, Path(directory))


def spark_catalog_of(config: Config) -> SparkCatalog:
    """Return how Spark reaches the catalog and the files of its tables.

    Raises ``ConfigurationError`` for a catalog that Spark does not know.
    """
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


def store_of_tables(config: Config, own: ObjectStore) -> ObjectStore:
    """Return the group's store, which also takes URIs of data files.

    Buckets are used with the settings and credentials of ``[store.s3]``.
    """

    def open_store(uri: str) -> tuple[str, ObjectStore]:
        parts = urlsplit(uri)
        if parts.scheme in SCHEMES and parts.scheme != "file":
            place = f"{parts.scheme}://{parts.netloc}/"
            if config.store.kind == "s3" and parts.netloc == config.store.s3.bucket:
                return place, own
            settings = config.store.s3.model_copy(update={"bucket": parts.netloc})
            store = s3_store(settings, connections=2 * config.limits.upload_threads + 2)
            store.check()
            return place, store
        if parts.scheme == "file":
            return _local(config, uri)
        raise ConfigurationError(
            f"{uri}: data files can be in S3 (s3://bucket/...) and in directories (file:///...)"
        )

    return UriStore(own, open_store)


def _local(config: Config, uri: str) -> tuple[str, ObjectStore]:
    """Return a store in the warehouse's directory, or in the directory of the data files."""
    from secor.adapters.local import LocalStore

    warehouse = config.catalog.properties.get("warehouse", "").rstrip("/")
    if config.table_format == "hudi":  # never its own .hoodie: that would look like a table
        warehouse = uri.partition("/.hoodie/")[0]
    above = uri.partition("/data/")[0] if "/data/" in uri else uri.rpartition("/")[0]
    place = warehouse if warehouse and uri.startswith(f"{warehouse}/") else above
    store = LocalStore(Path(urlsplit(place).path))
    store.check()
    return f"{place}/", store
