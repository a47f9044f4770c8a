"""File systems of pyarrow that outlive one load of a table, with their connections.

The library makes a file access for each load of a table, and with it a client of S3 whose
connections all have to be opened anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from pyarrow.fs import FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

MOST_CACHED = 32
"""Sets of properties: credentials that a catalog lends are others with each load."""

CONNECTION_PREFIXES = ("s3.", "client.", "gcs.", "adls.", "hdfs.")
"""Of the names of properties that tell a file system where it is and who asks."""

FileSystems = Callable[[str, str | None], FileSystem]
"""By scheme and place, such as a bucket."""


class ArrowFiles(PyArrowFileIO):
    """The library's file access by pyarrow; those of equal properties share file systems."""

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
