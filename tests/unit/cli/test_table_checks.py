"""``secor doctor`` of a table group, with a catalog and a store in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.cli.doctor_checks import Finding
from secor.cli.table_checks import of_tables
from secor.config.load import validate
from secor.config.model import Config
from secor.tables.catalog import NewTable
from secor.wiring.check_references import unusable_materials
from tests.unit.adapters.iceberg_tables import sqlite_catalog


def config_of(directory: Path, *tables: dict[str, Any]) -> Config:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "table"},
            "kafka": {"bootstrap_servers": ["localhost:1"], "topics": ["a", "b"]},
            "store": {"kind": "local", "local": {"directory": f"{directory}/own"}},
            "catalog": {"properties": properties},
            "tables": list(tables),
        }
    )
    assert config is not None, faults
    return config


def told(findings: list[Finding]) -> dict[str, str]:
    return {f"{it.check} {'ok' if it.ok else 'FAULT'}": it.text for it in findings}


def test_all_is_well_and_nothing_is_left_behind(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    sqlite_catalog(tmp_path).create_table("db.a", NewTable(schema, ("bucket(4, id)",)))
    config = config_of(tmp_path, {"table": "db.{topic}", "auto_create": True})
    found = list(of_tables(config))
    assert all(finding.ok for finding in found)
    texts = [finding.text for finding in found]
    assert any(
        "db.a: 1 columns, partitions: bucket[4](id_bucket), files: parquet" in it for it in texts
    )
    assert "db.b does not exist: it is made with its first messages" in texts
    assert {"put", "get", "list", "put once", "delete"} <= {finding.check for finding in found}
    assert not list((tmp_path / "warehouse").rglob("_secor-doctor/*"))


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64())])
    bad = {"write.format.default": "csv"}
    sqlite_catalog(tmp_path).create_table("db.a", NewTable(schema, (), bad))
    found = list(of_tables(config_of(tmp_path, {"table": "db.{topic}"})))
    faults = [finding.text for finding in found if not finding.ok]
    assert "use parquet, orc or avro" in faults[0]
    assert "db.b does not exist: create it" in faults[1]


def test_a_catalog_that_does_not_answer_is_one_fault(tmp_path: Path) -> None:
    found = list(of_tables(config_of(tmp_path / "missing", {"table": "db.t"})))
    assert [(finding.check, finding.ok) for finding in found] == [("catalog", False)]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"partition_by": ["week(ts)"]}, "no such partition transform"),
        ({"schema_file": "missing.avsc"}, "cannot be read"),
        ({"schema_file": "DECLARED", "partition_by": ["day(nowhere)"]}, "no column nowhere"),
    ],
)
def test_config_check_looks_at_tables_that_are_to_be_made(
    tmp_path: Path, table: dict[str, Any], words: str
) -> None:
    declared = tmp_path / "declared.json"
    declared.write_text(
        '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'
    )
    given = {key: str(declared) if it == "DECLARED" else it for key, it in table.items()}
    config = config_of(tmp_path, {"table": "db.t", "auto_create": True, **given})
    assert words in unusable_materials(config)["tables.0"]
