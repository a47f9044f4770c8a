"""``secor verify`` reads tables in every format; one that it cannot read is a finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from secor.cli.exit_codes import Exit
from secor.cli.verify import command as verify
from secor.core.errors import ConfigurationError
from secor.jobs import verify_tables
from tests.unit.cli.verifying_world import VerifyingWorld, with_wrong_bounds

TABLE = {"table": "db.flights", "auto_create": True}


def in_format(file_format: str) -> dict[str, Any]:
    return {**TABLE, "properties": {"write.format.default": file_format}}


@pytest.mark.parametrize("file_format", ["avro", "orc", "parquet"])
def test_tables_are_read_in_every_format(
    file_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [in_format(file_format)], monkeypatch)
    world.write({"id": 1}, {"id": 2})
    world.write({"id": 3})
    code, text = world.verify()
    assert (code, text.splitlines()[-1]) == (
        Exit.OK,
        "3 messages of 1 topic partition compared: each is there once",
    )


def test_a_batch_that_is_staged_meanwhile_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    world.write({"id": 1}, {"id": 2})
    load = verify_tables._load

    def load_and_stage(*arguments: Any) -> Any:
        loaded = load(*arguments)
        world.messages.append({"id": 3})
        world.worker.stage({"id": 3})
        return loaded

    monkeypatch.setattr(verify_tables, "_load", load_and_stage)
    code, text = world.verify()
    assert (code, text.splitlines()[-1]) == (
        Exit.OK,
        "2 messages of 1 topic partition compared: each is there once",
    )


@pytest.mark.parametrize("file_format", ["avro", "orc", "parquet"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_table_with_a_damaged_file_is_a_finding_that_names_the_file(
    file_format: str, is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [in_format(file_format)], monkeypatch)
    world.write(*({"id": number} for number in range(1000)))
    (file,) = (it for it in tmp_path.rglob(f"*.{file_format}") if it.parent.name == "data")
    content = file.read_bytes()
    half = len(content) // 2
    damaged = content[:-20] if is_cut else content[:4] + bytes(half) + content[4 + half :]
    file.write_bytes(damaged)
    code, text = world.verify()
    assert code == Exit.DIFFERENT
    assert "not compared: table db.flights: it cannot be read: " in text
    assert file.name in text
    assert text.splitlines()[-1].endswith("compared: 1 finding")


def test_a_file_that_is_missing_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    world.write({"id": 1})
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    code, text = world.verify()
    assert code == Exit.DIFFERENT
    assert "a file of its snapshot is missing" in text


def test_bounds_that_hide_rows_are_findings_though_each_row_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch)
    with monkeypatch.context() as older:
        with_wrong_bounds(older)
        world.write({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    world.write({"id": 3, "name": "c"}, {"id": 4, "name": "d"})
    table = world.worker.catalog.library.load_table("db.flights")
    assert table.scan("id = 2").to_arrow().num_rows == 0
    code, text = world.verify()
    assert code == Exit.DIFFERENT
    of_name = "column name: the recorded upper bound is 'a', the file has greatest value 'b'"
    assert of_name in text
    assert "db.flights: metadata compared with the values of 4 rows in 2 files" in text
    assert text.splitlines()[-1].endswith("compared: 3 findings")  # id, name and _offset
    code, text = world.verify("--json")
    assert code == Exit.DIFFERENT
    (of_table,) = json.loads(text)["metadata"]
    assert (of_table["table"], of_table["files"], of_table["rows"]) == ("db.flights", 2, 4)
    assert {wrong["column"] for wrong in of_table["wrong"]} == {"id", "name", "_offset"}
    assert world.verify("--rows-only")[0] == Exit.OK


def test_metadata_is_compared_of_tables_whose_rows_tell_no_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = VerifyingWorld(tmp_path, [TABLE], monkeypatch, metadata_columns=[])
    with_wrong_bounds(monkeypatch)
    world.write({"id": 1}, {"id": 2})
    code, text = world.verify()
    assert code == Exit.DIFFERENT
    assert "column id: the recorded upper bound is 1, the file has greatest value 2" in text


def test_rows_only_is_refused_for_groups_without_tables() -> None:
    config = Path(__file__).parents[3] / "config" / "backup.toml"
    with pytest.raises(ConfigurationError, match="has no tables: take --rows-only away"):
        CliRunner().invoke(
            verify.command,
            [str(config), "--rows-only"],
            standalone_mode=False,
            catch_exceptions=False,
        )
