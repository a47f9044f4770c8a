"""Iceberg tables in the clouds' stores: made, committed to and read back through the emulators.

Those that this machine cannot run are left out, as in ``test_store``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c

from secor.config.load import load
from secor.config.model import Config
from secor.sandbox.state import free_port
from secor.tables.catalog import NewTable, Outcome, TableCommit
from secor.tables.staging.manifest import DataFile, Statistics, TableFiles
from secor.wiring.clients import open_store
from secor.wiring.table_catalogs import open_tables
from secor.wiring.table_storage import store_of_tables
from tests import emulators
from tests.fakes.gcs_server import TOKEN, gcs_server

CLOUDS = ["gcs", *(name for name in ("azure",) if name not in emulators.absent())]
SCHEMA = pa.schema([pa.field("id", pa.int64())])
CONFIG = """
group = { name = "g", kind = "table" }
kafka = { bootstrap_servers = ["localhost:1"], topics = ["clicks"] }
ledger.kind = "kafka"
output.prefix = "lake"
parser.decoder = "json"
tables = [{ table = "logs.clicks" }]
"""


@pytest.fixture(params=CLOUDS)
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Config]:
    if request.param == "gcs":
        with gcs_server() as server:
            section = {"bucket": "secor", "token": TOKEN, "endpoint_url": server.url}
            yield configured(tmp_path, "gcs", section, "gs://secor")
        return
    azurite = emulators.AzuriteServer(tmp_path / "azurite", free_port(), print)
    azurite.start()
    azurite.make_container()
    section = {
        "account": emulators.ACCOUNT,
        "container": emulators.CONTAINER,
        "account_key": emulators.KEY,
        "endpoint_url": azurite.url,
    }
    place = f"abfss://{emulators.CONTAINER}@{emulators.ACCOUNT}.dfs.core.windows.net"
    yield configured(tmp_path, "azure", section, place)
    azurite.stop()


def configured(folder: Path, kind: str, section: dict[str, str], place: str) -> Config:
    path = folder / "table.toml"
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"{place}/warehouse",
    }
    keys = [f"store.{kind}.{key} = {json.dumps(value)}" for key, value in section.items()]
    keys += [f"catalog.properties.{key} = {json.dumps(it)}" for key, it in properties.items()]
    path.write_text("\n".join([CONFIG, f'store.kind = "{kind}"', *keys]))
    return load(path, {})


def test_rows_of_a_table_in_a_cloud_are_read_back(config: Config, tmp_path: Path) -> None:
    catalog, _ = open_tables(config)
    table = catalog.create_table("logs.clicks", NewTable(SCHEMA))
    location = f"{table.location}/data/a.parquet"
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([pa.array([1, 2, 3])], schema=table.schema), path)
    with open_store(config) as own:
        store = store_of_tables(config, own)
        store.put(location, path, crc32c(path.read_bytes()), {})
        (stored,) = store.list(f"{table.location}/data/")
        assert (stored.key, stored.size) == (location, path.stat().st_size)
    statistics = Statistics(value_counts={1: 3}, null_value_counts={1: 0})
    file = DataFile(location, "parquet", 3, path.stat().st_size, 1, 3, (), statistics)
    files = TableFiles(
        table.identifier, table.uuid, table.schema_id, table.spec_id, "append", (file,)
    )
    assert catalog.commit(table, TableCommit(None, (files,))).outcome is Outcome.DONE
    reader, _ = open_tables(config)  # as another process would
    seen = reader.load_table("logs.clicks")
    (batch,) = reader.scan(seen, "main", ["id"])
    assert batch.column("id").to_pylist() == [1, 2, 3]
    assert [*reader.data_files(seen)] == [location]
    assert sorted(it.name for it in tmp_path.iterdir() if it.is_file()) == [
        *("a.parquet", "catalog.db", "table.toml"),
    ]
