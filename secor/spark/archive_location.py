"""Opens the archive of a path and options in Secor's own store, without Hadoop's classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from secor.archive.objects import Archive
from secor.core.errors import ConfigurationError
from secor.core.installing import require_package
from secor.formats import format_of_key
from secor.spark.options import AZURE_OPTIONS, GCS_OPTIONS, S3_OPTIONS, ReadOptions

if TYPE_CHECKING:
    from secor.adapters.clouds import CloudStore

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://|file:")


@contextmanager
def open_archive(options: ReadOptions) -> Iterator[Archive]:
    """Give the archive of a read.  Raises ``ConfigurationError``, ``AccessDenied``."""
    formats = partial(format_of_key, delimiter=options.delimiter)
    bucket, prefix = s3_place(options.path)
    if bucket is not None:
        from secor.adapters.s3 import S3Store

        store = S3Store(bucket, **_connection(options, S3_OPTIONS))
        try:
            yield Archive(store, _join(prefix, options.prefix), options.hashed, formats)
        finally:
            store.close()
        return
    cloud = cloud_store(options)
    if cloud is not None:
        in_cloud, prefix = cloud
        yield Archive(in_cloud, _join(prefix, options.prefix), options.hashed, formats)
        return
    from secor.adapters.local import DirectoryStore

    local = DirectoryStore(local_place(options.path))
    yield Archive(local, options.prefix.strip("/"), options.hashed, formats)


def cloud_store(options: ReadOptions) -> tuple[CloudStore, str] | None:
    """Return the store and the prefix of ``gs://bucket/prefix`` or
    ``abfss://container@account.dfs.core.windows.net/prefix``, None for other paths.
    """
    address = urlsplit(options.path)
    if address.scheme.lower() not in ("gs", "abfs", "abfss"):
        return None
    require_package("obstore", "clouds", options.path)
    from secor.adapters.clouds import azure_store, gcs_store

    if address.scheme.lower() == "gs":
        if not address.netloc:
            raise ConfigurationError(f"{options.path!r} names no bucket: write gs://bucket/prefix")
        return gcs_store(address.netloc, **_connection(options, GCS_OPTIONS)), address.path
    container, _, host = address.netloc.partition("@")
    account = host.partition(".")[0]
    if not container or not account:
        raise ConfigurationError(
            f"{options.path!r}: write abfss://container@account.dfs.core.windows.net/prefix"
        )
    return azure_store(account, container, **_connection(options, AZURE_OPTIONS)), address.path


def _join(*parts: str) -> str:
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def _connection(options: ReadOptions, known: frozenset[str]) -> dict[str, Any]:
    """Return the options of the connection.  Raises ``ConfigurationError`` for another store's."""
    foreign = sorted(set(options.connection) - known)
    if foreign:
        raise ConfigurationError(
            f"options of another kind of store than {options.path}: {', '.join(foreign)}"
        )
    return dict(options.connection)


def s3_place(path: str) -> tuple[str | None, str]:
    """Return bucket and prefix of ``s3://bucket/prefix`` (also s3a, s3n); None for other paths."""
    scheme, separator, location = path.partition("://")
    if not separator or scheme.lower() not in ("s3", "s3a", "s3n"):
        return None, ""
    bucket, _, prefix = location.partition("/")
    if not bucket:
        raise ConfigurationError(f"{path!r} names no bucket: write s3://bucket/prefix")
    return bucket, prefix.strip("/")


def local_place(path: str) -> Path:
    """Return the directory of a path or a ``file:`` address.  Raises ``ConfigurationError``."""
    if path.lower().startswith("file:"):
        directory = Path(unquote(urlsplit(path).path))
    elif _SCHEME.match(path):
        raise ConfigurationError(
            f"{path!r}: the archive is read from s3://bucket/prefix, gs://bucket/prefix,"
            " abfss://container@account.dfs.core.windows.net/prefix, or from a local directory"
        )
    else:
        directory = Path(path)
    if not directory.is_dir():
        raise ConfigurationError(f"there is no directory {directory} on this machine")
    return directory
