"""``secor verify --by``: tables as an engine reads them, and rows that its filters do not find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from secor.adapters import duckdb_tables
from secor.cli.exit_codes import Exit
from secor.cli.verify import command as verify
from secor.core.errors import ConfigurationError
from tests.unit.cli.verifying_world import VerifyingWorld, with_wrong_bounds

TABLE: dict[str, Any] = {"table": "db.flights", "auto_create": True}


def test_duckdb_reads_the_tables_and_finds_each_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    world.write({"id": 1, "name": "a"}, {"id": 2, "name": None})
    world.write({"id": 3, "name": "c"})
    code, text = world.verify("--by", "duckdb")
    assert code == Exit.OK, text
    assert "DuckDB read 2 data files, and by filters" in text
    assert "least and greatest values and nulls: all found" in text
    assert text.splitlines()[-1] == "3 messages of 1 topic partition compared: each is there once"


def test_rows_that_duckdb_does_not_find_are_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    with_wrong_bounds(monkeypatch)
    world.write({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    code, text = world.verify("--by", "duckdb", "--rows-only")
    assert code == Exit.DIFFERENT
    assert "db.flights: DuckDB does not find the row with id = 2 that " in text
    assert text.splitlines()[-1].endswith("compared: 3 findings")  # id, name and _offset
    code, text = world.verify("--by", "duckdb", "--rows-only", "--json")
    filters = json.loads(text)["filters"]
    assert (code, filters["engine"], len(filters["not_found"])) == (Exit.DIFFERENT, "DuckDB", 3)
    assert json.loads(world.verify("--json")[1])["filters"] is None


def test_a_table_that_duckdb_cannot_read_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {**TABLE, "properties": {"write.format.default": "orc"}}
    world = VerifyingWorld(tmp_path, [table], monkeypatch)
    world.write({"id": 1})
    code, text = world.verify("--by", "duckdb", "--rows-only")
    assert code == Exit.DIFFERENT
    assert "not compared: table db.flights: DuckDB cannot read it: " in text


def test_an_engine_that_is_not_there_is_an_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    world.write({"id": 1})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(duckdb_tables, "_packaged", lambda name, version: None)
    with pytest.raises(
        ConfigurationError, match=r"--by duckdb: .* has no extension 'avro': run pip"
    ):
        world.verify("--by", "duckdb")


def test_by_is_refused_for_groups_without_tables() -> None:
    config = Path(__file__).parents[3] / "config" / "backup.toml"
    with pytest.raises(ConfigurationError, match="has no tables: take --by away"):
        CliRunner().invoke(
            verify.command,
            [str(config), "--by", "duckdb"],
            standalone_mode=False,
            catch_exceptions=False,
        )
