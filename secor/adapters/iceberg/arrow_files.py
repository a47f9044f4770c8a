"""File systems of pyarrow that outlive one load of a table, with their connections.

For each load of a table the library makes a new file access, with a new client of S3 that must
open all of its connections anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

MOST_CACHED = 32
"""Sets of properties; a catalog may lend other credentials with each load."""

CONNECTION_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")
"""Prefixes of the properties that tell a file system its address and credentials."""

FileSystems = Callable[[str, str | None], FileSystem]
"""Returns the file system of a scheme and, for example, a bucket."""


class ArrowFiles(PyArrowFileIO):
    """The library's file access by pyarrow; instances with equal properties share file systems."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self.fs_by_scheme = _file_systems(_connecting(properties))


def _connecting(properties: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    named = {
        name: str(value)
        for name, value in properties.items()
        if name.startswith(CONNECTION_PREFIXES)
    }
    return tuple(sorted(named.items()))


@lru_cache(maxsize=MOST_CACHED)
def _file_systems(properties: tuple[tuple[str, str], ...]) -> FileSystems:
    file_systems: FileSystems = PyArrowFileIO(dict(properties)).fs_by_scheme
    return file_systems
