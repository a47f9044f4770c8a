"""What tables of changed rows hold, read by others than the daemons; and what the topic says.

Iceberg tables are read by the Iceberg library, Hudi tables of type copy-on-write from the names
on their timeline and their files, with nothing of the product.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError
from pyiceberg.table import Table

from secor.config.load import load
from secor.sandbox import Sandbox
from secor.wiring.clients import open_reader

Rows = dict[int, Mapping[str, Any]]
"""The rows of a table by key, without nulls and without what Hudi adds."""

ReadTable = Callable[[], "Rows | None"]
"""Returns the rows of a table; None where it cannot be read just now.  Raises ``KeyTwice``."""

_COMPLETED = re.compile(r"(\d{17})_\d{17}\.(?:commit|replacecommit)")
_DATA_FILE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d{17})\.parquet")


class KeyTwice(Exception):
    """A table has several rows of a key."""


@dataclass(frozen=True, slots=True)
class RestTable:
    """A table in the REST catalog at ``uri``, in a bucket of the sandbox."""

    sandbox: Sandbox
    uri: str
    name: str

    def __call__(self) -> Rows | None:
        """Read it; see ``ReadTable``."""
        try:
            catalog = self._catalog()
            if not catalog.table_exists(self.name):
                return None
            rows = catalog.load_table(self.name).scan().to_arrow().to_pylist()
        except (OSError, RESTError):
            return None
        return by_key(rows)

    def load(self) -> Table:
        """Return it as the Iceberg library has it."""
        return self._catalog().load_table(self.name)

    def _catalog(self) -> Catalog:
        s3 = self.sandbox.s3
        return load_catalog(
            "soak",
            type="rest",
            uri=self.uri,
            **{
                "s3.endpoint": s3.endpoint_url,
                "s3.region": s3.region,
                "s3.access-key-id": s3.access_key,
                "s3.secret-access-key": s3.secret_key,
            },
        )


@dataclass(frozen=True, slots=True)
class HudiTable:
    """A copy-on-write table without partitions at ``path`` (bucket and key) of the sandbox."""

    sandbox: Sandbox
    path: str

    def __call__(self) -> Rows | None:
        """Read the newest file of each file group that a completed commit has written."""
        s3 = self.sandbox.s3
        files = S3FileSystem(
            access_key=s3.access_key,
            secret_key=s3.secret_key,
            endpoint_override=s3.endpoint_url,
            region=s3.region,
        )
        try:
            timeline = _names(files, f"{self.path}/.hoodie/timeline")
            rows = [
                row
                for name in newest_files(timeline, _names(files, self.path))
                for row in pq.read_table(f"{self.path}/{name}", filesystem=files).to_pylist()
            ]
        except OSError:
            return None
        return by_key(rows)


def newest_files(timeline: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the newest file of each file group, among those of completed commits.

    A file older than the whole ``timeline`` is of a commit that was archived.
    """
    completed = {it[1] for it in map(_COMPLETED.fullmatch, timeline) if it is not None}
    newest: dict[str, tuple[str, str]] = {}
    for name in names:
        file = _DATA_FILE.fullmatch(name)
        if file is None or not completed:
            continue
        instant = file["instant"]
        if instant in completed or instant < min(completed):
            newest[file["group"]] = max(newest.get(file["group"], ("", "")), (instant, name))
    return sorted(name for _, name in newest.values())


def _names(files: S3FileSystem, folder: str) -> list[str]:
    entries = files.get_file_info(FileSelector(folder, allow_not_found=True))
    return [it.base_name for it in entries if it.type is FileType.File]


def by_key(rows: Sequence[dict[str, Any]]) -> Rows:
    """Return rows by their key.  Raises ``KeyTwice``."""
    keyed: Rows = {
        row["id"]: {k: v for k, v in row.items() if v is not None and not k.startswith("_")}
        for row in rows
    }
    if len(keyed) != len(rows):
        raise KeyTwice(f"{len(rows)} rows, and {len(keyed)} keys")
    return keyed


def expected_rows(config: Path, topic: str) -> Rows:
    """Return the last state of each key, as the topic tells it; a key is in one partition."""
    rows: Rows = {}
    with open_reader(load(config, {})) as reader:
        for partition in reader.partitions(topic):
            for chunk in reader.read(partition, 0, reader.log_range(partition).end):
                for message in chunk.records.select(["key", "value"]).to_pylist():
                    row_id = json.loads(message["key"])["id"]
                    rows.pop(row_id, None)
                    if message["value"] is not None:
                        rows[row_id] = json.loads(message["value"])
    return rows
