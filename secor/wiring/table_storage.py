"""The stores of a group and of its tables' files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.core.ports import ObjectStore
from secor.tables.uri_store import SCHEMES, UriStore
from secor.wiring.clients import s3_store


def open_own_store(config: Config) -> Callable[[], ObjectStore]:
    """Return what opens the group's store in another process, to read what is staged."""
    if config.store.kind == "s3":
        return partial(s3_store, config.store.s3, 4)
    from secor.adapters.local import LocalStore

    directory = config.store.local.directory
    assert directory is not None, "a configuration with a local store names its directory"
    return partial(LocalStore, Path(directory))


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
