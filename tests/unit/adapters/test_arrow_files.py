"""What the Iceberg library reads and writes files with, shared between loads of tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem
from pyiceberg import io as library
from pyiceberg.io.pyarrow import PyArrowFileIO

from secor.adapters.iceberg.store_files import CONNECTION_PREFIXES, ArrowFiles
from secor.tables.catalog import NewTable
from tests.unit.adapters.iceberg_tables import SCHEMA, sqlite_catalog

S3 = {
    "s3.endpoint": "http://localhost:1",
    "s3.region": "us-east-1",
    "s3.access-key-id": "a",
    "s3.secret-access-key": "b",
}


def test_equal_properties_share_file_systems_whatever_else_a_table_has() -> None:
    first = ArrowFiles({**S3, "secor.g.vector": "1", "uri": "x"}).fs_by_scheme("s3", "lake")
    assert ArrowFiles({**S3, "secor.g.vector": "2"}).fs_by_scheme("s3", "lake") is first


@pytest.mark.parametrize(
    "change",
    [{"s3.access-key-id": "b"}, {"s3.endpoint": "http://other:1"}, {"client.region": "eu"}],
)
def test_other_properties_have_file_systems_of_their_own(change: dict[str, str]) -> None:
    first = ArrowFiles(S3).fs_by_scheme("s3", "lake")
    assert ArrowFiles({**S3, **change}).fs_by_scheme("s3", "lake") is not first


def test_every_property_that_the_library_gives_a_file_system_is_told_apart() -> None:
    source = Path(library.__file__).read_text()
    names = set(re.findall(r'^[A-Z0-9_]+ = "([a-z0-9]+\.[a-z0-9._-]+)"$', source, re.MULTILINE))
    assert len(names) > 50
    others = {name for name in names if not name.startswith(CONNECTION_PREFIXES)}
    assert others == {"hf.endpoint", "hf.token"}, "of an access that pyarrow's has no part in"


def test_tables_are_loaded_with_shared_file_systems(tmp_path: Path) -> None:
    catalog = sqlite_catalog(tmp_path)
    catalog.create_table("db.events", NewTable(SCHEMA))
    loads = [catalog.library.load_table("db.events").io for _ in range(2)]
    assert all(isinstance(it, PyArrowFileIO) for it in loads)
    first, second = (it.fs_by_scheme("file", "") for it in loads)
    assert first is second
    assert isinstance(first, LocalFileSystem)
