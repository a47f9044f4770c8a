"""``secor verify`` reads tables in every format; one that it cannot read is a finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secor.cli.exit_codes import Exit
from tests.unit.cli.verifying_world import VerifyingWorld

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
