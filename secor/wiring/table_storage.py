"""The stores of a group and of its tables' files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from secor.config.model import Config, Store
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.tables.staging.uri_store import CLOUD_SCHEMES, SCHEMES, UriStore
from secor.wiring.clients import make_store, s3_store, store_of


def open_own_store(config: Config) -> Callable[[], ObjectStore]:
    """Return what opens the group's store in another process, to read what is staged."""
    return partial(make_store, config.store, connections=4)


def store_of_tables(config: Config, own: ObjectStore) -> ObjectStore:
    """Return the group's store, which also takes URIs of data files.

    Other buckets and containers are used with the settings and credentials of the group's own:
    ``[store.s3]``, ``[store.gcs]``, ``[store.azure]``.
    """

    def open_store(uri: str) -> tuple[str, ObjectStore]:
        parts = urlsplit(uri)
        if parts.scheme == "file":
            return _local(config, uri)
        if parts.scheme not in SCHEMES:
            raise ConfigurationError(
                f"{uri}: data files can be in S3 (s3://bucket/...), in Google's and Azure's stores"
                " (gs://bucket/..., abfss://container@account.dfs.core.windows.net/...) and in"
                " directories (file:///...)"
            )
        place = f"{parts.scheme}://{parts.netloc}/"
        if parts.scheme in CLOUD_SCHEMES:
            described = _cloud_of(config, uri)
            if described == config.store:
                return place, own
            connections = 2 * config.limits.upload_threads + 2
            return place, store_of(described, connections=connections)
        # The same bucket needs no second set of connections.
        if config.store.kind == "s3" and parts.netloc == config.store.s3.bucket:
            return place, own
        settings = config.store.s3.model_copy(update={"bucket": parts.netloc})
        store = s3_store(settings, connections=2 * config.limits.upload_threads + 2)
        store.check()
        return place, store

    return UriStore(own, open_store)


def _cloud_of(config: Config, uri: str) -> Store:
    """Return the store of a URI, with the credentials of the group's own.

    Raises ``ConfigurationError`` where the group's is in another cloud.
    """
    parts, store = urlsplit(uri), config.store
    kind = "gcs" if parts.scheme == "gs" else "azure"
    if store.kind != kind:
        raise ConfigurationError(
            f'{uri}: files of tables can be there when store.kind = "{kind}", which has the'
            " credentials"
        )
    if kind == "gcs":
        return store.model_copy(
            update={"gcs": store.gcs.model_copy(update={"bucket": parts.netloc})}
        )
    container, _, host = parts.netloc.partition("@")
    account = host.partition(".")[0]
    if not container or not account:
        raise ConfigurationError(f"{uri}: write abfss://container@account.dfs.core.windows.net/...")
    place = {"account": account, "container": container}
    return store.model_copy(update={"azure": store.azure.model_copy(update=place)})


def _local(config: Config, uri: str) -> tuple[str, ObjectStore]:
    """Return a store in the warehouse's directory, or in the directory of the data files."""
    from secor.adapters.local import DirectoryStore

    warehouse = config.catalog.properties.get("warehouse", "").rstrip("/")
    if config.table_format == "hudi":  # never its own .hoodie: that would look like a table
        warehouse = uri.partition("/.hoodie/")[0]
    above = uri.partition("/data/")[0] if "/data/" in uri else uri.rpartition("/")[0]
    place = warehouse if warehouse and uri.startswith(f"{warehouse}/") else above
    store = DirectoryStore(Path(urlsplit(place).path))
    store.check()
    return f"{place}/", store
