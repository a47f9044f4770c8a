"""The examples in ``config/`` are complete and tell the truth."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from secor.cli import main
from secor.cli.exit_codes import Exit
from secor.config import schema
from secor.config.examples import EXAMPLES, full_example
from secor.config.load import load
from secor.config.model import Config
from secor.config.output import OF_FIELDS
from secor.config.table_routes import TableRoute
from secor.config.tables import OF_OUTPUT, OF_PLACES
from secor.sandbox.first_steps import BEGINNINGS

CONFIG = Path(__file__).parents[3] / "config"
OF_TABLES = {
    key for key in schema.every_key() if key[0] in ("catalog", "rows", "commit", "spark", "hudi")
}
OF_BACKUPS = {
    key for key in schema.every_key() if key[0] == "registry" or key[-1].startswith("keep_")
} - {("commit", "keep_manifests")}
OF_OTHERS = {
    *(key for key in schema.every_key() if key[0] == "finalize"),
    *(key for key in schema.every_key() if key[0] == "output" and key[1] not in OF_OUTPUT),
    *(("parser", name) for name in (*OF_PLACES, "plugin_settings")),
}
ABSENT: dict[str, set[tuple[str, ...]]] = {
    "backup": {key for key in schema.every_key() if key[0] in ("parser", "finalize")}
    | {
        ("output", name)
        for name in (*OF_FIELDS, "naming", "stripe_rows", "block_rows", "format_settings")
    }
    | OF_TABLES,
    "partition": {("output", "offsets_per_partition")} | OF_BACKUPS | OF_TABLES,
    "table": OF_BACKUPS | OF_OTHERS,
}
"""The keys that a kind of group does not have."""

KEY = re.compile(r"#?([a-z_0-9]+) = ")
RULES = {("topics",), ("tables",)}


@pytest.fixture(params=["backup", "partition", "table"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / f"{kind}.toml"
    path.write_text(full_example(kind))
    return path


def uncommented(text: str) -> str:
    return re.sub(r"^#(?=[a-z_0-9]+ = )", "", text, flags=re.MULTILINE)


def keys_in(text: str) -> list[tuple[str, ...]]:
    found, table = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            table = "" if line.startswith("[[") else line.strip("[]")
        elif not table:
            continue
        elif match := KEY.match(line):
            found.append((*table.split("."), match[1]))
    return found


def test_the_example_loads_without_a_warning(kind: str, example: Path) -> None:
    config = load(example, {})
    assert config.group.kind == kind
    assert config.warnings == ()


def test_the_example_names_every_key_once(kind: str, example: Path) -> None:
    absent = {*RULES, *ABSENT[kind]}
    known = [key for key in schema.every_key() if key not in absent]
    assert sorted(keys_in(example.read_text())) == sorted(known)


def test_every_commented_value_is_the_default(example: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.toml"
    whole.write_text(uncommented(example.read_text()))
    shown = load(whole, {})
    assert shown.model_dump() == load(example, {}).model_dump()
    assert shown.source("policy.max_age") == "file"


def test_every_key_of_the_example_has_a_comment_above_it_or_above_its_neighbours(
    example: Path,
) -> None:
    paragraph_has_words = False
    for line in example.read_text().splitlines():
        if line.startswith("# "):
            paragraph_has_words = True
        elif not line or re.match(r"\[\w", line):
            paragraph_has_words = False
        elif KEY.match(line):
            assert paragraph_has_words, line


@pytest.mark.parametrize("rule", ["audit-1"])
def test_the_rule_in_the_closing_comment_works(rule: str, example: Path, tmp_path: Path) -> None:
    text = example.read_text()
    closing = text[text.index("# [[topics]]") :].replace("# ", "")
    assert closing.startswith("[[topics]]")
    path = tmp_path / "rules.toml"
    path.write_text(text + closing)
    chosen = load(path, {}).for_topic(rule)
    if load(path, {}).group.kind == "table":
        assert chosen.parser.decoder == "messagepack"
    else:
        assert (chosen.output.format, chosen.output.codec) == ("parquet", "zstd")
    assert chosen.policy.max_age == 3600
    assert isinstance(load(path, {}), Config)


def test_the_example_of_tables_names_every_key_of_a_route() -> None:
    text = full_example("table")
    route = text[text.index("[[tables]]") : text.index("# [[topics]]")]
    missing = [name for name in TableRoute.model_fields if not re.search(rf"\b{name}\b", route)]
    assert missing == []


def test_the_example_of_rows_that_are_changed() -> None:
    config = load(CONFIG / "table-upsert.toml", {})
    assert config.warnings == ()
    assert [route.mode for route in config.tables] == ["upsert", "upsert", "cdc"]
    assert config.changes_rows
    assert config.tables[2].takes("orders.public.orders")


def test_a_new_partition_group_records_what_verify_needs_for_the_full_proof() -> None:
    assert load(CONFIG / "partition.toml", {}).output.metadata_columns == ("_partition", "_offset")
    assert BEGINNINGS["partition"]["output"]["metadata_columns"] == ["_partition", "_offset"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_passes_the_check(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ((CONFIG / f"{name}.toml").read_text(), full_example(name)):
        for written in (text, uncommented(text)):
            path = tmp_path / f"{name}.toml"
            path.write_text(written)
            assert main.run(["config", "check", str(path)]) == 0
            assert capsys.readouterr() == (f"{path}: valid\n", "")


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_key_of_an_example_is_explained_once(name: str) -> None:
    lines = (CONFIG / f"{name}.toml").read_text().splitlines()
    explained: set[str] = set()
    for before, line in pairwise(lines):
        if match := KEY.match(line):
            assert before.startswith("# ") or match[1] in explained, line
            explained.add(match[1])
    assert len(lines) < 130
    assert max(map(len, lines)) < 120


def test_the_same_settings_with_every_key(tmp_path: Path) -> None:
    for name in ("backup", "partition", "table", "table-upsert", "table-hudi"):
        path = tmp_path / f"{name}.toml"
        path.write_text(full_example(name))
        assert load(path, {}).model_dump() == load(CONFIG / f"{name}.toml", {}).model_dump()


def test_an_example_with_every_key_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("backup", "backup.toml", "config/backup.toml"):
        assert main.run(["config", "example", "--full", name]) == 0
        assert capsys.readouterr().out == full_example("backup")
    assert main.run(["config", "example", "--full", "secor@.service"]) == Exit.CONFIGURATION
    assert "table-hudi, restore" in capsys.readouterr().err
    assert main.run(["config", "example", "--full"]) == Exit.CONFIGURATION
