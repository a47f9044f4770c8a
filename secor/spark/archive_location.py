"""Where an archive is: from a path and options to our own store, without Hadoop's S3 classes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from secor.archive.objects import Archive
from secor.core.errors import ConfigurationError
from secor.formats import format_of_key
from secor.spark.options import ReadOptions

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://|file:")


@contextmanager
def open_archive(options: ReadOptions) -> Iterator[Archive]:
    """Give the archive of a read.  Raises ``ConfigurationError``, ``AccessDenied``."""
    formats = partial(format_of_key, delimiter=options.delimiter)
    bucket, prefix = s3_place(options.path)
    if bucket is None:
        from secor.adapters.local import LocalStore

        local = LocalStore(local_place(options.path))
        yield Archive(local, options.prefix.strip("/"), options.hashed, formats)
        return
    from secor.adapters.s3 import S3Store

    store = S3Store(bucket, **options.connection)
    whole = "/".join(part.strip("/") for part in (prefix, options.prefix) if part.strip("/"))
    try:
        yield Archive(store, whole, options.hashed, formats)
    finally:
        store.close()


def s3_place(path: str) -> tuple[str | None, str]:
    """Return bucket and prefix of ``s3://bucket/prefix`` (also s3a, s3n); None for other paths."""
    scheme, separator, rest = path.partition("://")
    if not separator or scheme.lower() not in ("s3", "s3a", "s3n"):
        return None, ""
    bucket, _, prefix = rest.partition("/")
    if not bucket:
        raise ConfigurationError(f"{path!r} names no bucket: write s3://bucket/prefix")
    return bucket, prefix.strip("/")


def local_place(path: str) -> Path:
    """Return the directory of a path or a ``file:`` address.  Raises ``ConfigurationError``."""
    if path.lower().startswith("file:"):
        place = Path(unquote(urlsplit(path).path))
    elif _SCHEME.match(path):
        raise ConfigurationError(
            f"{path!r}: the archive is read from s3://bucket/prefix or from a local directory"
        )
    else:
        place = Path(path)
    if not place.is_dir():
        raise ConfigurationError(f"there is no directory {place} on this machine")
    return place
